"""A run's folder asked to take another configuration: what differs, what may change, what is remembered of it."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from variations.store.atomic import plain


def history(config: Mapping[str, Any]) -> list[str]:
    """`resume.changed`: which keys were changed in mid-training, from what to what, and at which step."""
    return [*((config.get("resume") or {}).get("changed") or [])]


def with_history(config: Mapping[str, Any], changed: Sequence[str]) -> dict[str, Any]:
    """`config` with `changed` as its `resume.changed`."""
    return {**config, "resume": {**(config.get("resume") or {}), "changed": [*changed]}}


def _listed(changes: Mapping[str, tuple[Any, Any]]) -> str:
    lines = "\n".join(f"  - {key}: {plain(old)} → {plain(new)}" for key, (old, new) in changes.items())
    return f"these keys differ (stored → now):\n{lines}\n"


_RENAME = "Give this run another name (name=…, a sweep: sweep.name=…)"


def finished_otherwise(path: Path, changes: Mapping[str, tuple[Any, Any]]) -> str:
    """The message for a finished run of another configuration."""
    return (
        f"{path} contains a finished run of another configuration, which is never changed; {_listed(changes)}"
        f"{_RENAME}, or start a new attempt (force=true)."
    )


def other_configuration(path: Path, changes: Mapping[str, tuple[Any, Any]], allowed: Sequence[str]) -> str:
    """The message for an unfinished one; `changes` are the differences that `resume.allow` does not yet cover."""
    return (
        f"{path} contains a run of another configuration; {_listed(changes)}"
        f"{_RENAME}, start a new attempt (force=true), or, to continue the run with the new values, allow them: "
        f"resume.allow=[{','.join([*allowed, *changes])}]."
    )
