"""Combinations of keys that cannot work for any task of sequences: its network, batches and beam."""

import math
from collections.abc import Iterator
from typing import Any

from variations.configuration.rules import Fault, Rules
from variations.system.errors import ConfigError, UserError
from variations.tasks.schedules import own_schedule

RULES = Rules()


def _divisors(n: int) -> str:
    found = [str(k) for k in range(1, min(n, 64) + 1) if n % k == 0]
    return ", ".join([*found, f"…, {n}"] if n > 64 else found)


@RULES.reads("model.h", "model.d_model", "model.d_k", "model.d_v")
def _heads(config: Any) -> Iterator[Fault]:
    m = config.model
    missing = [name for name, value in (("model.d_k", m.d_k), ("model.d_v", m.d_v)) if value is None]
    if missing and m.d_model % m.h:
        yield Fault(
            ("model.h", "model.d_model"),
            f"model.h={m.h} does not divide model.d_model={m.d_model}: choose model.h among {_divisors(m.d_model)}, "
            f"or set {' and '.join(missing)} explicitly.",
        )


@RULES.reads("model.d_model", "positions.kind")
def _even(config: Any) -> Iterator[Fault]:
    d = config.model.d_model
    if config.positions.kind == "sinusoidal" and d % 2:
        yield Fault(
            ("model.d_model", "positions.kind"),
            f"model.d_model={d} is odd, but sinusoidal positions need an even width: "
            f"choose {d - 1} or {d + 1}, or positions=learned.",
        )


@RULES.reads("model.d_model", "positions.kind", "positions.form")
def _t2t_width(config: Any) -> Iterator[Fault]:
    p, d = config.positions, config.model.d_model
    if p.kind == "sinusoidal" and p.form == "t2t" and d < 4:
        yield Fault(
            ("model.d_model", "positions.form"),
            f"positions.form=t2t divides by model.d_model/2 - 1, so model.d_model={d} must be at least 4.",
        )


@RULES.reads("model.attention", "model.neighbourhood", "model.kind")
def _attention(config: Any) -> Iterator[Fault]:
    m = config.model
    if m.attention == "restricted" and m.neighbourhood is None:
        text = "model.attention=restricted needs a neighbourhood: set model.neighbourhood=8 (positions on each side)."
        yield Fault(("model.attention", "model.neighbourhood"), text)
    if m.attention != "restricted" and m.neighbourhood is not None:
        yield Fault(
            ("model.attention", "model.neighbourhood"),
            f"model.neighbourhood={m.neighbourhood} has no effect with model.attention={m.attention}: "
            "set model.attention=restricted, or leave model.neighbourhood out.",
        )
    if m.kind == "weighted" and m.attention != "dot_product":
        yield Fault(
            ("model.attention", "model.kind"),
            f"model.attention={m.attention} cannot be branched: with model.kind=weighted use "
            "model.attention=dot_product, or choose model.kind=transformer.",
        )


@RULES.reads("recipe.schedule", "trainer.max_steps")
def _schedule(config: Any) -> list[Fault]:
    try:
        if ":" in config.recipe.schedule:
            own_schedule(config)
    except UserError as error:
        texts = error.faults if isinstance(error, ConfigError) else [str(error)]
        return [Fault(("recipe.schedule",), text) for text in texts]
    return []


@RULES.reads(
    *("model.kind", "model.h", "model.d_ff", "branch.M", "branch.ffn", "branch.gate.kind", "branch.gate.k"),
    *("branch.constraint", "branch.train_mode"),
)
def _branches(config: Any) -> Iterator[Fault]:
    if config.model.kind != "weighted":
        return
    m, b = config.model, config.branch
    M, M_key = b.branches(m), "branch.M" if b.M is not None else "model.h"
    if b.gate.kind != "none" and b.gate.k > M:
        text = f"branch.gate.k={b.gate.k} is more than the M={M} branches ({M_key}): choose 1 to {M}."
        yield Fault(("branch.gate.k", M_key), text)
    if b.ffn == "split" and m.d_ff % M:
        yield Fault(
            ("branch.ffn", M_key, "model.d_ff"),
            f"branch.ffn=split needs M={M} branches ({M_key}) to divide model.d_ff={m.d_ff}: "
            f"choose model.d_ff={math.ceil(m.d_ff / M) * M}, another M, or branch.ffn=shared.",
        )
    if b.constraint == "sigmoid" and b.train_mode == "learned" and M == 1:  # the logit of 1 is infinite
        yield Fault(
            ("branch.constraint", M_key),
            f"branch.constraint=sigmoid cannot begin with the weight 1 of a single branch ({M_key}=1): set branch.M "
            "to at least 2, or another constraint, such as branch.constraint=project.",
        )


@RULES.reads(
    "model.kind", "branch.encoder", "branch.decoder", "branch.freeze_last", "branch.train_mode", "trainer.max_steps"
)
def _branch_use(config: Any) -> Iterator[Fault]:
    if config.model.kind != "weighted":
        return
    b, steps = config.branch, config.trainer.max_steps
    if not b.encoder and b.decoder == "none":
        yield Fault(
            ("branch.encoder", "branch.decoder"),
            "branch.encoder=false and branch.decoder=none leave no attention branched: use model=transformer, "
            "or branch.encoder=true.",
        )
    if not b.kappa and not b.alpha and b.train_mode == "learned":
        yield Fault(
            ("branch.kappa", "branch.alpha"),
            "branch.kappa=false and branch.alpha=false leave no branch weight to learn: use branch=uniform for "
            "constant weights, or set one of them to true.",
        )
    if b.train_mode == "learned" and b.freeze_last >= steps:
        yield Fault(
            ("branch.freeze_last", "trainer.max_steps"),
            f"branch.freeze_last={b.freeze_last} freezes κ and α for the whole run of trainer.max_steps={steps}: "
            f"choose less, such as branch.freeze_last={steps // 6} (a sixth).",
        )


@RULES.reads("model.kind", "branch.train_mode", "branch.constraint")
def _constraint(config: Any) -> Iterator[Fault]:
    """Of constraints, only `softmax_xM` changes weights that are not learned: it sets their sum."""
    b = config.branch
    if config.model.kind == "weighted" and b.train_mode != "learned" and b.constraint not in ("project", "softmax_xM"):
        yield Fault(
            ("branch.constraint", "branch.train_mode"),
            f"branch.constraint={b.constraint} has no effect with branch.train_mode={b.train_mode}, which learns no κ "
            "and α: leave it out.",
        )


@RULES.reads("model.kind", "branch.inner_norm", "branch.impl")
def _inner_norm(config: Any) -> Iterator[Fault]:
    b = config.branch
    if config.model.kind == "weighted" and b.inner_norm and b.impl != "naive":
        products = f"two products that branch.impl={b.impl} merges: set branch.impl=naive."
        yield Fault(("branch.inner_norm", "branch.impl"), f"branch.inner_norm=true is between {products}")


@RULES.reads("branch.scope", "branch.encoder", "branch.decoder", "model.kind")
def _branch_scope(config: Any) -> Iterator[Fault]:
    b = config.branch
    both = b.encoder and b.decoder != "none"
    if config.model.kind == "weighted" and b.scope == "shared_enc_dec" and not both:
        yield Fault(
            ("branch.scope",),
            "branch.scope=shared_enc_dec shares κ and α between both stacks, so both must be branched: set "
            "branch.encoder=true and branch.decoder=cross, or branch.scope=sublayer.",
        )


@RULES.reads("positions.kind", "positions.max_length", "data.max_length")
def _lengths(config: Any) -> Iterator[Fault]:
    p, d = config.positions, config.data
    if p.kind == "learned" and p.max_length < d.max_length:
        yield Fault(
            ("positions.max_length", "data.max_length"),
            f"positions.max_length={p.max_length} is shorter than data.max_length={d.max_length}: learned positions "
            f"need a row for each position, so set positions.max_length={d.max_length}, or "
            f"data.max_length={p.max_length}.",
        )


@RULES.reads("recipe.batch_tokens", "data.max_length", "trainer.tokens_per_batch")
def _batches(config: Any) -> Iterator[Fault]:
    r, t, longest = config.recipe, config.trainer, config.data.max_length
    if t.tokens_per_batch is not None and t.tokens_per_batch > r.batch_tokens:
        yield Fault(
            ("trainer.tokens_per_batch", "recipe.batch_tokens"),
            f"trainer.tokens_per_batch={t.tokens_per_batch} is more than recipe.batch_tokens={r.batch_tokens}, the "
            "size of a whole update: set it to at most that, or to null.",
        )
    key, smallest = "recipe.batch_tokens", r.batch_tokens
    if t.tokens_per_batch is not None and t.tokens_per_batch <= smallest:
        key, smallest = "trainer.tokens_per_batch", t.tokens_per_batch
    if smallest < longest:
        yield Fault(
            (key, "data.max_length"),
            f"{key}={smallest} cannot hold one sentence of data.max_length={longest} sub-words: "
            f"set {key} to at least that, or data.max_length={smallest}.",
        )


@RULES.reads("trainer.extra", "recipe.batch_tokens", "trainer.tokens_per_batch", "trainer.devices", "trainer.nodes")
def _parts_of_epochs(config: Any) -> Iterator[Fault]:
    """The last part of an epoch may be shorter than Lightning knows, and its batches would wait for the next part."""
    t, update = config.trainer, config.recipe.batch_tokens
    if "limit_train_batches" in t.extra and (t.tokens_per_batch or update) * t.devices * t.nodes < update:
        yield Fault(
            ("trainer.extra.limit_train_batches", "trainer.tokens_per_batch"),
            "trainer.extra.limit_train_batches needs updates of one batch on each device, but "
            f"trainer.tokens_per_batch={t.tokens_per_batch} divides those of recipe.batch_tokens={update} into "
            "several: leave one of the two keys out.",
        )


@RULES.reads("decode.nbest")
def _decoding(config: Any) -> Iterator[Fault]:
    if (n := config.decode.nbest) != 1:
        yield Fault(
            ("decode.nbest",),
            f"decode.nbest={n}: a run stores one output of each sentence, so leave it at 1."
            + (f" `translate.py nbest={n}` gives several." if config.task == "translation" else ""),
        )


@RULES.reads("decode.sets")
def _tested(config: Any) -> Iterator[Fault]:
    sets = config.decode.sets
    if not sets:
        yield Fault(("decode.sets",), "decode.sets=[] tests nothing: name sets, such as [test] or [test,dev].")
    if len(set(sets)) < len(sets):
        yield Fault(("decode.sets",), f"decode.sets={sets} names a set twice: leave the second out.")
