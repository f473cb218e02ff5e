"""Beam search over anything that can decode one step at a time."""
