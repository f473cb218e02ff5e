"""Searches with Optuna: the space, the study, its trials, and their results."""
