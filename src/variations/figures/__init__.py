"""Figures of stored runs and of attention weights; they import no torch."""
