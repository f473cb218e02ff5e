"""The result of a tested run, as plain values for any logger."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from variations.store.atomic import is_number
from variations.tasks.base import Samples


@dataclass(frozen=True)
class Final:
    """The result of a run, some of its tested items, and pictures of its attention."""

    result: Mapping[str, Any]
    """As in result.json."""
    samples: Mapping[str, Samples]
    """By set."""
    pictures: Mapping[str, Path] = field(default_factory=dict)
    """PNG files by part: encoder, decoder, cross."""

    def scores(self) -> dict[str, float]:
        """`test/bleu` and so on: every score of every set."""
        sets = self.result["scores"].items()
        return {f"{name}/{score}": entry["value"] for name, ladder in sets for score, entry in ladder.items()}

    def totals(self) -> dict[str, Any]:
        """Losses (as `final/dev_nll`) and the numbers of result.json: parameters, steps, tokens, FLOPs, seconds."""
        totals = {key: value for key, value in self.result.items() if is_number(value)}
        return totals | {f"final/{key}": value for key, value in self.result["loss"].items() if is_number(value)}

    def ladder(self) -> list[tuple[str, str, float, str]]:
        """Set, score, value and convention, with sacreBLEU's signature if there is one."""
        return [
            (name, score, entry["value"], "; ".join(str(entry[k]) for k in ("convention", "signature") if entry.get(k)))
            for name, ladder in self.result["scores"].items()
            for score, entry in ladder.items()
        ]


def numbers(line: Mapping[str, Any]) -> dict[str, float]:
    """Quantities for curves: the finite numbers in a line of metrics, except the step."""
    found = {key: float(value) for key, value in line.items() if is_number(value) and key != "step"}
    return {key: value for key, value in found.items() if math.isfinite(value)}
