"""Tasks: what they share, and one package for each kind."""
