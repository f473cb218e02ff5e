"""What is wrong with a configuration, all of it at once.

Two layers: every value against the choices and bounds that stand in the schema, then combinations that each look right
alone. Each fault names key and value, says what would be valid, and what to do. Nothing here needs torch,
unless a model of another package is named, which is then imported.
"""

import dataclasses
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from variations.config import LARGEST_SEED, RunConfig, TransformerConfig
from variations.configuration.suggestions import did_you_mean
from variations.errors import ConfigError

CLASS_NAME = re.compile(r"[A-Za-z_]\w*(?:\.\w+)*:[A-Za-z_]\w*")
LONGEST_NAME = 200
"""Bytes of a run's, a row's or a sweep's name; file systems take 255, and some of ours have endings."""
SIGNS = {"ge": "at least", "gt": "greater than", "le": "at most", "lt": "less than"}


@dataclass(frozen=True)
class Fault:
    """One fault and the keys it rests on, so that a fault that follows from another is not reported."""

    keys: tuple[str, ...]
    text: str


def faults(config: Any) -> list[str]:
    """Return every fault of a configuration (any schema; the rules between fields are those of a run)."""
    return [fault.text for fault in check(config)]


def check(config: Any) -> list[Fault]:
    """Return every fault with its keys; combinations of a value already at fault are left out."""
    found = list(_values(config, ""))
    if isinstance(config, RunConfig):
        from variations.configuration.tasks import named

        wrong = {key for fault in found for key in fault.keys}
        found += [*RULES.broken(config, wrong), *named(config.task).rules.broken(config, wrong)]
    return found


class Rules:
    """Rules between fields. Each lists the keys it reads, and is passed over when one of them is already at fault."""

    def __init__(self, *others: "Rules") -> None:
        """Begin with the rules of others."""
        self._rules: list[tuple[tuple[str, ...], Callable[[Any], list[Fault]]]] = [
            rule for other in others for rule in other._rules
        ]

    def reads(self, *keys: str) -> Callable[[Callable[[Any], list[Fault]]], Callable[[Any], list[Fault]]]:
        """Register the decorated rule, which reads `keys`."""

        def register(rule: Callable[[Any], list[Fault]]) -> Callable[[Any], list[Fault]]:
            self._rules.append((keys, rule))
            return rule

        return register

    def broken(self, config: Any, wrong: set[str]) -> list[Fault]:
        """Faults of all rules that read no key of `wrong`."""
        return [fault for keys, rule in self._rules if not wrong.intersection(keys) for fault in rule(config)]


def _values(node: Any, prefix: str) -> Iterator[Fault]:
    for item in dataclasses.fields(node):
        key, value = f"{prefix}{item.name}", getattr(node, item.name)
        if dataclasses.is_dataclass(value):
            yield from _values(value, f"{key}.")
            continue
        if value is None:
            continue  # the type decides where null is allowed
        if text := value_fault(key, value, item.metadata):
            yield Fault((key,), text)


def value_fault(key: str, value: Any, metadata: Mapping[str, Any]) -> str | None:
    """Say that a value is not among a field's choices or not within its bounds; None if it is."""
    if choices := metadata.get("choices"):
        valid = list(dict.fromkeys(choices))
        foreign = bool(metadata.get("classes"))
        if value not in valid and not (foreign and CLASS_NAME.fullmatch(str(value))):
            more = ", or package.module:Class of another package" if foreign else ""
            return f"{key}={value}: valid choices are {', '.join(valid)}{more}.{did_you_mean(str(value), valid)}"
    elif words := metadata.get("words"):
        whole = isinstance(value, int) and not isinstance(value, bool)
        if value not in words and not (whole and _inside(value, metadata["bounds"])):
            return f"{key}={value}: must be {bounded_or_word(metadata)}.{did_you_mean(str(value), words)}"
    elif isinstance(value, float) and not math.isfinite(value):
        return f"{key}={value}: must be a finite number."
    elif (bounds := metadata.get("bounds")) and not _inside(value, bounds):
        return f"{key}={value}: must be {bounds_text(bounds)}."
    return None


def _inside(value: float, bounds: dict[str, float]) -> bool:
    return (
        bounds.get("ge", -math.inf) <= value <= bounds.get("le", math.inf)
        and ("gt" not in bounds or value > bounds["gt"])
        and ("lt" not in bounds or value < bounds["lt"])
    )


def bounded_or_word(metadata: Mapping[str, Any]) -> str:
    """Say what a field takes that is a number or a word: `a whole number, at least 1, or auto`."""
    return f"a whole number, {bounds_text(metadata['bounds'])}, or {' or '.join(metadata['words'])}"


def bounds_text(bounds: dict[str, float]) -> str:
    """Say bounds in words: `at least 0 and less than 1`."""
    shown = {name: int(bound) if float(bound).is_integer() else f"{bound:g}" for name, bound in bounds.items()}
    return " and ".join(f"{SIGNS[name]} {bound}" for name, bound in shown.items())


RULES = Rules()
"""Rules that hold for every task."""


@RULES.reads("model.kind", "model.options")
def _model_options(config: RunConfig) -> list[Fault]:
    if not isinstance(config, TransformerConfig):
        return []
    kind, options = config.model.kind, config.model.options
    if ":" not in kind:
        text = f"model.options={options} is for a model of another package: model={kind} has none; leave it out."
        return [Fault(("model.options",), text)] if options else []
    from variations.configuration.foreign import class_named, option_faults

    try:
        found = class_named("model.kind", kind)
    except ConfigError as error:
        return [Fault(("model.kind",), text) for text in error.faults]
    return [Fault(("model.options",), text) for text in option_faults("model.options", options, found)]


@RULES.reads("recipe.average", "recipe.average_every", "trainer.max_steps")
def _averaging(config: RunConfig) -> list[Fault]:
    r, steps, found = config.recipe, config.trainer.max_steps, []
    if r.average > 1 and r.average_every is not None and r.average * r.average_every > steps:
        text = (
            f"recipe.average={r.average} checkpoints every recipe.average_every={r.average_every} steps need "
            f"{r.average * r.average_every} steps, more than trainer.max_steps={steps}: set recipe.average=1, or "
            f"recipe.average_every={max(1, steps // (2 * r.average))}, or more steps."
        )
        found.append(Fault(("recipe.average", "recipe.average_every", "trainer.max_steps"), text))
    if r.average > steps:
        text = f"recipe.average={r.average} is more than trainer.max_steps={steps}: set recipe.average=1."
        found.append(Fault(("recipe.average", "trainer.max_steps"), text))
    if r.average > 1 and r.ema > 0:
        text = (
            f"recipe.average={r.average} and recipe.ema={r.ema} are two ways to average: "
            "set recipe.average=1 or recipe.ema=0."
        )
        found.append(Fault(("recipe.average", "recipe.ema"), text))
    return found


@RULES.reads("trainer.devices", "trainer.nodes", "trainer.strategy", "trainer.accelerator")
def _devices(config: RunConfig) -> list[Fault]:
    t, found = config.trainer, []
    if t.devices * t.nodes > 1 and t.strategy != "ddp":
        key = "devices" if t.devices > 1 else "nodes"
        text = f"trainer.{key}={getattr(t, key)} needs trainer.strategy=ddp (or trainer=ddp)."
        found.append(Fault((f"trainer.{key}", "trainer.strategy"), text))
    if t.precision == "64-true" and t.accelerator == "gpu":
        text = (
            "trainer.precision=64-true is for exact checks on trainer.accelerator=cpu: "
            "use bf16-mixed or 32-true on a GPU."
        )
        found.append(Fault(("trainer.precision", "trainer.accelerator"), text))
    return found


@RULES.reads()
def _sweep(config: RunConfig) -> list[Fault]:
    found = []
    if config.sweep.name is None:
        if config.rows is not None:
            found.append(Fault(("rows",), "rows=… selects rows of a sweep: add sweep=NAME, such as sweep=quickstart."))
        if config.seeds is not None:
            text = "seeds=… selects seeds of a sweep: add sweep=NAME, or use --multirun seed=1,2 for a grid."
            found.append(Fault(("seeds",), text))
    row, table = f"{config.variation.table}/{config.variation.row}", config.sweep.table
    known = [*config.sweep.rows, *(config.rows or [])]
    if table is not None and config.variation.table not in (None, table) and row not in known:
        text = f"variation={row} is not a row of sweep={config.sweep.name} (table {table}): leave one of the two out."
        found.append(Fault(("variation", "sweep"), text))
    if config.rows is not None and len(set(config.rows)) < len(config.rows):
        found.append(Fault(("rows",), f"rows={config.rows} names a row twice: leave the second out."))
    if config.rows == []:
        found.append(Fault(("rows",), "rows=[] selects no row: name some, or leave it out for all."))
    if config.seeds == []:
        found.append(Fault(("seeds",), "seeds=[] selects no seed: name some, or leave it out."))
    for key, seeds in (("seeds", config.seeds or []), ("sweep.seeds", config.sweep.seeds)):
        if any(not 0 <= seed <= LARGEST_SEED for seed in seeds):
            found.append(Fault((key,), f"{key}={seeds}: seeds must be at least 0 and at most {LARGEST_SEED}."))
        if len(set(seeds)) < len(seeds):
            found.append(Fault((key,), f"{key}={seeds} names a seed twice: leave the second out."))
    if config.variation.quoted:
        text = (
            f"variation={config.variation.table}/{config.variation.row} is another system's published figure, without "
            "a model here: choose a row that is not `quoted: true`."
        )
        found.append(Fault(("variation.quoted",), text))
    elif config.variation.row is not None and config.variation.task != config.task:
        text = (
            f"variation={config.variation.table}/{config.variation.row} needs task={config.variation.task}, but this "
            f"run has task={config.task}: choose a row of that task."
        )
        found.append(Fault(("variation.task",), text))
    return found


@RULES.reads("resume.allow")
def _allowed(config: RunConfig) -> list[Fault]:
    known = _keys(config, "")
    groups = {key[:place] for key in known for place, letter in enumerate(key) if letter == "."}
    found = []
    for key in config.resume.allow:
        if key not in known | groups:
            meant = did_you_mean(key, sorted(known))
            text = f"resume.allow: there is no key {key!r}.{meant} Name keys of the configuration."
            found.append(Fault(("resume.allow",), text))
    return found


def _keys(node: Any, prefix: str) -> set[str]:
    """Dotted keys of a configuration."""
    found = set()
    for item in dataclasses.fields(node):
        value = getattr(node, item.name)
        found |= _keys(value, f"{prefix}{item.name}.") if dataclasses.is_dataclass(value) else {f"{prefix}{item.name}"}
    return found


@RULES.reads()
def _paths(config: RunConfig) -> list[Fault]:
    found = []
    if not config.runs.strip():
        found.append(Fault(("runs",), "runs is empty: set the folder of the run store, such as runs=runs."))
    names = {"name": config.name, "sweep.name": config.sweep.name, "variation.row": config.variation.row}
    for key, value in names.items():
        if value is None:
            continue
        if not value.strip() or value.startswith(".") or re.search(r"[/\\\0-\x1f\x7f]", value):
            text = f"{key}={value!r} cannot name a folder: use no slash, no line break and no dot at the start."
            found.append(Fault((key,), text))
        elif len(value.encode()) > LONGEST_NAME:
            text = f"{key}={value[:20]}… is too long to name a folder: use at most {LONGEST_NAME} bytes."
            found.append(Fault((key,), text))
    return found


OUR_TRAINER = (
    *("accelerator", "callbacks", "deterministic", "devices", "enable_checkpointing", "enable_model_summary"),
    *("enable_progress_bar", "limit_val_batches", "log_every_n_steps", "logger", "max_epochs", "max_steps"),
    *("num_nodes", "num_sanity_val_steps", "plugins", "precision", "profiler", "strategy", "use_distributed_sampler"),
)
"""Arguments of Lightning's Trainer that keys of ours decide."""


@RULES.reads("trainer.extra", "callbacks", "logger.further")
def _lightning(config: RunConfig) -> list[Fault]:
    found = [
        Fault((f"trainer.extra.{name}",), f"trainer.extra.{name}: other keys set it: leave it out.")
        for name in config.trainer.extra
        if name in OUR_TRAINER
    ]
    for group, entries in (("callbacks", config.callbacks), ("logger.further", config.logger.further)):
        for name, settings in entries.items():
            if not isinstance(settings, dict) or "_target_" not in settings:
                text = f"{group}.{name}: name a class as _target_: package.module.Class, with its arguments beside it."
                found.append(Fault((f"{group}.{name}",), text))
    return found


@RULES.reads("profile", "trainer.accelerator")
def _experimental(config: RunConfig) -> list[Fault]:
    if config.profile != "experimental" or config.trainer.accelerator != "cpu":
        return []
    text = (
        "profile=experimental adds kernels for GPUs, but trainer.accelerator=cpu: use profile=auto, which has all "
        "those for CPUs, or trainer=gpu."
    )
    return [Fault(("profile", "trainer.accelerator"), text)]
