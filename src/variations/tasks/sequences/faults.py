"""Combinations of keys that cannot work for any task of sequences: its network, batches and beam."""

import math
from typing import Any

from variations.configuration.rules import Fault, Rules

RULES = Rules()


def _divisors(n: int) -> str:
    return ", ".join(str(k) for k in range(1, min(n, 64) + 1) if n % k == 0)


@RULES.reads("model.h", "model.d_model", "model.d_k", "model.d_v")
def _heads(config: Any) -> list[Fault]:
    m = config.model
    missing = [name for name, value in (("model.d_k", m.d_k), ("model.d_v", m.d_v)) if value is None]
    if not missing or m.d_model % m.h == 0:
        return []
    text = (
        f"model.h={m.h} does not divide model.d_model={m.d_model}: choose model.h among {_divisors(m.d_model)}, "
        f"or set {' and '.join(missing)} explicitly."
    )
    return [Fault(("model.h", "model.d_model"), text)]


@RULES.reads("model.d_model", "positions.kind")
def _even(config: Any) -> list[Fault]:
    d = config.model.d_model
    if config.positions.kind != "sinusoidal" or d % 2 == 0:
        return []
    text = (
        f"model.d_model={d} is odd, but sinusoidal positions need an even width: "
        f"choose {d - 1} or {d + 1}, or positions=learned."
    )
    return [Fault(("model.d_model", "positions.kind"), text)]


@RULES.reads("model.d_model", "positions.kind", "positions.form")
def _t2t_width(config: Any) -> list[Fault]:
    p, d = config.positions, config.model.d_model
    if p.kind != "sinusoidal" or p.form != "t2t" or d >= 4:
        return []
    text = f"positions.form=t2t divides by model.d_model/2 - 1, so model.d_model={d} must be at least 4."
    return [Fault(("model.d_model", "positions.form"), text)]


@RULES.reads("model.attention", "model.neighbourhood", "model.kind")
def _attention(config: Any) -> list[Fault]:
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


@RULES.reads("model.kind", "model.h", "model.d_ff", "branch.M", "branch.ffn", "branch.gate.kind", "branch.gate.k")
def _branches(config: Any) -> list[Fault]:
    if config.model.kind != "weighted":
        return []
    m, b, found = config.model, config.branch, []
    M = b.branches(m)
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


@RULES.reads(
    "model.kind", "branch.encoder", "branch.decoder", "branch.freeze_last", "branch.train_mode", "trainer.max_steps"
)
def _branch_use(config: Any) -> list[Fault]:
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


@RULES.reads("model.kind", "branch.inner_norm", "branch.impl")
def _inner_norm(config: Any) -> list[Fault]:
    b = config.branch
    if config.model.kind != "weighted" or not b.inner_norm or b.impl == "naive":
        return []
    text = (
        f"branch.inner_norm=true stands between two products that branch.impl={b.impl} merges: set branch.impl=naive."
    )
    return [Fault(("branch.inner_norm", "branch.impl"), text)]


@RULES.reads("branch.scope", "branch.encoder", "branch.decoder", "model.kind")
def _branch_scope(config: Any) -> list[Fault]:
    b = config.branch
    if config.model.kind != "weighted" or b.scope != "shared_enc_dec" or (b.encoder and b.decoder != "none"):
        return []
    text = (
        "branch.scope=shared_enc_dec shares κ and α between both stacks, so both must be branched: set "
        "branch.encoder=true and branch.decoder=cross, or branch.scope=sublayer."
    )
    return [Fault(("branch.scope",), text)]


@RULES.reads("positions.kind", "positions.max_length", "data.max_length")
def _lengths(config: Any) -> list[Fault]:
    p, d = config.positions, config.data
    if p.kind != "learned" or p.max_length >= d.max_length:
        return []
    text = (
        f"positions.max_length={p.max_length} is shorter than data.max_length={d.max_length}: learned positions need a "
        f"row for each place, so set positions.max_length={d.max_length}, or data.max_length={p.max_length}."
    )
    return [Fault(("positions.max_length", "data.max_length"), text)]


@RULES.reads("recipe.batch_tokens", "data.max_length", "trainer.tokens_per_batch")
def _batches(config: Any) -> list[Fault]:
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


@RULES.reads("decode.beam", "decode.nbest")
def _decoding(config: Any) -> list[Fault]:
    d = config.decode
    if d.nbest <= d.beam:
        return []
    text = (
        f"decode.nbest={d.nbest} is more than decode.beam={d.beam}: a beam yields at most that many, "
        "so raise decode.beam."
    )
    return [Fault(("decode.nbest", "decode.beam"), text)]
