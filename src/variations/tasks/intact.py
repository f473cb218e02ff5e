"""Whether a finished run still has what its result was computed from."""

from variations.configuration.tasks import task_of
from variations.system.errors import DataError, UserError
from variations.tasks.base import Measure, TestedRun

ROUNDING = 0.01


def damage(run: TestedRun) -> str | None:
    """What a finished run lacks, or what does not fit: measurements, environment, tested items; None if it is whole."""
    if run.folder.environment() is None:
        return "environment.json is missing"
    try:
        if not run.result.get("reused") and not run.folder.read_metrics():
            return "metrics.jsonl is empty"
        task = task_of(run.config)
        measure = task.metric((run.config.get("sweep") or {}).get("metric") or task.metrics[0])
        if not measure.items or measure.value(run.result) is None:
            return None
        counted = float(task.aggregate(measure, task.items(run, measure, cache=False).sum(0)))
    except (OSError, UserError, DataError) as error:
        return str(error).rstrip(".")
    return contradiction(run, measure, counted)


def contradiction(run: TestedRun, measure: Measure, counted: float) -> str | None:
    """Why the stored items of a run, which have the score `counted`, are not those of its result; None if they are."""
    stored = measure.value(run.result)
    unsmoothed = stored == 0 and "smooth:none" in (measure.told_convention(run.result) or "")
    if stored is None or abs(stored - counted) <= ROUNDING or unsmoothed:  # without smoothing, BLEU may be 0
        return None
    return (
        f"the score in result.json is {stored:.2f}, but that of its stored {measure.items}, which are tested, is "
        f"{counted:.2f}"
    )
