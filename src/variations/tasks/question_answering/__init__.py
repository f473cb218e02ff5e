"""Answering questions about short stories: the bAbI tasks (Weston et al. 2015) and similar generated stories."""
