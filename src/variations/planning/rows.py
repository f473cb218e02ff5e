"""The rows of a plan (a sweep's, one run, or all rows of both papers), composed and checked, with their state."""

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import yaml

from variations.configuration.compose import compose_run, loader, to_dict
from variations.configuration.faults import faults
from variations.configuration.overrides import is_axis
from variations.configuration.places import CONF, SWEEPS
from variations.configuration.schema import RunConfig
from variations.configuration.suggestions import options
from variations.store.contents import refuse_damaged
from variations.store.differences import idle
from variations.store.ledger import RunFolder, workplace
from variations.store.naming import run_folder
from variations.store.own_code import inputs_here, refuse_changed_inputs, refuse_to_continue
from variations.store.rows import RowDefinition, crossed_name, load_row, row_definition, told_apart
from variations.sweeping.copies import name_of, same_run
from variations.sweeping.job import make_job
from variations.sweeping.jobs import composed_jobs, row_faults
from variations.sweeping.local import on_gpus
from variations.sweeping.outcomes import DONE, Outcome, other_inputs
from variations.sweeping.sources import Sources
from variations.sweeping.table_rows import table_rows, without_rows
from variations.system.errors import ConfigError, UserError

PAPERS = {
    "attention_table2": "Vaswani et al. 2017, Table 2",
    "attention_table3": "Vaswani et al. 2017, Table 3",
    "attention_table4": "Vaswani et al. 2017, Table 4",
    "weighted_table1": "Ahmed et al. 2017, Table 1",
    "weighted_table2": "Ahmed et al. 2017, Table 2",
    "weighted_table3": "Ahmed et al. 2017, Table 3",
    "weighted_claims": "Ahmed et al. 2017, claims of the text, and missing controls",
}
"""The papers' tables, by folder of conf/variation."""


@dataclass(frozen=True)
class Launch:
    """One run of a row."""

    seed: int
    state: str
    """`finished`, `pruned`, `running`, `interrupted`, `failed`, `absent`, or `refused`."""
    done: float = 0.0
    """Fraction of the updates done at its newest checkpoint."""
    source: str = ""
    """The finished run `sweep/row` that will be copied (`sweep.shares`)."""
    reason: str = ""
    """Why it will be refused."""
    blocks: bool = False
    """Whether its sweep then starts no run at all."""

    @property
    def left(self) -> bool:
        """Whether the same command would run it."""
        return self.state not in ("finished", "pruned", "refused")


def launch(config: RunConfig) -> Launch:
    """The state of a run from its folder; `refused` where `train` does not take it for this run."""
    folder = RunFolder(workplace(run_folder(config), config))
    if not folder.exists():
        source = same_run(config)
        if source is None:
            return Launch(config.seed, "absent")
        return Launch(config.seed, "finished", 1.0, name_of(source).rpartition("/")[0])
    blocks = config.sweep.name is not None
    try:
        state = folder.state()
        folder.refuse_change(to_dict(config), certain=False)
        if compared := state not in DONE and inputs_here(config):
            refuse_changed_inputs(config, folder)
        blocks = False
        if state == "finished" and not folder.finished():  # without a result it is tested again
            return Launch(config.seed, "interrupted", 1.0)
        if state == "finished":
            refuse_damaged(folder.path, folder.result() or {}, config.task, folder.config())
        elif state != "pruned":
            refuse_to_continue(config, folder, compared=compared)
    except UserError as error:
        return Launch(config.seed, "refused", reason=str(error).rstrip("."), blocks=blocks)
    if state == "finished":
        return Launch(config.seed, state, 1.0)
    newest = folder.newest_checkpoint() or 0
    return Launch(config.seed, state, min(1.0, newest / config.trainer.max_steps))


@dataclass(frozen=True)
class Planned:
    """A row of a plan."""

    table: str
    definition: RowDefinition
    config: RunConfig | None = None
    """None for a quoted system."""
    base: RunConfig | None = None
    """Configuration of its base row; None for a base row."""
    launches: tuple[Launch, ...] = ()
    """Its runs; empty in the list of both papers' rows, which launches nothing."""
    at_once: int = 1
    """Number of runs that share the machine; 1 for `sweep.at_once=auto` until it is measured."""

    trains_itself: bool = False
    """Whether it trains, although it names a row to test: that one is not launched or finished, or not alike."""

    @property
    def name(self) -> str:
        """`table/row`, or only the row's name."""
        return f"{self.table}/{self.definition.row}" if self.table else self.definition.row

    @property
    def reuses(self) -> str | None:
        """The row whose checkpoint it tests, without training."""
        if self.config is None or not self.config.sweep.reuse or self.trains_itself:
            return None
        return self.config.variation.reuse

    @property
    def left(self) -> list[Launch]:
        """Its runs that the launch would execute."""
        return [run for run in self.launches if run.left]


def all_rows(tables: Sequence[str] | None = None, *, trainable: bool = False) -> list[tuple[str, str]]:
    """Return `(table, row)` of every row in conf/variation, base rows first, then in the order of the table's sweep.

    Args:
        tables: Folders of conf/variation; None: all.
        trainable: Leave out quoted systems.
    """
    folder, found = CONF / "variation", []
    for table in tables if tables is not None else sorted(item.name for item in folder.iterdir() if item.is_dir()):
        rows = [load_row(path.stem, table) for path in (folder / table).glob("*.yaml")]
        rows.sort(key=lambda d: (d.quoted, d.base not in (None, d.row), d.group or "", d.row))
        sweep = SWEEPS / f"{table}.yaml"
        listed = yaml.safe_load(sweep.read_text(encoding="utf-8")).get("rows") or [] if sweep.is_file() else []
        rows.sort(key=lambda d: listed.index(d.row) if d.row in listed else len(listed))
        found += [(table, d.row) for d in rows if not trainable or not d.quoted]
    return found


def plan_rows(overrides: Sequence[str]) -> list[Planned]:
    """Return the rows that `train.py` would run with these overrides; without any, all rows of both papers.

    Keys with several values cross a sweep's rows, or make a grid, as they do with `train.py --multirun`.

    Raises:
        ConfigError: The faults of all rows at once.
    """
    if any(line.lstrip("+").startswith("sweep.search.") for line in overrides):
        _refuse([without_rows("a search")])
    axes = [line for line in overrides if is_axis(line, loader())]
    if axes or any(line.startswith("sweep=") for line in overrides):
        return _multirun(overrides, [line for line in overrides if line not in axes])
    if overrides:
        config = compose_run(overrides)
        _refuse(faults(config) + [fault.text for fault in idle(overrides, [config])])
        if config.sweep.name is not None and config.name is None and config.variation.row is None:
            _refuse(
                [
                    f"sweep.name={config.sweep.name} names several runs: add sweep=NAME, or several values of a key, "
                    "or name one row with variation=TABLE/ROW."
                ]
            )
        _warn_of_other_inputs([Outcome.of(make_job(config.name or "run", overrides, config, config.seed))])
        return [replace(_planned(config, {}, overrides), launches=(launch(config),), trains_itself=True)]
    return _papers()


def _papers() -> list[Planned]:
    pairs = all_rows(tuple(PAPERS))
    definitions = {pair: load_row(pair[1], pair[0]) for pair in pairs}
    run = [pair for pair in pairs if not definitions[pair].quoted]
    # A composition takes a tenth of a second, and there are about sixty.
    with ProcessPoolExecutor(min(4, os.cpu_count() or 1)) as pool:
        composed = dict(zip(run, pool.map(_compose, run, chunksize=4), strict=True))
    configs = {pair: found for pair, found in composed.items() if isinstance(found, RunConfig)}
    wrong = {pair: found for pair, found in composed.items() if isinstance(found, list)}
    problems = [f"row {'/'.join(pair)}: {fault}" for pair, found in wrong.items() for fault in found]
    named = {"/".join(pair): config for pair, config in configs.items()}
    # No data folder and no sweep has been named.
    _refuse(problems + row_faults(named, lambda keys: any(key.startswith(("data.", "sweep.")) for key in keys)))
    quoted = {pair: Planned(pair[0], definitions[pair]) for pair in pairs if pair not in configs}
    return [quoted.get(pair) or _planned(configs[pair], configs, ()) for pair in pairs]


def _compose(pair: tuple[str, str]) -> RunConfig | list[str]:
    """Return a row's configuration, or its faults (such exceptions cannot be passed between processes)."""
    try:
        config: RunConfig = compose_run([f"variation={'/'.join(pair)}"])
        return config
    except ConfigError as error:
        return error.faults


def _multirun(overrides: Sequence[str], plain: Sequence[str]) -> list[Planned]:
    """Rows of a sweep or a grid; `plain` are the overrides without those that list several values."""
    lines, head = list(overrides), compose_run(plain)
    swept = any(line.startswith("sweep=") for line in lines)
    rows = dict(table_rows(head)) if swept else {}
    table = head.sweep.table or head.sweep.name or ""
    quoted = {row: definition for row, ref in rows.items() if (definition := load_row(ref, table)).quoted}
    wanted = [row for row in rows if row not in quoted]
    if head.rows is not None:  # named rows: quoted ones are shown as well, but never composed as a run
        lines = [line for line in lines if not line.startswith("rows=")] + [f"rows=[{','.join(wanted)}]"]
    every = composed_jobs(tuple(lines)) if wanted or not swept else ()
    jobs: dict[str, Any] = {}
    for job in every:
        jobs.setdefault(job.row, job)  # seeds share their row's configuration
    unused = [fault.text for fault in idle(overrides, [job.config for job in jobs.values()])]
    _refuse(row_faults({row: job.config for row, job in jobs.items()}) + unused)
    configs = {(job.config.variation.table or "", row): job.config for row, job in jobs.items()}
    outcomes = [Outcome.of(job) for job in every]
    sources = Sources(outcomes)
    at_once = 1 if on_gpus(head.trainer.accelerator) else (head.sweep.most or 1)
    found = []
    for row in rows or dict.fromkeys(job.row for job in every):
        if row in quoted:
            found.append(Planned(table, quoted[row]))
            continue
        for name in [name for name in jobs if name == row or (swept and name.startswith(crossed_name(row, "")))]:
            planned = _planned(jobs[name].config, configs, jobs[name].overrides)
            seeds = [outcome for outcome in outcomes if outcome.job.row == name]
            launches = tuple(launch(outcome.job.config) for outcome in seeds)
            alone = any(sources.trains_itself(outcome) for outcome in seeds)
            found.append(replace(planned, launches=launches, at_once=at_once, trains_itself=alone))
    _warn_of_other_inputs(outcomes)
    return _compared_with_the_first(found) if swept else _of_a_grid(found, [*jobs])


def _of_a_grid(rows: list[Planned], names: Sequence[str]) -> list[Planned]:
    """The rows of a grid, with their names in it: several may be one row of a table."""
    renamed = [replace(row.definition, row=name) for row, name in zip(rows, names, strict=True)]
    return [replace(row, definition=found) for row, found in zip(rows, told_apart(renamed), strict=True)]


def _warn_of_other_inputs(outcomes: Iterable[Outcome]) -> None:
    """Say which finished runs were made from other texts or classes than the present ones."""
    for warning in other_inputs(outcomes):
        print(f"warning: {warning}", file=sys.stderr)


def _compared_with_the_first(rows: list[Planned]) -> list[Planned]:
    """The rows of a sweep; as in its table, a row that names no base row is compared with the first."""
    first = rows[0].config if rows else None
    return [
        replace(row, base=first)
        if first is not None and row.config is not None and row is not rows[0] and row.config.variation.base is None
        else row
        for row in rows
    ]


def _planned(config: RunConfig, known: Mapping[tuple[str, str], RunConfig], overrides: Sequence[str]) -> Planned:
    v, base = config.variation, None
    if v.table is not None and v.base not in (None, v.row):
        base = known.get((v.table, v.base or ""))
        if base is None and f"{v.table}/{v.base}" in options(loader(), "variation"):
            rest = [line for line in overrides if not line.startswith("variation=")]
            base = compose_run([*rest, f"variation={v.table}/{v.base}"])
        if base is None:  # a sweep may compare it with a row of another table
            base = next((other for (_, row), other in known.items() if row == v.base), None)
    words = {name: getattr(v, name) for name in RowDefinition.__dataclass_fields__ if name != "row"}
    return Planned(v.table or "", row_definition(v.row or config.name or "run", words), config, base)


def _refuse(faults: Sequence[str]) -> None:
    if faults:
        raise ConfigError(list(faults))
