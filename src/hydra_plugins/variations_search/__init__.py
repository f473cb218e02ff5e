"""`hydra/sweeper=optuna`."""
