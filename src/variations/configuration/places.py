"""Where the configuration files are, and how commands are spelled.

In a checkout the files are in `conf/` and `sweeps/`, in an installed package in its copy of them. `_conf` is in
the package: a symbolic link to `conf/` in a checkout, a folder of files in a wheel. The sweeps are its group `sweep`,
which in a checkout is a link to `sweeps/`.
"""

import shlex
import sys
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
CONF = (PACKAGE / "_conf").resolve()
SWEEPS = CONF / "sweep"
IN_CHECKOUT = CONF.name == "conf"
"""Whether the code runs from a checkout, where the verbs are files in `src/`."""
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
