"""Corpora, sub-words and batches."""
