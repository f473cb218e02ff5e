"""What makes the result of a run not that of its configuration's whole training; said in the same words everywhere."""

from collections.abc import Mapping
from typing import Any

STOPPED_BY = {"max_minutes": "trainer.max_minutes", "callback": "a callback"}
"""What ended a training, by `stopped` in result.json."""


def of_run(config: Mapping[str, Any], result: Mapping[str, Any]) -> list[str]:
    """One sentence for each reason: a quick check, a changed configuration, or a training that ended early."""
    found = []
    if name := (config.get("debug") or {}).get("name"):
        found.append(f"debug={name}: a quick check, not a result")
    if changed := result.get("changed"):
        found.append(f"not the result of one configuration (resume.allow): {', '.join(map(str, changed))}")
    if stopped := result.get("stopped"):
        steps, planned = result.get("steps"), (config.get("trainer") or {}).get("max_steps")
        extent = f" at step {steps:,} of {planned:,}" if isinstance(steps, int) and isinstance(planned, int) else ""
        found.append(f"training was ended{extent} by {STOPPED_BY.get(str(stopped), stopped)}")
    elif lost := _lost_weights(config, result):
        found.append(lost)
    return found


def _lost_weights(config: Mapping[str, Any], result: Mapping[str, Any]) -> str | None:
    """Fewer weights were averaged than the recipe says: some were lost, or not stored before the plan was changed."""
    planned, averaged = (config.get("recipe") or {}).get("average"), result.get("averaged_steps")
    steps = result.get("steps")
    if not (isinstance(planned, int) and isinstance(averaged, list) and isinstance(steps, int)):
        return None
    planned = min(planned, steps)
    if len(averaged) >= planned:
        return None
    return f"the weights of only {len(averaged)} of {planned} steps were averaged: the others are not stored"
