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

from variations.config import LARGEST_SEED, Config
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
    if isinstance(config, Config):
        wrong = {key for fault in found for key in fault.keys}
        for rule in RULES:
            if not wrong.intersection(RULE_KEYS[rule]):
                found += rule(config)
    return found


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


# Rules between fields. Each lists the keys it reads; it is skipped when one of them is already at fault.

Rule = Callable[[Config], list[Fault]]
RULES: list[Rule] = []
RULE_KEYS: dict[Rule, tuple[str, ...]] = {}


def _reads(*keys: str) -> Callable[[Rule], Rule]:
    def register(rule: Rule) -> Rule:
        RULES.append(rule)
        RULE_KEYS[rule] = keys
        return rule

    return register


def _divisors(n: int, limit: int = 64) -> str:
    return ", ".join(str(k) for k in range(1, min(n, limit) + 1) if n % k == 0)


@_reads("model.h", "model.d_model", "model.d_k", "model.d_v")
def _heads(config: Config) -> list[Fault]:
    m = config.model
    missing = [name for name, value in (("model.d_k", m.d_k), ("model.d_v", m.d_v)) if value is None]
    if not missing or m.d_model % m.h == 0:
        return []
    text = (
        f"model.h={m.h} does not divide model.d_model={m.d_model}: choose model.h among {_divisors(m.d_model)}, "
        f"or set {' and '.join(missing)} explicitly."
    )
    return [Fault(("model.h", "model.d_model"), text)]


@_reads("model.d_model", "positions.kind")
def _even(config: Config) -> list[Fault]:
    d = config.model.d_model
    if config.positions.kind != "sinusoidal" or d % 2 == 0:
        return []
    text = (
        f"model.d_model={d} is odd, but sinusoidal positions need an even width: "
        f"choose {d - 1} or {d + 1}, or positions=learned."
    )
    return [Fault(("model.d_model", "positions.kind"), text)]


@_reads("model.d_model", "positions.kind", "positions.form")
def _t2t_width(config: Config) -> list[Fault]:
    p, d = config.positions, config.model.d_model
    if p.kind != "sinusoidal" or p.form != "t2t" or d >= 4:
        return []
    text = f"positions.form=t2t divides by model.d_model/2 - 1, so model.d_model={d} must be at least 4."
    return [Fault(("model.d_model", "positions.form"), text)]


@_reads("model.kind", "model.options")
def _model_options(config: Config) -> list[Fault]:
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


@_reads("model.attention", "model.neighbourhood", "model.kind")
def _attention(config: Config) -> list[Fault]:
    m, found = config.model, []
    if m.attention == "restricted" and m.neighbourhood is None:
        text = "model.attention=restricted needs a neighbourhood: set model.neighbourhood=8 (positions on each side)."
        found.append(Fault(("model.attention", "model.neighbourhood"), text))
    if m.attention != "restricted" and m.neighbourhood is not None:
        text = (
            f"model.neighbourhood={m.neighbourhood} has no effect with model.attention={m.attention}: "
            "set model.attention=restricted, or leave model.neighbourhood out."
        )
        found.append(Fault(("model.attention", "model.neighbourhood"), text))
    if m.kind == "weighted" and m.attention != "dot_product":
        text = (
            f"model.attention={m.attention} cannot be branched: with model.kind=weighted use "
            "model.attention=dot_product, or choose model.kind=transformer."
        )
        found.append(Fault(("model.attention", "model.kind"), text))
    return found


@_reads("model.kind", "model.h", "model.d_ff", "branch.M", "branch.ffn", "branch.gate.kind", "branch.gate.k")
def _branches(config: Config) -> list[Fault]:
    if config.model.kind != "weighted":
        return []
    m, b, found = config.model, config.branch, []
    M = b.M if b.M is not None else m.h
    M_key = "branch.M" if b.M is not None else "model.h"
    if b.gate.kind != "none" and b.gate.k > M:
        text = f"branch.gate.k={b.gate.k} is more than the M={M} branches ({M_key}): choose 1 to {M}."
        found.append(Fault(("branch.gate.k", M_key), text))
    if b.ffn == "split" and m.d_ff % M:
        text = (
            f"branch.ffn=split needs M={M} branches ({M_key}) to divide model.d_ff={m.d_ff}: "
            f"choose model.d_ff={math.ceil(m.d_ff / M) * M}, another M, or branch.ffn=shared."
        )
        found.append(Fault(("branch.ffn", M_key, "model.d_ff"), text))
    return found


@_reads(
    "model.kind", "branch.encoder", "branch.decoder", "branch.freeze_last", "branch.train_mode", "trainer.max_steps"
)
def _branch_use(config: Config) -> list[Fault]:
    if config.model.kind != "weighted":
        return []
    b, steps, found = config.branch, config.trainer.max_steps, []
    if not b.encoder and b.decoder == "none":
        text = (
            "branch.encoder=false and branch.decoder=none leave nothing branched: use model=transformer, "
            "or branch.encoder=true."
        )
        found.append(Fault(("branch.encoder", "branch.decoder"), text))
    if not b.kappa and not b.alpha and b.train_mode == "learned":
        text = (
            "branch.kappa=false and branch.alpha=false leave no branch weight to learn: use branch=uniform for "
            "constant weights, or set one of them to true."
        )
        found.append(Fault(("branch.kappa", "branch.alpha"), text))
    if b.train_mode == "learned" and b.freeze_last >= steps:
        text = (
            f"branch.freeze_last={b.freeze_last} freezes κ and α for the whole run of trainer.max_steps={steps}: "
            f"choose less, such as branch.freeze_last={steps // 6} (a sixth)."
        )
        found.append(Fault(("branch.freeze_last", "trainer.max_steps"), text))
    return found


@_reads("model.kind", "branch.inner_norm", "branch.impl")
def _inner_norm(config: Config) -> list[Fault]:
    b = config.branch
    if config.model.kind != "weighted" or not b.inner_norm or b.impl == "naive":
        return []
    text = (
        f"branch.inner_norm=true stands between two products that branch.impl={b.impl} merges: set branch.impl=naive."
    )
    return [Fault(("branch.inner_norm", "branch.impl"), text)]


@_reads("branch.scope", "branch.encoder", "branch.decoder", "model.kind")
def _branch_scope(config: Config) -> list[Fault]:
    b = config.branch
    if config.model.kind != "weighted" or b.scope != "shared_enc_dec" or (b.encoder and b.decoder != "none"):
        return []
    text = (
        "branch.scope=shared_enc_dec shares κ and α between both stacks, so both must be branched: set "
        "branch.encoder=true and branch.decoder=cross, or branch.scope=sublayer."
    )
    return [Fault(("branch.scope",), text)]


@_reads("data.kind")
def _data(config: Config) -> list[Fault]:
    d, found = config.data, []
    if d.kind == "folder" and d.root is None:
        text = (
            f"data={d.name} reads files, so it needs data.root: "
            f"set data.root=FOLDER with {d.train}.{d.source}, {d.train}.{d.target}, …"
        )
        found.append(Fault(("data.root",), text))
    for key, language in (("data.source", d.source), ("data.target", d.target)):
        if not language.strip():
            found.append(Fault((key,), f"{key} is empty: set a language such as {key}=en."))
    if d.source == d.target:
        text = (
            f"data.source and data.target are both '{d.source}': "
            "name two languages, such as data.source=en data.target=de."
        )
        found.append(Fault(("data.source", "data.target"), text))
    return found


@_reads("positions.kind", "positions.max_length", "data.max_length")
def _lengths(config: Config) -> list[Fault]:
    p, d = config.positions, config.data
    if p.kind != "learned" or p.max_length >= d.max_length:
        return []
    text = (
        f"positions.max_length={p.max_length} is shorter than data.max_length={d.max_length}: learned positions need a "
        f"row for each place, so set positions.max_length={d.max_length}, or data.max_length={p.max_length}."
    )
    return [Fault(("positions.max_length", "data.max_length"), text)]


@_reads("recipe.batch_tokens", "data.max_length", "trainer.tokens_per_batch")
def _batches(config: Config) -> list[Fault]:
    r, t, found = config.recipe, config.trainer, []
    if t.tokens_per_batch is not None and t.tokens_per_batch > r.batch_tokens:
        text = (
            f"trainer.tokens_per_batch={t.tokens_per_batch} is more than recipe.batch_tokens={r.batch_tokens}, the "
            "size of a whole update: set it to at most that, or to null."
        )
        found.append(Fault(("trainer.tokens_per_batch", "recipe.batch_tokens"), text))
    key, smallest = "recipe.batch_tokens", r.batch_tokens
    if t.tokens_per_batch is not None and t.tokens_per_batch <= smallest:
        key, smallest = "trainer.tokens_per_batch", t.tokens_per_batch
    if smallest < config.data.max_length:
        text = (
            f"{key}={smallest} cannot hold one sentence of data.max_length={config.data.max_length} sub-words: "
            f"set {key} to at least that, or data.max_length={smallest}."
        )
        found.append(Fault((key, "data.max_length"), text))
    return found


@_reads("recipe.average", "recipe.average_every", "trainer.max_steps")
def _averaging(config: Config) -> list[Fault]:
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


@_reads("trainer.devices", "trainer.nodes", "trainer.strategy", "trainer.accelerator")
def _devices(config: Config) -> list[Fault]:
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


@_reads("decode.beam", "decode.nbest")
def _decoding(config: Config) -> list[Fault]:
    d = config.decode
    if d.nbest <= d.beam:
        return []
    text = (
        f"decode.nbest={d.nbest} is more than decode.beam={d.beam}: a beam yields at most that many, "
        "so raise decode.beam."
    )
    return [Fault(("decode.nbest", "decode.beam"), text)]


@_reads()
def _sweep(config: Config) -> list[Fault]:
    found = []
    if config.sweep.name is None:
        if config.rows is not None:
            found.append(Fault(("rows",), "rows=… picks rows of a sweep: add sweep=NAME, such as sweep=quickstart."))
        if config.seeds is not None:
            text = "seeds=… picks seeds of a sweep: add sweep=NAME, or use --multirun seed=1,2 for a grid."
            found.append(Fault(("seeds",), text))
    row, table = f"{config.variation.table}/{config.variation.row}", config.sweep.table
    known = [*config.sweep.rows, *(config.rows or [])]
    if table is not None and config.variation.table not in (None, table) and row not in known:
        text = f"variation={row} is no row of sweep={config.sweep.name} (table {table}): leave one of the two out."
        found.append(Fault(("variation", "sweep"), text))
    if config.rows is not None and len(set(config.rows)) < len(config.rows):
        found.append(Fault(("rows",), f"rows={config.rows} names a row twice: leave the second out."))
    if config.rows == []:
        found.append(Fault(("rows",), "rows=[] picks no row: name some, or leave it out for all."))
    if config.seeds == []:
        found.append(Fault(("seeds",), "seeds=[] picks no seed: name some, or leave it out."))
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
    elif config.variation.task != "translation":
        text = (
            f"variation={config.variation.table}/{config.variation.row} needs the task '{config.variation.task}', "
            "which cannot be run yet: choose a translation row."
        )
        found.append(Fault(("variation.task",), text))
    return found


@_reads()
def _paths(config: Config) -> list[Fault]:
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
