"""A task of somebody else's: regression on a line."""
