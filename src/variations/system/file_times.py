"""Whether a file's modification time tells of every change."""

import time

RECENT = 2_000_000_000
"""Nanoseconds within which changes may leave the modification time unchanged: some file systems count in seconds."""


def is_settled(modified: int) -> bool:
    """Whether a file or folder that was modified at `modified` (ns since the epoch) gets another time if it changes."""
    return modified < time.time_ns() - RECENT
