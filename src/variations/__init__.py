"""Variations: an experiment platform for sequence-to-sequence ablations."""

__version__ = "0.1.0"
