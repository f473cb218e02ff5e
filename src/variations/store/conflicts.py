"""A run's folder asked to take another configuration: what differs, what may change, what is remembered of it."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from variations.store.atomic import plain
from variations.store.identity import covered

Changes = Mapping[str, tuple[Any, Any]]
"""By key: (old value, new value)."""


def history(config: Mapping[str, Any]) -> list[str]:
    """`resume.changed`: which keys were changed in mid-training, from what to what, and at which step."""
    return [*((config.get("resume") or {}).get("changed") or [])]


def with_history(config: Mapping[str, Any], changed: Sequence[str]) -> dict[str, Any]:
    """`config` with `changed` as its `resume.changed`."""
    return {**config, "resume": {**(config.get("resume") or {}), "changed": [*changed]}}


def allowed(config: Mapping[str, Any]) -> list[str]:
    """`resume.allow`: keys, or groups of keys, whose values may change."""
    return [*((config.get("resume") or {}).get("allow") or [])]


FIXED = ("trainer.devices", "trainer.nodes")
"""Keys that no run can change in mid-training: each device has its own position in the data."""


def forbidden(config: Mapping[str, Any], changes: Changes) -> Changes:
    """Those of the `changes` to `config` that its `resume.allow` does not cover, or cannot."""
    return {key: values for key, values in changes.items() if key in FIXED or not covered(key, allowed(config))}


def entry(key: str, former: Any, value: Any, step: int | None) -> str:
    """One of the lines of `resume.changed`; `step`: of the latest checkpoint."""
    return f"{key} {plain(former)} → {plain(value)} {'in mid-training' if step is None else f'at step {step:,}'}"


def undone(changes: Changes, changed: Sequence[str], step: int | None) -> dict[str, str]:
    """By key, the lines of `changed` that `changes` take back, because no checkpoint was written since then."""
    reverse = {key: entry(key, value, former, step) for key, (former, value) in changes.items()}
    return {key: line for key, line in reverse.items() if line in changed}


def _listed(changes: Changes) -> str:
    lines = "\n".join(f"  - {key}: {plain(old)} → {plain(new)}" for key, (old, new) in changes.items())
    return f"these keys differ (stored → now):\n{lines}\n"


_RENAME = "Give this run another name (name=…, a sweep: sweep.name=…)"


def finished_otherwise(path: Path, changes: Changes) -> str:
    """The message for a finished run of another configuration."""
    return (
        f"{path} contains a finished run of another configuration, which is never changed; {_listed(changes)}"
        f"{_RENAME}, or start a new attempt (force=true)."
    )


def other_configuration(path: Path, config: Mapping[str, Any], changes: Changes) -> str:
    """The message for an unfinished one; `changes` are those that `resume.allow` of `config` does not yet cover."""
    if fixed := [key for key in changes if key in FIXED]:
        remedy = f"{' and '.join(fixed)} cannot change in mid-training. {_RENAME}, or start a new attempt (force=true)."
        return f"{path} contains a run of another configuration; {_listed(changes)}{remedy}"
    return (
        f"{path} contains a run of another configuration; {_listed(changes)}"
        f"{_RENAME}, start a new attempt (force=true), or, to continue the run with the new values, allow them: "
        f"resume.allow=[{','.join([*allowed(config), *changes])}]."
    )
