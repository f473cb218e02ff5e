"""Parallel text: corpora, sub-words, batches."""
