"""Beam search for any model that can decode one step at a time."""
