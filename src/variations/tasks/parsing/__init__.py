"""Constituency parsing as sequence to sequence: words in, a linearised tree out (Vinyals et al. 2015)."""
