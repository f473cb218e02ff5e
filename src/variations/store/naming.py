"""Where a run lives: `runs/<sweep>/<row>/seed<k>`, or `runs/single/<name>/seed<k>` outside a sweep."""

import dataclasses
import re
from pathlib import Path

from variations.configuration.compose import to_dict
from variations.configuration.schema import RunConfig
from variations.configuration.tasks import named
from variations.store.ledger import config_hash, run_home

GRID = "grid"
"""Name of the sweep that a plain grid (`--multirun model=transformer,weighted`) makes, unless it has a `sweep.name`."""
LONGEST = 120


def run_folder(config: RunConfig) -> Path:
    """Return the home of a run: the same for the same configuration.

    Raises:
        UserError: A name contains a slash or could otherwise leave the run store.
    """
    sweep, row = config.sweep.name, config.name or config.variation.row
    return run_home(Path(config.runs).expanduser(), seed=config.seed, sweep=sweep, row=row, name=run_name(config))


def run_name(config: RunConfig) -> str:
    """Return `name`, or a name made of the main choices and the identity: `weighted-N2-d128-toy-quick-1a2b3c4d`.

    Runs that differ only in the seed share it.
    """
    if config.name is not None:
        return config.name
    parts = [*named(config.task).label(config), config.recipe.name]
    if config.variation.row is not None:
        parts.insert(0, config.variation.row)
    if config.debug.name is not None:
        parts.append(config.debug.name)
    identity = config_hash(to_dict(dataclasses.replace(config, seed=1)))
    return safe_name("-".join([*parts, identity[:8]]), identity[:8])


def safe_name(text: str, identity: str = "", longest: int | None = LONGEST) -> str:
    """Return `text` as a folder's name: letters, digits and `-_.=,+`; a long one is cut and ends in `identity`."""
    name = re.sub(r"[^\w.=,+-]+", "_", text, flags=re.ASCII).lstrip("._").rstrip("_") or "run"
    return name if longest is None or len(name) <= longest else f"{name[: longest - 9]}-{identity}"[:longest]
