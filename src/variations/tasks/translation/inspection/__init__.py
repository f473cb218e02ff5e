"""Attention maps of trained networks, recorded without changing what they compute."""
