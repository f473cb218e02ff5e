"""What the verbs that read stored runs have in common: keys that name a sweep, and where their text goes."""

import os
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from variations.configuration import doors
from variations.configuration.places import SEED_FOLDER, SINGLE
from variations.configuration.schema import SweepConfig
from variations.configuration.suggestions import did_you_mean, listing, shortened
from variations.store.atomic import destination, told_if_unwritable, write_text
from variations.store.rows import SweepDefinition, define
from variations.system.errors import UserError

RECORDS = Path("records")
"""Where `record.py` writes, in the present folder."""


def root_of(runs: str) -> Path:
    """The root of a run store, which need not exist.

    Raises:
        UserError: It is a file or the folder of one run, or may not be read.
    """
    root = Path(runs).expanduser()
    if root.exists() and not root.is_dir():
        raise UserError(f"runs={runs} is a file: give the root of the run store.")
    if root.is_dir() and not os.access(root, os.R_OK | os.X_OK):
        raise UserError(f"runs={runs} may not be read: change its permissions or its owner.")
    if (root / "config.yaml").is_file():
        raise UserError(f"runs={runs} is the folder of one run: give the root of the run store, some folders up.")
    return root


def existing_root(runs: str, what: str) -> Path:
    """`root_of`, which must exist; `what` says what to give instead. Raises UserError if it does not."""
    root = root_of(runs)
    if not root.is_dir():
        raise UserError(f"runs={runs}: there is no such folder. Give {what}.")
    return root


def _below_a_root(folder: Path) -> str | None:
    """Which folder below the root of a run store this is, and which root to give; None if it is none, or unknown."""
    if any(folder.glob("*/*/seed*/")):  # it has sweeps, beside which there may be stray runs
        return None
    for what, pattern, up in (("sweep", "*/seed*/", ".."), ("row", "seed*/", "../..")):
        if any(SEED_FOLDER.fullmatch(path.name) for path in folder.glob(pattern)):
            root = shlex.quote(os.path.normpath(folder / up))
            return f"the folder of one {what}: give runs={root}, the root of the run store."
    return None


@dataclass
class SweepKeys:
    """A sweep whose runs are stored."""

    sweep: SweepConfig = field(default_factory=SweepConfig)
    """The table: sweep=NAME names a file in sweeps/."""
    runs: str = "runs"
    """Root of the run store."""
    rows: list[str] | None = None
    """Only these rows."""
    seeds: list[int] | None = None
    """Only these seeds; null: those of the sweep file, and all others that have runs."""

    @property
    def store(self) -> Path:
        """Root of the run store."""
        return Path(self.runs).expanduser()

    @property
    def home(self) -> Path:
        """Folder of the sweep's runs."""
        return self.store / (self.sweep.name or "")

    def definition(self) -> SweepDefinition:
        """The rows and seeds that are meant.

        Raises:
            UserError: No sweep is named, or it has no such rows.
        """
        if not self.sweep.name:
            named, others = self._stored()
            runs = [*(f"sweep={name}" for name in named), *(f"sweep.name={name}" for name in others)]
            told = f" {self.store} has runs of {', '.join(runs)}." if runs else ""
            raise UserError(f"Which sweep? Give sweep=NAME, such as sweep=quickstart; {listing()}.{told}")
        self._look()
        return define(self.sweep, rows=self.rows, seeds=self.seeds, store=self.store)

    def _look(self) -> None:
        """See that the run store is one. Raises UserError; only warns of the usual folder, which may still come."""
        if self.runs != SweepKeys.runs:
            existing_root(self.runs, "the root of the run store")
        there = root_of(self.runs).is_dir()
        if (self.store / str(self.sweep.name)).is_dir():
            return
        if fault := _below_a_root(self.store):
            raise UserError(f"runs={self.runs} is {fault}")
        if (RECORDS / str(self.sweep.name)).is_dir():
            sys.stderr.write(
                f"No run of sweep {self.sweep.name} is in {self.runs}; runs={RECORDS} has recorded ones.\n"
            )
        elif there:
            self._name_others()
        else:
            sys.stderr.write(f"There are no runs yet: no folder {self.runs} is in {Path.cwd()}.\n")

    def _stored(self) -> tuple[list[str], list[str]]:
        """Sweeps that have a folder in the store: those with a file in conf/sweep or sweeps/, and others."""
        folders = self.store.iterdir() if self.store.is_dir() else ()
        found = sorted(path.name for path in folders if not path.name.startswith(".") and path.is_dir())
        files = {path.stem for path in doors.files("sweep/*.yaml")}
        return [name for name in found if name in files], [name for name in found if name not in files]

    def _name_others(self) -> None:
        """If the store has runs, but none of this sweep, say of which: the name may be misspelt."""
        named, others = self._stored()
        found = sorted({*named, *others})
        if not found:
            return
        rows = {row.row for row in define(self.sweep).rows}
        others = [name for name in others if any((self.store / name / row).is_dir() for row in rows)]
        if others := [name for name in others if name != SINGLE]:  # this sweep's, under another name?
            near = did_you_mean(str(self.sweep.name), others)
            other = others[0] if len(others) == 1 else "NAME"
            advice = f" If you mean {shortened(others, ' or ')}, add sweep.name={shlex.quote(other)}.{near}"
        else:
            advice = f" It has runs of {shortened(found, ', ')}."
        sys.stderr.write(f"No run of sweep {self.sweep.name} is in {self.runs}.{advice}\n")


def put(text: str, out: str | None) -> None:
    """Write text to a file, and say which on standard error; without one, to standard output.

    Raises:
        UserError: The file cannot be written.
    """
    if out is None:
        sys.stdout.write(text)
        return
    path = Path(out).expanduser()
    with told_if_unwritable(path):
        write_text(destination(path), text)
    sys.stderr.write(f"{path}\n")


@contextmanager
def bar(words: str, total: int) -> Iterator[Callable[[], Any]]:
    """A bar on the terminal, and what moves it on; nothing is shown where standard error is a file."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    columns = (TextColumn(words), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as shown:
        task = shown.add_task("", total=total)
        yield lambda: shown.advance(task)
