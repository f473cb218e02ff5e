"""Common code of translation and parsing: pairs of sequences, a network for them, its loss and its batches."""
