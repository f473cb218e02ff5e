"""One run of a multirun."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from variations.configuration.schema import RunConfig
from variations.store.naming import run_folder


@dataclass(frozen=True)
class Job:
    """One run of a multirun."""

    row: str
    seed: int
    overrides: tuple[str, ...]
    """Overrides that compose this run in any process."""
    config: Any
    folder: Path


def make_job(row: str, overrides: Sequence[str], config: RunConfig, seed: int) -> Job:
    """The run of a composed row with this seed."""
    config = dataclasses.replace(config, seed=seed)
    return Job(row, seed, (*overrides, f"seed={seed}"), config, run_folder(config))
