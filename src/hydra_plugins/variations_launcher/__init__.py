"""Where the rows of a sweep run: `hydra/launcher=local`, and others beside it."""
