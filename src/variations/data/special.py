"""Identifiers of the special sub-words, the same in every vocabulary."""

PAD, BOS, EOS, UNK = 0, 1, 2, 3
