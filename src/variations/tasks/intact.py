"""Whether a finished run still has what its result was computed from."""

from typing import TYPE_CHECKING, Any

from variations.configuration.tasks import task_of
from variations.store.atomic import read_stored
from variations.store.contents import EXCHANGED, intact_measurements
from variations.system.errors import DataError, UserError
from variations.tasks.base import Measure, TestedRun
from variations.tasks.task import Task

if TYPE_CHECKING:
    from numpy.typing import NDArray


def damage(run: TestedRun) -> str | None:
    """What a finished run lacks, or what does not fit: measurements, environment, tested items; None if it is whole.

    Every score in the run's table that is a sum over items is compared with those that the run has stored.
    """
    if run.folder.environment() is None:
        return "environment.json is missing"
    try:
        if not run.result.get("reused"):
            measurements = run.folder.measurements
            lines = measurements.read()  # none at all if training was ended before its first line
            if not intact_measurements(read_stored(measurements.path), run.result):
                return f"metrics.jsonl {EXCHANGED if lines else 'is empty'}"
        task = task_of(run.config)
        primary = task.primary((run.config.get("sweep") or {}).get("metric"))
        measures = {measure.key: measure for measure in (primary, *task.columns(primary))}.values()
    except (OSError, UserError, DataError) as error:
        return str(error).rstrip(".")
    for measure in measures:
        if not measure.items or measure.value(run.result) is None:
            continue
        items = stored_items(task, run, measure, cache=False)
        if isinstance(items, str):
            if measure == primary:
                return items
            continue  # of another set, whose text is not stored
        if found := contradiction(run, measure, float(task.aggregate(measure, items.sum(0)))):
            return found
    return None


def stored_items(task: Task, run: TestedRun, measure: Measure, *, cache: bool) -> "NDArray[Any] | str":
    """The items of a run; or why there are none: what the code of its task raises, or values that are not finite."""
    import numpy as np

    try:
        items = task.items(run, measure, cache=cache)
    except DataError as error:
        return str(error).rstrip(".")
    except Exception as error:  # noqa: BLE001 - a task of another package, whose files may be missing or damaged
        return f"its {measure.items} cannot be read ({type(error).__name__}: {str(error).rstrip('.')})"
    if not np.isfinite(items).all():
        return f"its {measure.items} contain values that are not finite"
    found: NDArray[Any] = items
    return found


def contradiction(run: TestedRun, measure: Measure, counted: float) -> str | None:
    """Why the stored items of a run, which have the score `counted`, are not those of its result; None if they are."""
    stored = measure.value(run.result)
    digits, items = max(2, measure.digits), measure.items
    if stored is None or abs(stored - counted) <= 10**-digits:
        return None
    return (
        f"the score in result.json is {stored:.{digits}f}, but that of its stored {items}, which are tested, is "
        f"{counted:.{digits}f}"
    )
