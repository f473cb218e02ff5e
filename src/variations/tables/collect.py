"""Reads a table's runs from the store: for each row and seed its newest finished attempt, or why there is none."""

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from variations.configuration.tasks import DEFAULT, named, names, task_of
from variations.store.atomic import read_stored, stored_path
from variations.store.contents import config_fault, exchanged, intact_measurements, misplaced, result_fault
from variations.store.inputs import made_from
from variations.store.ledger import RunFolder, latest, run_home
from variations.store.row_files import with_sizes
from variations.store.rows import RowDefinition, SweepDefinition, in_short, row_definition, told_apart
from variations.system.errors import ConfigError, UserError
from variations.system.rounding import decimal, whole
from variations.tasks.base import CurveReader, Measure, TestedRun
from variations.tasks.intact import damage
from variations.tasks.task import Task

BUDGET = {"steps": 0.0, "source_tokens": 0.01, "target_tokens": 0.01, "dropped_pairs": 0.0}
"""Costs that must be equal in a row and its base row, each with the relative difference that is tolerated."""

NO_RESULT = "finished without result.json"

GROUPS = ("model", "positions", "branch", "data", "recipe", "trainer", "decode", "debug", "variation", "sweep")
"""Parts of a configuration that have keys."""


@dataclass(frozen=True)
class Summary:
    """Mean and sample standard deviation (n - 1) over seeds; `sd` is None for one seed."""

    mean: float
    sd: float | None
    n: int

    def text(self, digits: int) -> str:
        """`26.10 ± 0.12`; without a spread for one seed."""
        return decimal(self.mean, digits) + (f" ± {decimal(self.sd, digits)}" if self.sd is not None else "")


@dataclass
class SeedRun:
    """One row under one seed."""

    seed: int
    state: str
    """finished, running, failed, interrupted, absent (never started), broken (cannot be read)."""
    reason: str | None = None
    folder: Path | None = None
    config: dict[str, Any] = field(default_factory=dict)
    result: dict[str, Any] = field(default_factory=dict)
    step: int | None = None
    curve: CurveReader | None = None
    inputs: Mapping[str, str] = field(default_factory=dict)
    """SHA-256 of each input (texts, vocabulary, ids) by name, as far as known."""
    measured: bool = True
    """Whether it has measurements."""
    _references: dict[str, str | None] = field(default_factory=dict)

    @cached_property
    def tested(self) -> TestedRun | None:
        """The run as its task takes it; None without a folder."""
        return TestedRun(RunFolder(self.folder), self.config, self.result, self.curve) if self.folder else None

    def references(self, task: Task, name: str) -> str | None:
        """The fingerprint of a tested set's references; None where there are none. Looked up once for all measures."""
        if self.tested is not None and name not in self._references:
            self._references[name] = task.references(self.tested.folder, name)
        return self._references.get(name)

    @property
    def finished(self) -> bool:
        """Whether the run is finished, so that its result counts."""
        return self.state == "finished" and bool(self.result)

    def describe(self) -> str:
        """Its state in words: `failed (loss is not finite)`, `running (40 % of 1,200 steps)`, `missing`."""
        if self.state == "absent":
            return "missing"
        detail = self.reason
        total = (self.config.get("trainer") or {}).get("max_steps")
        if self.state in {"running", "interrupted", "queued"} and self.step is not None and total:
            part = f"{100 * self.step / total:.0f} % of {total:,} steps"
            detail = "testing" if self.state == "running" and self.step >= total else part
        return f"{self.state} ({' '.join(detail.split())})" if detail else self.state


@dataclass
class Row:
    """A row with its runs."""

    definition: RowDefinition
    runs: list[SeedRun]

    @property
    def finished(self) -> list[SeedRun]:
        """The finished runs."""
        return [run for run in self.runs if run.finished]

    @property
    def config(self) -> dict[str, Any]:
        """The configuration of the first run that has one; empty if there is none."""
        return next((run.config for run in [*self.finished, *self.runs] if run.config), {})

    @property
    def tested(self) -> list[TestedRun]:
        """Runs that count, for their task."""
        return [run.tested for run in self.finished if run.tested is not None]

    @property
    def parameters(self) -> int | None:
        """Trainable parameters, as measured."""
        return next((run.result.get("parameters") for run in self.finished), None)

    def values(self, measure: Measure) -> dict[int, float]:
        """The measured value for each finished seed."""
        pairs = {run.seed: measure.value(run.result) for run in self.finished}
        return {seed: value for seed, value in pairs.items() if value is not None}

    def cost(self, key: str, seeds: Container[int] | None = None) -> float | None:
        """Mean over seeds (None: all that are finished) of a top-level number of result.json, such as `seconds`."""
        runs = [run for run in self.finished if seeds is None or run.seed in seeds]
        found = [run.result[key] for run in runs if isinstance(run.result.get(key), int | float)]
        return fmean(found) if found else None

    def other_budget(self, base: "Row") -> list[str]:
        """A phrase for each cost in which the seeds that both rows have differ: `steps 600 v. 1,200`."""
        found = []
        common = {run.seed for run in self.finished} & {run.seed for run in base.finished}
        for key, tolerance in BUDGET.items():
            ours, theirs = self.cost(key, common), base.cost(key, common)
            if ours is not None and theirs is not None and abs(ours - theirs) > tolerance * max(abs(theirs), 1):
                found.append(f"{key.replace('_', ' ')} {whole(ours)} v. {whole(theirs)}")
        return found


def table_task(rows: Sequence[Row]) -> Any:
    """The task of a table: that of its runs, else the one that its rows name, else the default task."""
    configs = [row.config for row in rows if row.config]
    if configs:
        return task_of(configs[0])
    stated = {row.definition.task for row in rows if not row.definition.quoted}
    known = sorted(stated.intersection(names()))
    return named(known[0] if len(known) == 1 else DEFAULT)


def of_other_task(row: Row, task: Any) -> str | None:
    """The task of a row, if it is not the one of its table; None if it is, or if it is unknown."""
    stated = row.config.get("task") or (row.definition.task if row.definition.table else None)  # none: no row file
    return str(stated) if stated not in (task.name, None) else None


def summary(values: list[float]) -> Summary | None:
    """Mean and standard deviation; None for an empty list."""
    if not values:
        return None
    return Summary(fmean(values), stdev(values) if len(values) > 1 else None, len(values))


def paired(row: dict[int, float], base: dict[int, float]) -> Summary | None:
    """Mean difference of a row from its base row over common seeds."""
    return summary([row[seed] - base[seed] for seed in sorted(row.keys() & base.keys())])


@dataclass(frozen=True)
class Stored:
    """What a table needs from a run's files."""

    state: str
    config: dict[str, Any]
    result: dict[str, Any]
    reason: str | None = None
    step: int | None = None
    curve: CurveReader | None = None
    """Knows the run's curves; None: they are read from its folder."""
    inputs: Mapping[str, str] = field(default_factory=dict)
    """As of SeedRun."""
    measured: bool = True
    """As of SeedRun."""


def stored(folder: RunFolder) -> Stored:
    """Read a run's files. Raises UserError if they cannot be read, are not those of a run, or nobody has its task."""
    status, config, result = folder.status(), folder.config(), folder.result()
    if fault := misfit(folder, config, result) or absent_task(config):
        raise UserError(fault)
    reason, step = (status.reason, status.step) if status else (None, None)
    state, inputs = folder.shown_state(), made_from(folder)
    measured = has_measurements(folder, result or {})
    return Stored(state, config, result or {}, reason, step, inputs=inputs, measured=measured)


def absent_task(config: Mapping[str, Any]) -> str | None:
    """That nobody here has the task of a stored run, and what to do; None if somebody has."""
    try:
        task_of(config)
    except ConfigError as error:
        return error.faults[0]
    return None


def has_measurements(folder: RunFolder, result: Mapping[str, Any]) -> bool:
    """Whether metrics.jsonl, or its compressed form in a record, is the file that belongs to a result."""
    if stored_path(folder.measurements.path) is None:
        return False
    try:
        return intact_measurements(read_stored(folder.measurements.path), result)
    except OSError:  # a part is missing
        return False


@dataclass(frozen=True)
class Reader:
    """How the runs of a table are found and read: from the disk, or as somebody knows them."""

    find: Callable[[Path], RunFolder | None] = latest
    """Finds the attempt of a home that is to be read, as `latest` does."""
    read: Callable[[RunFolder], Stored] = stored
    """Reads a run as `stored` does; raises UserError for one that cannot or must not be read."""


DISK = Reader()


def collect(sweep: SweepDefinition, store: Path, reader: Reader = DISK) -> list[Row]:
    """Every row of `sweep` with one SeedRun for each wanted seed. A run that `reader` refuses is named in its cell."""
    rows = [_row(definition, sweep, store, reader) for definition in sweep.rows]
    names, _ = in_short([row.row for row in sweep.of or sweep.rows])
    for row in rows:
        if row.definition.label == row.definition.row:
            row.definition = replace(row.definition, label=names[row.definition.row])
    for row, definition in zip(rows, told_apart([row.definition for row in rows], sweep.of), strict=True):
        row.definition = definition  # several rows of a grid may be one row of a table
    return rows


def strangers(sweep: SweepDefinition, store: Path) -> list[str]:
    """Folders in the sweep's folder that contain runs, but are not rows of the sweep."""
    folder = store / sweep.name
    known = {row.row for row in (*sweep.rows, *sweep.of)}
    return sorted({place.parent.name for place in folder.glob("*/seed*/") if place.parent.name not in known})


def misfit(folder: RunFolder, config: Mapping[str, Any], result: Mapping[str, Any] | None) -> str | None:
    """Why stored files are not those of this run, although they can be read; None if they are."""
    if fault := misplaced(folder.path, config):
        return fault
    if not config.get("trainer"):
        return "config.yaml is not complete: it has no trainer"
    for key in GROUPS:
        if not isinstance(config.get(key) or {}, Mapping):
            return f"config.yaml: {key} does not contain keys and values"
    return config_fault(config) or result_fault(result or {}, config.get("task")) or exchanged(config, result or {})


def unfit(folder: RunFolder) -> str | None:
    """Why the files of a tested run do not fit together; None if they do, or if it is no run or not tested yet."""
    if not folder.exists() or not (result := folder.result()):
        return None
    config = folder.config()
    return misfit(folder, config, result) or damage(TestedRun(folder, config, result))


def _row(definition: RowDefinition, sweep: SweepDefinition, store: Path, reader: Reader) -> Row:
    seeds = () if definition.quoted else sweep.seeds
    homes = {seed: run_home(store, sweep=sweep.name, row=definition.row, seed=seed) for seed in seeds}
    runs = [_seed_run(home, seed, reader) for seed, home in homes.items()]
    runs = [run for run in runs if run.state != "absent" or run.seed not in sweep.unasked]
    row = Row(definition, runs)
    without_file = definition.table is None and definition.label == definition.row
    if without_file and row.config.get("variation"):
        found = row_definition(definition.row, row.config["variation"])
        row.definition = replace(found, base=definition.base or found.base)
    if variation := row.config.get("variation"):
        row.definition = replace(row.definition, label=with_sizes(row.definition.label, variation, row.config))
    return row


def _seed_run(home: Path, seed: int, reader: Reader) -> SeedRun:
    folder = reader.find(home)
    if folder is None:
        return SeedRun(seed, "absent")
    try:
        run = reader.read(folder)
    except UserError as error:
        return SeedRun(seed, "broken", str(error), folder.path)
    if run.state == "finished" and not run.result:
        return SeedRun(seed, "broken", NO_RESULT, folder.path, run.config)
    facts = (run.reason, folder.path, run.config, run.result, run.step, run.curve, run.inputs, run.measured)
    return SeedRun(seed, run.state, *facts)


# Costs ----------------------------------------------------------------------------------------------------------------


def device(run: SeedRun) -> str | None:
    """`GPU` or `CPU`, from the result, or else from the configuration; None if unknown."""
    hardware = run.result.get("hardware")
    kind = hardware.get("accelerator") if isinstance(hardware, dict) else hardware
    kind = kind or (run.config.get("trainer") or {}).get("accelerator")
    if kind == "auto":
        return "GPU" if _gpus(run) else "CPU"
    return {"gpu": "GPU", "cuda": "GPU", "cpu": "CPU"}.get(str(kind).lower())


def gpu(run: SeedRun) -> str | None:
    """The name of the GPU that trained a run, as its driver gives it; None on a CPU, or if it is not known."""
    hardware = run.result.get("hardware")
    name = hardware.get("device") if isinstance(hardware, dict) and device(run) == "GPU" else None
    return name if isinstance(name, str) else None


def trained_since(source: RunFolder, run: RunFolder) -> bool:
    """Whether a network has been trained anew in its folder since another run tested its weights."""
    now, then = source.status(), run.status()
    return now is not None and then is not None and (now.started or "") > (then.updated or "~")


def trained_itself(result: Mapping[str, Any]) -> bool:
    """Whether a run has the costs in its result by itself: it was not copied, and tests no other run's weights."""
    return not (result.get("reused") or result.get("copied"))


def device_hours(run: SeedRun) -> float | None:
    """Elapsed hours of training times devices (GPUs, or processes on CPUs), over all nodes."""
    seconds = run.result.get("seconds")
    if not isinstance(seconds, int | float):
        return None
    trainer, hardware = run.config.get("trainer") or {}, run.result.get("hardware")
    measured = hardware.get("devices") if isinstance(hardware, dict) else None  # of all nodes together
    configured = _count(trainer.get("devices")) * _count(trainer.get("nodes"))
    return seconds / 3600 * (_count(measured) if measured else configured)


def row_hours(row: Row) -> tuple[float, str] | None:
    """Mean device-hours of a row's finished runs, and the device: `GPU`, `CPU`, or both if runs differ."""
    found = [(hours, device(run) or "device") for run in row.finished if (hours := device_hours(run)) is not None]
    if not found:
        return None
    return fmean(hours for hours, _ in found), "/".join(dict.fromkeys(name for _, name in found))


def _count(value: Any) -> int:
    return value if isinstance(value, int) and value > 0 else 1


def _gpus(run: SeedRun) -> list[str]:
    try:
        environment = RunFolder(run.folder).environment() if run.folder else None
    except UserError:
        return []
    found = (environment or {}).get("gpus")
    return found if isinstance(found, list) else []
