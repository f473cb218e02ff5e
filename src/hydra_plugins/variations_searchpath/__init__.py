"""Configuration files of other packages."""
