"""Schedules, losses, branch weights and checkpoints."""
