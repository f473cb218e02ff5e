"""Training: one update, the loop around it, checkpoints, callbacks and loggers."""
