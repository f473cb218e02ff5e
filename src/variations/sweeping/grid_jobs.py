"""The runs of a plain grid of overrides; and the combinations of values that a table can be crossed with."""

import hashlib
import itertools
import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Glob, Override, RangeSweep

from variations.configuration.compose import compose_run, to_dict
from variations.configuration.hydra_door import Loader
from variations.configuration.overrides import typed_keys, values_of
from variations.configuration.schema import RunConfig
from variations.store.identity import config_hash, is_incidental
from variations.store.naming import GRID, LONGEST, run_folder, safe_name
from variations.store.row_files import fingerprint_of, shaping
from variations.store.rows import stored_config
from variations.sweeping.job import Job, make_job
from variations.system.errors import ConfigError, UserError

MOST_JOBS = 1000
NUMBER = re.compile(r"[-+]?((0|[1-9]\d*)(\.\d*)?|\.\d+)([eE][-+]?\d+)?")
AT_POINTS = "and start it with another sweep.name"
"""What to do about combinations of values that would share a folder."""


def grid_jobs(given: dict[str, Override]) -> list[Job]:
    """The runs of a grid. Raises ConfigError with all faults of its combinations."""
    varied = {key for key, override in given.items() if override.is_sweep_override()}
    picked = "variation" in given and isinstance(given["variation"].value(), Glob)
    jobs: list[Job] = []
    of_sweep, by_seed = "rows belong to a sweep, so add sweep=NAME", "a grid takes several as seed=1,2"
    table_words = {"rows": of_sweep, "sweep.rows": of_sweep, "seeds": by_seed, "sweep.seeds": by_seed}
    problems = name_faults(given)
    problems += [f"{text_of(given[key])} is for a table: {text}." for key, text in table_words.items() if key in given]
    composed: dict[tuple[str, ...], RunConfig] = {}
    folders: set[Path] = set()
    rows_by_home: dict[Path, dict[str, None]] = {}
    stored = KnownRows()
    too_long: list[str] = []
    stand_ins: dict[tuple[str, ...], str] = {}  # names in their place, while other faults are looked for
    for combination in combinations(given):
        lines = [line for line in combination if not line.startswith("seed=")]
        telling = [line for line in lines if line.partition("=")[0].lstrip("+") in varied]
        try:
            name = grid_row(lines, telling)
        except ConfigError as error:
            too_long = too_long or error.faults  # one tells what to change
            name = stand_ins.setdefault(tuple(lines), f"row{len(stand_ins)}")
        home = [] if "sweep.name" in given else [f"sweep.name={GRID}"]
        overrides = (*lines, *home, f"name='{name}'")
        try:
            config = composed.get(overrides) or composed.setdefault(overrides, _compose(overrides))
        except ConfigError as error:
            problems += [f"{' '.join(combination)}: {fault}" for fault in error.faults]
            continue
        if (former := stored.name(config)) != name:
            name, overrides = former, (*lines, *home, f"name='{former}'")
            config = replace(config, name=former)
        if picked and config.variation.quoted:
            continue  # another system's figures, which only a glob has matched
        shared = [line for line in lines if line not in telling]
        config.sweep.typed = shaping(shared, config)
        seeds = [int(line.partition("=")[2]) for line in combination if line.startswith("seed=")]
        job = make_job(name, overrides, config, seeds[0] if seeds else config.seed)
        rows_by_home.setdefault(job.folder.parent, {})[" ".join(telling)] = None
        jobs += [job] if job.folder not in folders else []  # each seed once, however it is spelled
        folders.add(job.folder)
    problems += [*shared_folders(rows_by_home, AT_POINTS), *too_long]
    if problems:
        raise ConfigError(problems)
    return jobs


class KnownRows:
    """The rows that sweeps have in the store, and those that were asked for before, by their configurations.

    A row is named after what was typed. The same may be typed in another order, or a value spelled in another way.
    """

    def __init__(self) -> None:
        self._rows: dict[Path, dict[str, list[tuple[str, object]]]] = {}

    def name(self, config: RunConfig) -> str:
        """The name of the row that has the configuration and the file of a run, the seed apart; else the run's own."""
        home = run_folder(config).parent
        if is_stored(home):
            return home.name
        file = (config.variation.table, config.variation.row)
        known = self._of(config)
        for name, other in known:
            if other == file:
                return name
        known.append((home.name, file))
        return home.name

    def names(self, config: RunConfig) -> list[str]:
        """The names of all stored rows that have the configuration of a run, the seed apart."""
        return [name for name, _ in self._of(config)]

    def _of(self, config: RunConfig) -> list[tuple[str, object]]:
        sweep = run_folder(config).parent.parent
        if sweep not in self._rows:
            self._rows[sweep] = _stored(sweep)
        return self._rows[sweep].setdefault(_hash(to_dict(config)), [])


def _stored(sweep: Path) -> dict[str, list[tuple[str, object]]]:
    """Name and file of each row below a sweep's folder, by its identity."""
    rows: dict[str, list[tuple[str, object]]] = {}
    try:
        folders = sorted(path for path in sweep.iterdir() if path.is_dir())
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        folders = []
    for row in folders:
        found = stored_config(row)
        try:
            variation = found.get("variation") or {}
            known = (row.name, (variation.get("table"), variation.get("row")))
            if found:
                rows.setdefault(_hash(found), []).append(known)
        except (UserError, TypeError, AttributeError):
            continue  # its task is not installed, or its keys are damaged, which is told where the row is read
    return rows


def is_stored(home: Path) -> bool:
    """Whether a row has its folder; one that this user has no permission to enter is told where its runs are read."""
    try:
        return home.exists()
    except PermissionError:
        return False


def _hash(config: Mapping[str, Any]) -> str:
    """The identity of a run, its seed apart."""
    return config_hash({**config, "seed": 1})


def _compose(overrides: Sequence[str]) -> RunConfig:
    config: RunConfig = compose_run(overrides)
    config.variation.sha256 = fingerprint_of(to_dict(config))
    return config


def combinations(given: dict[str, Override]) -> list[tuple[str, ...]]:
    """Every combination of values, one override a key.

    Raises:
        ConfigError: They are infinitely many, or too many, or their runs would share a folder.
    """
    for key, override in given.items():
        if override.is_sweep_override() and not override.is_discrete_sweep():
            search = "sweep.name=NAME sweep.search.trials=N sweep.search.baseline=TABLE/ROW"
            text = f"list values, as in 1,2,3, or search it (docs/search.md), with {search}."
            raise ConfigError([f"{override.input_line}: an interval is infinite: {text}"])
        if override.is_sweep_override() and key not in ("seed", "sweep", "name") and is_incidental(key, {}):
            raise ConfigError(
                [
                    f"{override.input_line}: {key} does not belong to what a run's folder is named after, so these "
                    "runs would share one: start the multirun once for each value, each time with another sweep.name."
                ]
            )
    each = [_each_value(override) for override in given.values()]
    count = math.prod(map(len, each))
    if count > MOST_JOBS:
        raise ConfigError([f"this grid has {count} runs; at most {MOST_JOBS} are started at once: list fewer values."])
    return list(itertools.product(*each))


def _each_value(override: Override) -> list[str]:
    if isinstance(override.value(), Glob) or isinstance(override._value, RangeSweep):
        return [f"{override.get_key_element()}={value}" for value in values_of(override)]
    if not override.is_sweep_override():
        return [text_of(override)]
    values = dict.fromkeys(override.sweep_string_iterator())  # each once
    return [f"{override.get_key_element()}={value}" for value in values]


def grid_row(lines: Sequence[str], varied: Sequence[str]) -> str:
    """The folder of a grid's row: its overrides in alphabetical order, or if they are too long, those that vary.

    Raises:
        ConfigError: These are too long as well.
    """
    telling = sorted(_spelled(line) for line in lines if not any(is_incidental(key, {}) for key in typed_keys([line])))
    varied = [_spelled(line) for line in varied]
    text = ",".join(telling) or "default"
    if len(whole := safe_name(text, longest=None)) <= LONGEST:
        return whole
    identity = hashlib.sha256(text.encode()).hexdigest()[:8]
    short = safe_name(",".join([*(line for line in telling if line in varied), identity]), longest=None)
    if len(short) > LONGEST:
        raise ConfigError(
            [
                f"a row of this grid would be called {short}, which is longer than a folder's name may be ({LONGEST} "
                "characters): vary fewer keys at a time, or give each combination a row in conf/variation/."
            ]
        )
    return short


def _spelled(line: str) -> str:
    """An override whose number, if it is one, is spelled in one way: `model.dropout=0.1` for `model.dropout=1e-1`."""
    key, _, value = line.partition("=")
    if not NUMBER.fullmatch(value):
        return line
    return f"{key}={int(value) if value.lstrip('+-').isdigit() else float(value)}".removesuffix(".0")


def spelled_before(usual: str, stored: Sequence[str], others: Collection[str]) -> str:
    """The name under which an older version stored what is called `usual` now, or `usual` itself.

    Args:
        usual: The overrides of a point, as a name.
        stored: Names of stored rows, without their rows, that have the same configuration.
        others: What the other points of the command are called; a row may be the same at several points.
    """
    words = _words(usual)
    for name in stored:
        if _words(name) == words:
            return name
    taken = [_words(other) for other in others if other != usual]
    keys = sorted(typed_keys(words))
    alike = (name for name in stored if sorted(typed_keys(_words(name))) == keys and _words(name) not in taken)
    return next(alike, usual)


def _words(name: str) -> list[str]:
    return sorted(map(_spelled, name.split(",")))


def shared_folders(rows_by_home: Mapping[Path, Collection[str]], advice: str) -> list[str]:
    """A fault for each folder that several rows would share: names are equal, or differ where a folder's cannot."""
    return [
        f"rows {' and '.join(same)} would share the folder {home}: leave one out, {advice}."
        for home, same in rows_by_home.items()
        if len(same) > 1
    ]


def name_faults(given: dict[str, Override]) -> list[str]:
    """A run's name, typed for a multirun."""
    if "name" not in given:
        return []
    return [f"{text_of(given['name'])} names a single run: the folder of a multirun is named by sweep.name=NAME."]


def by_key(arguments: Sequence[str], found: Loader) -> dict[str, Override]:
    """The overrides of a command by their keys, which Hydra lets begin with `+` or `++`, without Hydra's own.

    `~KEY` gives no value and is kept as it is.
    """
    parsed = OverridesParser.create(config_loader=found).parse_overrides(list(arguments))
    own = [override for override in parsed if not override.is_hydra_override()]
    return {o.get_key_element() if o.is_delete() else o.key_or_group: o for o in own}


def text_of(override: Override) -> str:
    """An override as it was typed."""
    return override.input_line or f"{override.get_key_element()}={override.get_value_element_as_str()}"
