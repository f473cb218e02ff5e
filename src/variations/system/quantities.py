"""Costs as people read them: FLOPs, elapsed time, device-hours."""

from collections.abc import Iterable

from variations.system.rounding import ROUNDING, whole


def scientific(value: float) -> str:
    """`3.3e18`."""
    mantissa, exponent = f"{value:.1e}".split("e")
    return f"{mantissa}e{int(exponent)}"


def duration(seconds: float) -> str:
    """`42 s`, `3 min 20 s`, `5 h 12 min`, `4 d 15 h`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    if whole < 100 * 3600:
        return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
    return f"{whole // 86400} d {whole % 86400 // 3600:02d} h"


def hours_name(devices: Iterable[str]) -> str:
    """The name of device-hours on these devices; on CPUs, they are hours of processes, not of cores."""
    found = set(devices)
    return "GPU-hours" if found == {"GPU"} else "process-hours" if found == {"CPU"} else "device-hours"


def hours_text(hours: float, digits: int = 2) -> str:
    """`0.14`, `84` or `1,234`: so many significant digits, or all of a whole number."""
    short = float(f"{hours + ROUNDING:.{digits}g}")
    return whole(hours) if short >= 100 else f"{short:f}".rstrip("0").rstrip(".")
