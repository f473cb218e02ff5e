"""Searches with Optuna: what is varied, the study, its trials, and what they showed."""
