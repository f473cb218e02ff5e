"""A third-party package."""
