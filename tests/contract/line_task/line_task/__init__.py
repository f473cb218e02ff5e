"""A third-party task: regression on a line."""
