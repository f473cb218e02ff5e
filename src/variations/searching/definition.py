"""A search as defined by its sweep file and command line, completely checked before anything is started."""

import dataclasses
import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any

from hydra.core.override_parser.types import Override
from omegaconf import OmegaConf

from variations.configuration.compose import compose_node, compose_run, frozen_loader, loader, to_config, to_dict
from variations.configuration.faults import check, seed_faults
from variations.configuration.foreign import filled
from variations.configuration.hydra_door import Loader
from variations.configuration.overrides import leaf_keys, typed_keys
from variations.configuration.places import spelled
from variations.configuration.schema import RunConfig, SearchConfig, TrialConfig, VariationConfig
from variations.configuration.suggestions import did_you_mean, options, switched_off
from variations.configuration.sweep_file import mended
from variations.configuration.tasks import named, schema_of
from variations.searching.objectives import COSTS, Objective, objective_faults, unmeasured_faults
from variations.searching.space import Dimension, from_override, read_space, takes_whole_numbers, value_faults
from variations.store.identity import covered, flatten, identity
from variations.store.row_files import keys_of_option, shaping
from variations.store.rows import load_row
from variations.sweeping.grid_jobs import by_key, text_of
from variations.sweeping.table_jobs import command_fault, overrides_of_file, seeds_of
from variations.system.errors import ConfigError
from variations.tasks.task import validated_on

PLUGIN = "hydra/sweeper=optuna"
TRIAL = "trial"


@dataclass(frozen=True)
class Definition:
    """One search."""

    name: str
    settings: SearchConfig
    dimensions: tuple[Dimension, ...]
    objectives: tuple[Objective, ...]
    seeds: tuple[int, ...]
    overrides: tuple[str, ...]
    """Overrides of every trial, before its own values."""
    typed: tuple[str, ...]
    """Those that were typed."""
    base: RunConfig
    """The configuration of `overrides`: the baseline, with its own values for the keys of the space."""
    enqueued: Mapping[str, Any] | None
    """Values of the baseline, which are tried first."""
    files: Loader = field(repr=False, compare=False)
    """Reads the configuration files as they were when the search was defined, so that all trials share settings."""

    @property
    def home(self) -> Path:
        """Absolute folder of all trials, `runs/<name>`."""
        return (Path(self.base.runs).expanduser() / self.name).resolve()

    @property
    def storage(self) -> str:
        """Absolute path of the journal, or a URL."""
        where = self.settings.storage
        if where is None:
            return str(self.home / "study.log")
        if not where.startswith("sqlite:///"):
            return where if "://" in where else str(Path(where).expanduser().resolve())
        return f"sqlite:///{Path(where.removeprefix('sqlite:///')).expanduser().resolve()}"

    @property
    def total(self) -> int:
        """Total number of trials."""
        cells = [dimension.cells() for dimension in self.dimensions]
        wanted = self.settings.trials
        if self.settings.sampler != "grid" or None in cells:
            return wanted or 0
        count = math.prod(number or 1 for number in cells)
        return count if wanted is None else min(wanted, count)

    def trial_overrides(self, values: Mapping[str, Any]) -> list[str]:
        """The overrides of a trial."""
        mine = [switched_off(dimension.override(values[dimension.key])) for dimension in self.dimensions]
        return [*self.overrides, *mine]

    def configs(self, number: int, values: Mapping[str, Any]) -> list[RunConfig]:
        """The runs of a trial, one per seed.

        Raises:
            ConfigError: this combination of values is invalid.
        """
        config = compose_run(self.trial_overrides(values), files=self.files)
        if found := check(config):
            raise ConfigError([fault.text for fault in found])
        config.name, config.runs = f"{TRIAL}{number}", str(self.home.parent)
        config.search = TrialConfig(trial=number, study=self.name, storage=self.storage)
        config.variation = VariationConfig(task=config.variation.task)  # a trial is not the row that it starts from
        config.sweep.typed = shaping(self.typed, config)
        config.sweep.retries = 0  # the sampler is told of failures instead
        config.sweep.search.space = {item.key: item.form() for item in self.dimensions}  # also what was typed
        return [dataclasses.replace(config, seed=seed) for seed in self.seeds]

    def fixed(self) -> dict[str, Any]:
        """The settings that all trials share, which must not change during a study."""
        searched = {"seed"}
        for dimension in self.dimensions:
            searched.add(dimension.key)
            for option in options(loader(), dimension.key):  # a group: its options set other keys
                searched.update(keys_of_option(dimension.key, option))
        shared = {key: v for key, v in identity(to_dict(self.base)).items() if not covered(key, searched)}
        return shared | {"seeds": list(self.seeds)}


def is_search(arguments: Sequence[str]) -> bool:
    """Whether a multirun is a search: its sweep file has `search:`, or the command line asks for Optuna.

    Raises:
        ConfigError: The sweep cannot be composed, or there are several.
    """
    if PLUGIN in arguments or any(f"{key}.".startswith("sweep.search.") for key in typed_keys(arguments)):
        return True
    chosen = [line for line in arguments if line.startswith("sweep=")]
    if chosen and "," in chosen[-1]:
        raise ConfigError([f"{chosen[-1]}: one sweep at a time: run the command once for each."])
    return bool(chosen) and _file_is_search(chosen[-1])


@lru_cache(maxsize=8)
def _file_is_search(choice: str) -> bool:
    lines = mended([choice])[1] or [choice]
    settings: SearchConfig = compose_run(lines).sweep.search
    return settings.trials is not None or bool(settings.space)


@lru_cache(maxsize=2)
def define(arguments: tuple[str, ...]) -> Definition:
    """Return the search that a command line asks for.

    A key of the space is not searched if it is typed with one value; if it is typed with an interval or choices, these
    replace those of the sweep file.

    Raises:
        ConfigError: All faults of the search, and of its baseline.
    """
    found = loader()
    given = by_key(arguments, found)
    typed = {key: o for key, o in given.items() if not o.is_sweep_override()}
    shared = [text_of(o) for o in typed.values()]
    head = compose_run(shared)
    seeds = seeds_of(head, typed)
    problems = [*_line_faults(given, head, seeds)]
    space = {key: value for key, value in head.sweep.search.space.items() if key not in given}
    task = task_of_trials(head)
    keys = leaf_keys(schema_of(task.name))
    dimensions, wrong = read_space(space, keys, found)
    problems += wrong
    for key, override in given.items():
        if override.is_sweep_override() and key not in ("seed", "sweep", "variation"):
            item, unreadable = keys.get(key), list[str]()
            dimension = from_override(override, takes_whole_numbers(item), unreadable)
            if dimension is not None and not (unreadable := list(value_faults(dimension, item, found))):
                dimensions.append(dimension)
            problems += unreadable
    settings = head.sweep.search
    objectives, wrong = objective_faults(settings, task)
    problems += wrong
    if unknown := task.metric_fault(head.sweep.metric):  # which the table of the trials will have
        problems.append(f"sweep.metric: {unknown}")
    listed = [text_of(o) for key, o in typed.items() if key not in keys and isinstance(o.value(), list)]
    problems += _settings_faults(head, dimensions, problems, listed, seeds)
    return _composed(head, shared, dimensions, objectives, seeds, problems)


def task_of_trials(head: RunConfig) -> Any:
    """The task of the trials: that of the row they start from, or else of the sweep file."""
    baseline, own = head.sweep.search.baseline, [line for line in head.sweep.overrides if line.startswith("task=")]
    if baseline is not None:
        return named(load_row(baseline, "").task)
    return named(own[-1].removeprefix("task=") if own else head.task)


def _composed(
    head: RunConfig,
    shared: list[str],
    dimensions: list[Dimension],
    objectives: list[Objective],
    seeds: list[int],
    problems: list[str],
) -> Definition:
    settings = head.sweep.search
    valid = options(loader(), "variation")
    if (name := settings.baseline) is not None and name not in valid:
        text = f"there is no such row.{did_you_mean(name, valid)} Write TABLE/ROW, as for variation=."
        raise ConfigError([*problems, f"sweep.search.baseline={name}: {text}"])
    own = overrides_of_file(head.sweep.overrides, shared, task_of_trials(head).name)
    start = [f"variation={settings.baseline}"] if settings.baseline is not None else []
    kept = [line for line in shared if typed_keys([line]).keys().isdisjoint(("rows", "seeds", "seed"))]
    overrides = (*start, *own, *kept)
    files = frozen_loader()
    node, choices = compose_node(overrides, files=files)
    base: Any = to_config(node, RunConfig)
    if settings.baseline is not None and base.variation.quoted:
        text = "is a published figure of another system, not a run."
        problems.append(f"sweep.search.baseline={settings.baseline} {text}")
    if said := command_fault(base, head, "trial", start[0].replace("=", "/") if start else None):
        problems.append(said)
    enqueued, wrong = _baseline_values(settings.baseline, base, dimensions, choices)
    problems += wrong
    problems += unmeasured_faults(objectives, base, named(base.task))
    problems += _incomparable_faults(objectives, dimensions, named(base.task), to_dict(base))
    ends, wrong = _ends(overrides, node, dimensions, files)
    problems += wrong
    problems += _unlike_validations(base, ends)
    if problems:
        raise ConfigError(list(dict.fromkeys(problems)))
    return Definition(
        name=head.sweep.name or "",
        settings=settings,
        dimensions=tuple(dimensions),
        objectives=tuple(objectives),
        seeds=tuple(seeds),
        overrides=overrides,
        typed=tuple(kept),
        base=base,
        enqueued=enqueued,
        files=files,
    )


def _incomparable_faults(
    objectives: Sequence[Objective], dimensions: Sequence[Dimension], task: Any, base: Mapping[str, Any]
) -> list[str]:
    """Searched keys whose values change what a metric is measured on, so that no trial is better than another."""
    found = []
    for dimension in dimensions:
        of_options = (keys_of_option(dimension.key, option) for option in options(loader(), dimension.key))
        set_here = {dimension.key, *chain.from_iterable(of_options)}
        for objective in objectives:
            fixed = [*task.tested_keys, "trainer.limit_test", *(task.loss_keys if objective.measure.is_loss else ())]
            fixed += validated_on(base) if objective.key.startswith("dev_") else []
            if objective.key not in COSTS and (changed := [key for key in fixed if key in set_here]):
                found.append(
                    f"sweep.search.space: {dimension.key}: {objective.key} depends on "
                    f"{_which(changed, dimension.key)}, so trials could not be compared: leave it out, or optimise "
                    "another metric."
                )
    return found


def _which(changed: Sequence[str], searched: str) -> str:
    """What a measurement depends on, in a sentence about a searched key."""
    return "it" if searched in changed else f"{', '.join(changed)}, which it sets"


def _line_faults(given: Mapping[str, Override], head: RunConfig, seeds: Sequence[int]) -> list[str]:
    found = []
    if head.rows is not None:
        found.append("rows=… selects rows of a table, and this sweep is a search: leave it out.")
    if "variation" in given:
        found.append("variation=… and a search: name the row to start from as sweep.search.baseline=TABLE/ROW.")
    if head.name is not None:
        found.append(f"name={head.name} names a single run: a search is named by sweep.name=NAME.")
    if head.force:
        found.append("force=true does not apply to a search: its trials are never repeated.")
    for key in ("seed", "sweep"):
        if key in given and given[key].is_sweep_override():
            found.append(f"{given[key].input_line} lists several values: a search takes seeds=[1,2] and one sweep.")
    if head.sweep.name is None:
        found.append("sweep.name is not set: a search keeps its trials in runs/NAME/; set sweep.name=NAME.")
    if not seeds and head.seeds is None:
        found.append("sweep.seeds=[] leaves no seed to run: name some.")
    return [*found, *(fault.text for fault in seed_faults(head))]


def _settings_faults(
    head: RunConfig, dimensions: list[Dimension], known: list[str], listed: Sequence[str], seeds: Sequence[int]
) -> list[str]:
    """`listed` are overrides whose value is a list, of keys that the schema does not know."""
    settings, found = head.sweep.search, []
    if not dimensions and not known:
        text = "name what to vary, as in model.dropout=interval(0,0.3) model.h=2,4, or in the sweep's file."
        lists = [f"{line.lstrip('+')} is a single value, a list: type choices without brackets." for line in listed]
        found.append(" ".join([f"sweep.search.space is empty: {text}", *lists]))
    if settings.sampler == "grid":
        for dimension in dimensions:
            if dimension.cells() is None:
                found.append(
                    f"sweep.search.sampler=grid: {dimension.key} is continuous ({dimension.text()}): list choices, or "
                    "use a range with a step."
                )
    elif settings.trials is None:
        found.append("sweep.search.trials is not set: give the total number of trials, as in sweep.search.trials=50.")
    if settings.sampler == "nsgaii" and len(settings.metrics) < 2:
        found.append("sweep.search.sampler=nsgaii optimises several metrics: name two, or use tpe.")
    storage = settings.storage or ""
    if "://" in storage and not storage.startswith("sqlite:///"):
        found.append(f"sweep.search.storage={storage}: write the path of a journal file, or sqlite:///FILE.")
    return [*found, *_pruner_faults(head, seeds)]


def _pruner_faults(head: Any, seeds: Sequence[int]) -> list[str]:
    settings, found = head.sweep.search, []
    kind = settings.pruner.kind
    if kind == "none":
        return []
    if len(settings.metrics) > 1:
        found.append(f"sweep.search.pruner.kind={kind} works with a single metric: use none.")
    if len(seeds) > 1:
        found.append(f"sweep.search.pruner.kind={kind} works with one seed per trial: use none, or seeds: [1].")
    return found


def _unlike_validations(base: Any, ends: Sequence[tuple[str, Any]]) -> list[str]:
    """Why a pruner could not compare the validations of trials; `ends` are searched keys with configurations."""
    settings = base.sweep.search
    kind, metric = settings.pruner.kind, (settings.metrics or [""])[0]
    if kind == "none":
        return []
    task, by_item = named(base.task), kind == "wilcoxon"
    reasons = [
        reason
        for config in (base, *(c for _, c in ends))
        for reason in task.unprunable(metric, config, by_item=by_item)
    ]
    found = [f"sweep.search.pruner.kind={kind}{reason}" for reason in reasons]
    of_base = flatten(to_dict(base))
    keys = ("trainer.max_steps", "trainer.val_every", *task.validated_keys(metric))
    for searched, config in ends:
        values = flatten(to_dict(config))
        changed = [key for key in keys if values.get(key) != of_base.get(key)]
        if changed:
            found.append(
                f"sweep.search.pruner.kind={kind} compares validations of trials, which depend on "
                f"{_which(changed, searched)}: leave {searched} out of the space."
            )
    return found


def _baseline_values(
    name: str | None, base: RunConfig, dimensions: list[Dimension], choices: Mapping[str, str | None]
) -> tuple[dict[str, Any] | None, list[str]]:
    if name is None:
        return None, []
    values: dict[str, Any] = {}
    found = []
    of_row = {**flatten(filled(to_dict(base))), **choices}
    for dimension in dimensions:
        if dimension.key not in of_row:  # of a class of another package, such as an argument of a callback
            found.append(
                f"sweep.search.baseline={name} has no {dimension.key}, which the search varies: set it in the row's "
                "file."
            )
            continue
        values[dimension.key] = value = of_row[dimension.key]
        if not dimension.holds(value):
            found.append(
                f"sweep.search.baseline={name} has {dimension.key}={value}, which is not in its space "
                f"({dimension.text()}): widen the space, start from another row, or "
                "from none (sweep.search.baseline=null)."
            )
    return values, found


def _ends(
    overrides: Sequence[str], node: Any, dimensions: Sequence[Dimension], files: Loader
) -> tuple[list[tuple[str, Any]], list[str]]:
    """Searched keys with the configurations at the ends of their values, each tried by itself, and all their faults."""
    ends: list[tuple[str, Any]] = []
    found: list[str] = []
    groups = loader()
    for dimension in dimensions:
        for value in dimension.ends():
            try:
                if options(groups, dimension.key):
                    config = compose_run([*overrides, dimension.override(value)], files=files)
                else:
                    changed = node.copy()
                    OmegaConf.update(changed, dimension.key, value)
                    config = to_config(changed, RunConfig)
            except ConfigError as error:
                found += error.faults
                continue
            ends.append((dimension.key, config))
            found += [fault.text for fault in check(config)]
    return ends, found


def again(arguments: Sequence[str]) -> str:
    """The command that continues a search."""
    return f"{spelled('train')} {shlex.join(['--multirun', *arguments])}"
