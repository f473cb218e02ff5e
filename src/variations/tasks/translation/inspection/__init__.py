"""Looks into trained networks without changing how they compute."""
