"""Answering questions about short stories: the bAbI tasks (Weston et al. 2015) and a small world of our own."""
