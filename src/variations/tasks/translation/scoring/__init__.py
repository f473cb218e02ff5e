"""Scores of stored hypotheses, each with its convention."""
