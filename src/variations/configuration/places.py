"""Where the configuration files are, and how commands are typed.

In a checkout the files are in `conf/` and `sweeps/`, in an installed package in a copy of them. The package contains
`_conf`: in a checkout a symbolic link to `conf/`, in a wheel a folder of files. The sweeps are its group `sweep`, in a
checkout a link to `sweeps/`.
"""

import re
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
CONF = (PACKAGE / "_conf").resolve()
SWEEPS = CONF / "sweep"
IN_CHECKOUT = CONF.name == "conf"
"""Whether the code runs from a checkout, where the verbs are files in `src/`."""
PROGRAM = "variations"
SEED_FOLDER = re.compile(r"seed(\d+)(?:-attempt(\d+))?")
"""Names of the folders of single seeds, and of their further attempts."""
SINGLE = "single"
"""The folder of runs outside a sweep, which are not compared with one another."""
LONGEST_NAME = 200
"""Bytes of a run's, a row's or a sweep's name; file systems allow 255, and some names get a suffix."""


def folder_fault(key: str, value: str) -> str | None:
    """Why the value of a key cannot name a folder of a run store; None if it can."""
    if not value.strip() or value.startswith(".") or re.search(r"[/\\\0-\x1f\x7f]", value):
        return f"{key}={value!r} cannot name a folder: use no slash, no line break and no dot at the start."
    if len(value.encode()) > LONGEST_NAME:
        return f"{key}={value[:20]}… is too long to name a folder: use at most {LONGEST_NAME} bytes."
    if SEED_FOLDER.fullmatch(value):
        return f"{key}={value}: folders of single seeds have such names; choose another."
    if value == SINGLE and key == "sweep.name":
        return f"{key}={value}: the folder of runs outside a sweep has this name; choose another."
    return None


def spelled(verb: str) -> str:
    """A verb as it is typed: `python src/train.py`; if that was typed, or outside a checkout, `variations train`."""
    if not IN_CHECKOUT or sys.argv[0].partition(" ")[0] == PROGRAM:
        return f"{PROGRAM} {verb}"
    return f"python src/{verb}.py"


def respelled(text: str) -> str:
    """A text with the verbs in it as they are typed here (`spelled`)."""
    return re.sub(r"python src/(\w+)\.py", lambda found: spelled(found[1]), text)


def same_line(typed: Sequence[str]) -> str:
    """The command that was typed, as `sys.argv` had it, to be repeated."""
    first, *rest = typed
    start = [first] if first.startswith(f"{PROGRAM} ") else [shlex.join(["python", first])]
    return " ".join([*start, *map(shlex.quote, rest)])
