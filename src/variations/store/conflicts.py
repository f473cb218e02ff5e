"""A run's folder asked to take another configuration: what differs, what may change, what is remembered of it."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from variations.store.atomic import as_typed
from variations.store.identity import covered

Changes = Mapping[str, tuple[Any, Any]]
"""By key: (old value, new value)."""


def history(config: Mapping[str, Any]) -> list[str]:
    """`resume.changed`: which keys were changed during training, from what to what, and at which step."""
    return [*((config.get("resume") or {}).get("changed") or [])]


def with_history(config: Mapping[str, Any], changed: Sequence[str]) -> dict[str, Any]:
    """`config` with `changed` as its `resume.changed`."""
    return {**config, "resume": {**(config.get("resume") or {}), "changed": [*changed]}}


def allowed(config: Mapping[str, Any]) -> list[str]:
    """`resume.allow`: keys, or groups of keys, whose values may change."""
    return [*((config.get("resume") or {}).get("allow") or [])]


FIXED = (
    *("data", "model", "positions", "branch"),
    *("trainer.devices", "trainer.nodes", "trainer.tokens_per_batch"),
    *("recipe.optimizer", "recipe.batch_tokens", "recipe.batch_size"),
)
"""Keys, or groups of keys, that no run can change during training. Its weights are of its data and of its network; an
optimiser has its state; and the position in the data is counted in batches of each device."""
FREE = (
    *("data.root", "data.extra"),  # the same texts may have been moved
    *("model.dropout", "model.attention_dropout", "model.relu_dropout", "model.margin", "model.gate_weight"),
    "model.options",  # of another package, which may be rates: a state that does not fit is refused when it is read
    *("branch.warmup", "branch.freeze_last", "branch.lr_scale", "branch.center_grad", "branch.impl"),
    *("branch.train_mode", "branch.eval_mode", "branch.eval_seed"),
)
"""Keys, or groups of keys, of FIXED that may change all the same."""


def _fixed(key: str) -> bool:
    return covered(key, FIXED) and not covered(key, FREE)


def forbidden(config: Mapping[str, Any], changes: Changes) -> Changes:
    """Those of the `changes` to `config` that its `resume.allow` does not cover, or cannot."""
    return {key: values for key, values in changes.items() if _fixed(key) or not covered(key, allowed(config))}


def amended(changed: Sequence[str], changes: Changes, step: int | None) -> tuple[list[str], set[str]]:
    """`resume.changed` after further changes, and the keys that have their values of the latest checkpoint again.

    Args:
        changed: What has changed so far. Changes since the latest checkpoint have trained nothing that is kept, so
            they are replaced.
        changes: What changes now.
        step: That of the latest checkpoint; None if it is not known.
    """
    lines, back = [*changed], set()
    for key, (former, value) in changes.items():
        if step is None:
            lines.append(f"{key} {as_typed(former)} → {as_typed(value)} during training")
        elif _replace(lines, key, as_typed(former), as_typed(value), step):
            back.add(key)
    return lines, back


def _replace(lines: list[str], key: str, former: str, value: str, step: int) -> bool:
    """Add a change to `lines`, in place of one of the key at the same step; whether both together change nothing."""
    at = f"at step {step:,}"
    since = [line for line in lines if line.startswith(f"{key} ") and line.endswith(f" {at}")]
    first = since[0].removeprefix(f"{key} ").partition(" → ")[0] if since else former
    back = bool(since) and first == value
    lines[:] = [line for line in lines if line not in since]
    lines += [] if back else [f"{key} {first} → {value} {at}"]
    return back


def moved(changed: Sequence[str], step: int) -> list[str]:
    """`resume.changed` of a run that continues at `step`: later changes begin there, and replace those at that step."""
    found: list[str] = []
    for line in changed:
        change, _, at = line.rpartition(" at step ")
        number = at.replace(",", "")
        if not number.isdecimal() or int(number) <= step:
            found.append(line)
            continue
        key, _, values = change.partition(" ")
        former, _, value = values.partition(" → ")
        _replace(found, key, former, value, step)
    return found


def _listed(changes: Changes) -> str:
    lines = "\n".join(f"  - {key}: {as_typed(old)} → {as_typed(new)}" for key, (old, new) in changes.items())
    return f"these keys differ (stored → now):\n{lines}\n"


_REMEDIES = (
    "If you mean the stored run, type its values of the keys that you changed (others may follow from them). Otherwise "
    "give this run another name (name=…, a sweep: sweep.name=…)"
)
"""The first words of what can be done."""


def finished_otherwise(path: Path, changes: Changes) -> str:
    """The message for a finished run of another configuration."""
    return (
        f"{path} contains a finished run of another configuration, which is never changed; {_listed(changes)}"
        f"{_REMEDIES}, or start a new attempt (force=true)."
    )


def other_configuration(path: Path, config: Mapping[str, Any], changes: Changes) -> str:
    """The message for an unfinished one; `changes` are those that `resume.allow` of `config` does not yet cover."""
    if fixed := [key for key in changes if _fixed(key)]:
        return (
            f"{path} contains a run of another configuration; {_listed(changes)}{', '.join(fixed)} cannot change "
            f"during training. {_REMEDIES}, or start a new attempt (force=true)."
        )
    return (
        f"{path} contains a run of another configuration; {_listed(changes)}"
        f"{_REMEDIES}, start a new attempt (force=true), or, to continue the run with the new values, allow "
        f"them: 'resume.allow=[{','.join([*allowed(config), *changes])}]'."
    )
