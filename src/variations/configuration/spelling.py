"""Commands spelled as the user typed the present one, for help texts and messages."""

import shlex
import sys

from variations.configuration.places import IN_CHECKOUT

PROGRAM = "variations"


def spelled(verb: str) -> str:
    """A verb as one types it: `python src/train.py`, or `variations train` where that was typed or we are installed."""
    if not IN_CHECKOUT or sys.argv[0].partition(" ")[0] == PROGRAM:
        return f"{PROGRAM} {verb}"
    return f"python src/{verb}.py"


def same_line() -> str:
    """The line that was typed, to be typed again."""
    first, *rest = sys.argv
    start = [first] if first.startswith(f"{PROGRAM} ") else [shlex.join(["python", first])]
    return " ".join([*start, *map(shlex.quote, rest)])
