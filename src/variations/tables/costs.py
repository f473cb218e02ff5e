"""What training cost: on which device, and for how many device-hours."""

from statistics import fmean
from typing import Any

from variations.store.ledger import RunFolder
from variations.system.errors import UserError
from variations.tables.collect import Row, SeedRun


def device(run: SeedRun) -> str | None:
    """`GPU` or `CPU`, as the result says, else the configuration; None where neither does."""
    hardware = run.result.get("hardware")
    kind = hardware.get("accelerator") if isinstance(hardware, dict) else hardware
    kind = kind or (run.config.get("trainer") or {}).get("accelerator")
    if kind == "auto":
        return "GPU" if _gpus(run) else "CPU"
    return {"gpu": "GPU", "cuda": "GPU", "cpu": "CPU"}.get(str(kind).lower())


def device_hours(run: SeedRun) -> float | None:
    """Hours of training times devices (GPUs, or processes on CPUs), over all nodes."""
    seconds = run.result.get("seconds")
    if not isinstance(seconds, int | float):
        return None
    trainer, hardware = run.config.get("trainer") or {}, run.result.get("hardware")
    measured = hardware.get("devices") if isinstance(hardware, dict) else None  # of all nodes together
    configured = _count(trainer.get("devices")) * _count(trainer.get("nodes"))
    return seconds / 3600 * (_count(measured) if measured else configured)


def row_hours(row: Row) -> tuple[float, str] | None:
    """Mean device-hours of a row's finished runs and the device's name: `GPU`, `CPU`, or both where runs differ."""
    found = [(hours, device(run) or "device") for run in row.finished if (hours := device_hours(run)) is not None]
    if not found:
        return None
    return fmean(hours for hours, _ in found), "/".join(dict.fromkeys(name for _, name in found))


def _count(value: Any) -> int:
    return value if isinstance(value, int) and value > 0 else 1


def _gpus(run: SeedRun) -> list[str]:
    try:
        environment = RunFolder(run.folder).environment() if run.folder else None
    except UserError:
        return []
    found = (environment or {}).get("gpus")
    return found if isinstance(found, list) else []
