"""All faults of a configuration, found at once.

There are two layers: every value is checked against the choices and bounds of the schema, then combinations of
values that are valid one by one. Each fault names key and value, and says what would be valid and what to do.
Nothing here imports torch, unless the configuration names a model of another package.
"""

import dataclasses
from collections.abc import Iterator
from typing import Any

from variations.configuration.foreign import option_faults
from variations.configuration.own_classes import class_named, refuse_missing
from variations.configuration.places import folder_fault
from variations.configuration.rules import Fault, Rules, value_fault
from variations.configuration.schema import RunConfig, seeds_fault
from variations.configuration.suggestions import did_you_mean
from variations.configuration.tasks import BUILT_IN, DEFAULT, named
from variations.configuration.transformer import TransformerConfig
from variations.system.errors import ConfigError


def faults(config: Any) -> list[str]:
    """Return every fault of a configuration (of any schema; rules between fields apply to runs)."""
    return [fault.text for fault in check(config)]


def check(config: Any) -> list[Fault]:
    """Return every fault with its keys; rules that involve a faulty value are skipped."""
    found = list(values(config))
    if isinstance(config, RunConfig):
        wrong = {key for fault in found for key in fault.keys}
        found += [*RULES.broken(config, wrong), *named(config.task).rules.broken(config, wrong)]
    return found


def values(node: Any, prefix: str = "") -> Iterator[Fault]:
    """The keys whose values are faulty by themselves, in any combination with others."""
    for item in dataclasses.fields(node):
        key, value = f"{prefix}{item.name}", getattr(node, item.name)
        if dataclasses.is_dataclass(value):
            yield from values(value, f"{key}.")
            continue
        if value is None:
            continue  # the type decides where null is allowed
        if text := value_fault(key, value, item.metadata):
            yield Fault((key,), text)


RULES = Rules()
"""Rules that apply to every task."""


@RULES.reads("model.kind", "model.options")
def _model_options(config: RunConfig) -> list[Fault]:
    model: Any = getattr(config, "model", None)
    if not hasattr(model, "options"):  # a task without models of other packages
        return []
    kind, options = model.kind, model.options
    if ":" not in kind:
        text = f"model.options={options} is for a model of another package: model={kind} has none; leave it out."
        return [Fault(("model.options",), text)] if options else []
    try:
        found = class_named("model.kind", kind)
    except ConfigError as error:
        return [Fault(("model.kind",), text) for text in error.faults]
    return [Fault(("model.options",), text) for text in option_faults("model.options", options, found)]


@RULES.reads("model.attention", "positions.kind", "recipe.optimizer")
def _foreign_parts(config: RunConfig) -> list[Fault]:
    found, classes = [], {"recipe.optimizer": config.recipe.optimizer}
    if isinstance(config, TransformerConfig):
        classes |= {"model.attention": config.model.attention, "positions.kind": config.positions.kind}
    for key, name in classes.items():
        try:
            own = class_named(key, name) if ":" in name else None
        except ConfigError as error:
            found += [Fault((key,), text) for text in error.faults]
            continue
        if own is not None and key == "recipe.optimizer" and not _is_optimizer(own):
            found.append(Fault((key,), f"{key}={name}: is not a torch.optim.Optimizer: derive it from that class."))
    return found


def _is_optimizer(found: type) -> bool:
    """Whether a class derives from torch's; that it does is seen without importing torch."""
    return any(base.__module__.startswith("torch.optim") and base.__name__ == "Optimizer" for base in found.__mro__)


def averaged_steps(config: RunConfig) -> set[int]:
    """Steps whose weights are averaged at test time: the last `average` ones, `average_every` apart."""
    recipe, last = config.recipe, config.trainer.max_steps
    if recipe.average == 1:
        return set()
    apart = recipe.average_every or max(1, round(0.015 * last))
    return set(range(last, 0, -apart)[: recipe.average])


@RULES.reads("recipe.average", "recipe.average_every", "trainer.max_steps")
def _averaging(config: RunConfig) -> list[Fault]:
    r, steps, found = config.recipe, config.trainer.max_steps, []
    if r.average > 1 and r.average_every is not None and len(averaged_steps(config)) < r.average <= steps:
        text = (
            f"recipe.average={r.average} checkpoints, one every recipe.average_every={r.average_every} steps, need "
            f"more than {(r.average - 1) * r.average_every} steps, but trainer.max_steps={steps}: set recipe.average=1 "
            f"or recipe.average_every={max(1, steps // (2 * r.average))}, or more steps."
        )
        found.append(Fault(("recipe.average", "recipe.average_every", "trainer.max_steps"), text))
    if r.average_every is None and steps >= r.average > (fit := len(averaged_steps(config))) > 0:
        text = (
            f"recipe.average={r.average}: only {fit} checkpoints are stored, recipe.average_every=null being 1.5 % of "
            f"trainer.max_steps={steps}: set recipe.average={fit} or recipe.average_every={steps // r.average}."
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


@RULES.reads("trainer.devices", "trainer.nodes", "trainer.strategy", "trainer.accelerator", "trainer.precision")
def _devices(config: RunConfig) -> list[Fault]:
    t, found = config.trainer, []
    if t.devices * t.nodes > 1 and not t.strategy.startswith("ddp"):
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
    name = (config.variation.row or "").partition(",")[0]  # without the point at which a table is crossed
    row, table = f"{config.variation.table}/{name}", config.sweep.table
    known = [*config.sweep.rows, *(config.rows or [])]
    if table is not None and config.variation.table not in (None, table) and row not in known:
        text = (
            f"variation={row} is not a row of sweep={config.sweep.name} (table {table}): leave one of the two out, or "
            f"write `table: {table}` in the row's file."
        )
        found.append(Fault(("variation", "sweep"), text))
    if config.rows is not None and len(set(config.rows)) < len(config.rows):
        found.append(Fault(("rows",), f"rows={config.rows} names a row twice: leave the second out."))
    if config.rows == []:
        found.append(Fault(("rows",), "rows=[] selects no row: name some, or leave it out for all."))
    found += seed_faults(config)
    if config.variation.quoted:
        text = (
            f"variation={config.variation.table}/{config.variation.row} is a published figure of another system, "
            "which has no model here: choose a row that is not `quoted: true`."
        )
        found.append(Fault(("variation.quoted",), text))
    elif config.variation.row is not None and config.variation.task != config.task:
        text = (
            f"variation={config.variation.table}/{config.variation.row} needs task={config.variation.task}, but this "
            f"run has task={config.task}: choose a row of that task."
        )
        if config.variation.task == DEFAULT:
            text += f" If its file is yours, write `task: {config.task}` below `variation:` there."
        found.append(Fault(("variation.task",), text))
    return found


def seed_faults(config: RunConfig) -> list[Fault]:
    """What is wrong with the lists of seeds of a sweep: out of bounds, named twice, or none."""
    found = []
    if config.seeds == []:
        found.append(Fault(("seeds",), "seeds=[] selects no seed: name some, or leave it out."))
    for key, seeds in (("seeds", config.seeds or []), ("sweep.seeds", config.sweep.seeds)):
        if wrong := seeds_fault(key, seeds):
            found.append(Fault((key,), wrong))
        if len(set(seeds)) < len(seeds):
            found.append(Fault((key,), f"{key}={seeds} names a seed twice: leave the second out."))
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
    data = getattr(config, "data", None)  # not every task has one
    for key in ("root", "cache"):
        if getattr(data, key, None) is not None and not str(getattr(data, key)).strip():
            found.append(Fault((f"data.{key}",), f"data.{key} is empty: name a folder, or leave it out."))
    names = {"name": config.name, "sweep.name": config.sweep.name, "variation.row": config.variation.row}
    for key, value in names.items():
        if value is not None and (text := folder_fault(key, value)):
            found.append(Fault((key,), text))
    return found


OUR_TRAINER = (
    *("accelerator", "accumulate_grad_batches", "barebones", "callbacks", "deterministic", "devices"),
    *("enable_checkpointing", "enable_model_summary", "enable_progress_bar", "fast_dev_run", "gradient_clip_algorithm"),
    *("gradient_clip_val", "limit_val_batches", "log_every_n_steps", "logger", "max_epochs", "max_steps", "max_time"),
    *("num_nodes", "num_sanity_val_steps", "overfit_batches", "plugins", "precision", "profiler", "strategy"),
    "use_distributed_sampler",
)
"""Arguments of Lightning's Trainer that keys of ours set, or for which there are keys of ours."""
TOO_LATE = ("min_epochs", "min_steps")
"""Arguments with which Lightning trains on after a stop: the run would be recorded as ended before it is."""


@RULES.reads("trainer.extra", "callbacks", "logger.further")
def _lightning(config: RunConfig) -> list[Fault]:
    reasons = dict.fromkeys(OUR_TRAINER, "keys of Variations set or replace it")
    reasons |= dict.fromkeys(TOO_LATE, "a callback that stops training stops it at once, so give it more patience")
    found = [
        Fault((f"trainer.extra.{name}",), f"trainer.extra.{name}: leave it out: {reasons[name]}.")
        for name in config.trainer.extra
        if name in reasons
    ]
    for group, entries in (("callbacks", config.callbacks), ("logger.further", config.logger.further)):
        for name, settings in entries.items():
            text, target = "", settings.get("_target_") if isinstance(settings, dict) else None
            if target is None:
                text = f"{group}.{name}: name a class as _target_: package.module.Class, its arguments as further keys."
            elif ":" in str(target):
                dotted = str(target).replace(":", ".")
                text = f"{group}.{name}: _target_ takes package.module.Class, with a dot before the class: {dotted}."
            else:
                try:
                    refuse_missing(f"{group}.{name}._target_", str(target))
                except ConfigError as error:
                    (text,) = error.faults
            found += [Fault((f"{group}.{name}",), text)] if text else []
    return found


AVERAGES = "average weights by recipe.ema or recipe.average instead"
UNSUPPORTED = {
    "StochasticWeightAveraging": AVERAGES,
    "WeightAveraging": AVERAGES,
    "EMAWeightAveraging": AVERAGES,
    "LearningRateFinder": "vary recipe.lr in a grid or a search instead",
}
"""Lightning's callbacks that copy the whole module or need its hyper-parameters, and what to do without them."""


@RULES.reads("callbacks", "task")
def _callbacks(config: RunConfig) -> Iterator[Fault]:
    for name, settings in config.callbacks.items():
        package, _, last = str(settings.get("_target_") if isinstance(settings, dict) else "").rpartition(".")
        if last in UNSUPPORTED and package.partition(".")[0] in ("pytorch_lightning", "lightning"):
            yield Fault((f"callbacks.{name}",), f"callbacks.{name}: {last} does not work here: {UNSUPPORTED[last]}.")
        if last != "EarlyStopping" or config.task not in BUILT_IN:  # what others measure is known when they do
            continue
        task = named(config.task)
        known = list(dict.fromkeys([*task.curves, *(f"train/{loss}" for loss in task.losses), "lr"]))
        if (watched := settings.get("monitor")) is not None and watched not in known:
            text = f"callbacks.{name}.monitor={watched}: no run of task={config.task} measures it; choose from"
            near = did_you_mean(str(watched), known)
            yield Fault((f"callbacks.{name}.monitor",), f"{text} {', '.join(known)}.{near}")


@RULES.reads("debug.name", "debug.overfit_batches")
def _marked(config: RunConfig) -> list[Fault]:
    if config.debug.name is not None or not config.debug.overfit_batches:
        return []
    text = (
        f"debug.overfit_batches={config.debug.overfit_batches} validates on training data: add debug=overfit, by which "
        "tables know a quick check."
    )
    return [Fault(("debug.overfit_batches",), text)]


@RULES.reads("logger.project")
def _project(config: RunConfig) -> list[Fault]:
    project = config.logger.project
    if project and len(project) <= 128 and not set(project) & set("/\\#?%:"):
        return []
    text = (
        f"logger.project={project[:40]}: W&B allows 1 to 128 characters, without any of / \\ # ? % : (logger.entity "
        "names a team)."
    )
    return [Fault(("logger.project",), text)]


@RULES.reads("profile", "trainer.accelerator")
def _experimental(config: RunConfig) -> list[Fault]:
    if config.profile != "experimental" or config.trainer.accelerator != "cpu":
        return []
    text = (
        "profile=experimental adds kernels for GPUs, but trainer.accelerator=cpu: use profile=auto, which includes "
        "all kernels for CPUs, or trainer=gpu."
    )
    return [Fault(("profile", "trainer.accelerator"), text)]
