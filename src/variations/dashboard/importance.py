"""How much each configuration key matters for a sweep's score: an additive analysis of variance.

The model of a run's score has one factor for each key and no interactions. A key's sum of squares is what the fit loses
without that key (type II), so keys that partly changed together are not counted twice. Its share of the variance is ω²
(Hays 1963), which subtracts what a key without effect would explain by chance; with few runs, R² and the importances of
random forests are mostly that. p comes from a permutation test of the residuals without the key (Freedman and Lane
1983), which assumes no normal distribution.

Type II shares leave out the variance that keys which changed together explain in common: no single key loses it. It is
what the fit of all keys explains beyond the sum of their shares, and is told apart from what no key explains. If the
effects of two keys cancel out, each gains by the other, and their shares add up to more than both explain together.
"""

import itertools
import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from variations.dashboard.payload import sweeps as payload

PERMUTATIONS = 1999
"""Permutations that are drawn; if there are no more than these, as of six runs, each is made once, and p is exact."""
CELLS = 4_000_000
"""Largest number of values that are permuted: for 10,000 runs, 400 permutations."""
MANY = 5
"""Numbers with more values than this, as in a search, are grouped into thirds."""
NAMED = 6
"""Rows that are named when they are left out; of more, the number is told."""
FEW = 5
"""Residual degrees of freedom below which the reader is warned."""
EXCESS = 0.005
"""Above 1, by how much the parts of the variance may add up without a note: the page shows whole per cents."""
ALIKE = 1e-9
"""Relative difference below which two sums of squares are equal."""

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Factor:
    """Keys that group the runs in the same way."""

    keys: tuple[str, ...]
    groups: NDArray[np.int64]
    """(n), the group of each run, from 0."""

    @property
    def columns(self) -> Floats:
        """(n, groups - 1), one column for each group but the first."""
        return np.asarray(self.groups[:, None] == np.arange(1, self.groups.max() + 1), dtype=np.float64)


class Analysis(NamedTuple):
    """The variance of the scores, taken apart."""

    effects: list[payload.Effect]
    """Largest share first."""
    shared: float
    """ω² of all keys together beyond the sum of their shares: explained, but by no single key."""
    rest: float
    """1 - ω² of all keys together."""
    p: float
    """Of all keys together."""
    residual: int
    """Degrees of freedom of the residuals."""


def importance(sweep: payload.Sweep) -> payload.Importance:
    """Which keys matter for the measure of a sweep, from its finished runs."""
    table = sweep["table"]
    if table is None:
        return _none("test.bleu", "score", 0, "There is no table of this sweep.", [])
    counted = _counted(table)
    places = {row["row"]: k for k, row in enumerate(table["rows"]) if row["row"] in counted}
    tested = [run for run in sweep["runs"] if run["latest"] and run["score"] is not None and run["row"] in places]
    trained = _without_copies(tested)
    runs = _without_repeats(trained, table["keys"], places)
    left_out = [
        *_left_out(table, counted),
        *_not_again(len(tested) - len(trained), "copies", "a copy"),
        *_not_again(
            len(trained) - len(runs),
            "of the configuration, seed and score of others",
            "of the configuration, seed and score of another one",
        ),
    ]
    label = table["measures"][0]["label"]
    at = [places[run["row"]] for run in runs]
    factors = grouped({key["key"]: [key["values"][k] for k in at] for key in table["keys"]})
    scores = np.array([run["score"] for run in runs], dtype=np.float64)
    if not runs:
        return _none(table["metric"], label, 0, f"No finished run has a {label}.", left_out)
    if reason := _refusal(scores, factors):
        return _none(table["metric"], label, len(runs), reason, left_out)
    found = analysis(scores, factors)
    return {
        "measure": table["metric"],
        "label": label,
        "runs": len(runs),
        "effects": found.effects,
        "shared": found.shared,
        "rest": found.rest,
        "p": found.p,
        "reason": None,
        "method": _method(len(runs), table),
        "notes": [*left_out, *_notes(sweep, factors, found)],
    }


def _without_copies(runs: Sequence[payload.RunEntry]) -> list[payload.RunEntry]:
    """The runs, of which each training counts once: a copy has no chance of its own."""
    found: dict[str, str] = {}
    for run in sorted(runs, key=lambda run: run["copied"] is not None):  # if the original is here, it counts
        found.setdefault(run["copied"] or run["id"], run["id"])
    counted = set(found.values())
    return [run for run in runs if run["id"] in counted]


def _without_repeats(
    runs: Sequence[payload.RunEntry], keys: Sequence[payload.VariedKey], places: Mapping[str, int]
) -> list[payload.RunEntry]:
    """The runs, of which each configuration, seed and score counts once: trained again, it is no further evidence.

    Args:
        runs: Finished runs.
        keys: All that differ between the rows, with a value for each of them.
        places: Where the values of a row are, by its name.
    """
    found: dict[tuple[str, int, float | None], payload.RunEntry] = {}
    for run in runs:
        values = [key["values"][places[run["row"]]] for key in keys]
        found.setdefault((json.dumps(values), run["seed"], run["score"]), run)
    return [*found.values()]


def _not_again(count: int, several: str, one: str) -> list[str]:
    """The note on runs that were left out because they repeat others."""
    if not count:
        return []
    return [f"{count} run{f's are {several} and do' if count > 1 else f' is {one} and does'} not count again."]


def _counted(table: payload.Table) -> set[str]:
    """Names of the rows whose runs are analysed. If no row is trained, all are: the headline then says so."""
    every = all(row["not_trained"] for row in table["rows"] if row["measured"])
    return {row["row"] for row in table["rows"] if not _unfit(row) and (every or not row["not_trained"])}


def _unfit(row: payload.Row) -> str | None:
    """Why a row's runs do not belong to the others, or have not the values of its keys."""
    return row["not_compared"] or row["unlike"]


def grouped(values: dict[str, list[Any]]) -> list[Factor]:
    """Factors from each key's values, one value per run; keys that group the runs in the same way are one factor."""
    found: dict[bytes, Factor] = {}
    for key, column in values.items():
        groups = _groups(column)
        if groups.max(initial=0) == 0:
            continue
        mark = groups.tobytes()
        keys = (*found[mark].keys, key) if mark in found else (key,)
        found[mark] = Factor(keys, groups)
    return list(found.values())


def _numbers(column: Sequence[Any]) -> set[float]:
    """The distinct values of a column of numbers; empty if it has other values."""
    known = [value for value in column if value is not None]
    return set(known) if all(isinstance(each, int | float) and not isinstance(each, bool) for each in known) else set()


def _spread(column: Sequence[Any]) -> list[float]:
    """The numbers of a column that are grouped into thirds of equal count; none if they have few values.

    Numbers that a third of the runs or more share, as those of an ablation share that of the base row, stay apart: some
    third would otherwise hold others together with them.
    """
    known = [value for value in column if value is not None] if _numbers(column) else []
    counted = Counter(known)
    spread = [value for value in known if 3 * counted[value] < len(known)]
    return spread if len(set(spread)) > MANY else []


def _groups(column: Sequence[Any]) -> NDArray[np.int64]:
    """Each run's group, numbered in order of appearance: its value, or the third of the values in which it is.

    As on the page, an absent key is a group of its own: it is neither the text "None" nor a number.
    """
    names: list[str | None] = [None if value is None else str(value) for value in column]
    if spread := _spread(column):
        edges = np.quantile(spread, [1 / 3, 2 / 3])
        thirds = {value: f"third {np.searchsorted(edges, value)}" for value in set(spread)}
        names = [thirds.get(value, name) for value, name in zip(column, names, strict=True)]
    order = {name: k for k, name in enumerate(dict.fromkeys(names))}
    return np.array([order[name] for name in names], dtype=np.int64)


def analysis(scores: Floats, factors: Sequence[Factor]) -> Analysis:
    """What the factors explain of the scores (n).

    There must be a residual degree of freedom, and scores that differ.
    """
    centred = scores - scores.mean()
    total = float(centred @ centred)
    full = _basis(factors, len(scores))
    explained, rank = _explained(centred, full), full.shape[1]
    residual = len(scores) - 1 - rank
    noise = max(total - explained, 0.0) / residual  # mean square of the residuals
    rng = np.random.default_rng(0)
    effects: list[payload.Effect] = []
    for factor in factors:
        without = _basis([other for other in factors if other is not factor], len(scores))
        freedom = rank - without.shape[1]
        share, p = None, None
        if freedom:
            share = _share(explained - _explained(centred, without), freedom, noise, total)
            p = _permuted(centred, full, without, rng)
        effects.append({"keys": list(factor.keys), "share": share, "p": p, "groups": int(factor.groups.max()) + 1})
    effects.sort(key=lambda effect: -1.0 if effect["share"] is None else effect["share"], reverse=True)
    together, single = _share(explained, rank, noise, total), sum(effect["share"] or 0.0 for effect in effects)
    p = _permuted(centred, full, _basis((), len(scores)), rng)
    return Analysis(effects, max(together - single, 0.0), 1.0 - together, p, residual)


def _share(gain: float, freedom: int, noise: float, total: float) -> float:
    """ω² of what `freedom` columns add to the fit, from 0 to 1."""
    return min(max((gain - freedom * noise) / (total + noise), 0.0), 1.0)


def _basis(factors: Sequence[Factor], n: int) -> Floats:
    """(n, rank): an orthonormal basis of what the factors can fit in addition to the mean."""
    if not factors:
        return np.empty((n, 0))
    design = np.hstack([factor.columns for factor in factors])
    left, size, _ = np.linalg.svd(design - design.mean(axis=0), full_matrices=False)
    return np.asarray(left[:, size > ALIKE * max(size.max(initial=0.0), 1.0) * n])


def _explained(centred: Floats, basis: Floats) -> float:
    fitted = centred @ basis
    return float(fitted @ fitted)


def _permuted(centred: Floats, full: Floats, without: Floats, rng: np.random.Generator) -> float:
    """p of what `full` explains beyond `without`: the share of permutations, with the identity, that gain as much."""
    rest = centred - without @ (without.T @ centred)
    if math.factorial(len(rest)) <= PERMUTATIONS:  # all of them, the identity first
        draws = rest[np.array([*itertools.permutations(range(len(rest)))])]  # (n!, n)
    else:
        count = max(min(PERMUTATIONS, CELLS // len(rest)), 199)
        draws = np.vstack([rest, rng.permuted(np.tile(rest, (count, 1)), axis=1)])  # (1 + count, n)
    power = (draws**2).sum(axis=1)
    fit, less = (((draws @ basis) ** 2).sum(axis=1) for basis in (full, without))
    ratio = (fit - less) / np.maximum(power - fit, ALIKE * power[0])  # F up to the degrees of freedom
    return float((ratio >= ratio[0] * (1 - ALIKE)).mean())


def _method(runs: int, table: payload.Table) -> str:
    text = (
        f"Additive analysis of variance over {runs} finished runs, each key adjusted for the others (type II). The "
        "share is ω², corrected for chance; p comes from permuted residuals. Interactions count as not explained."
    )
    if not any(_spread(key["values"]) for key in table["keys"]):
        return text
    return (
        f"{text} If a key has more than {MANY} numbers, they are grouped into thirds, except those that a third of the "
        "runs share. A search chooses values by earlier scores, so its trials are not a uniform sample of the space."
    )


def _refusal(scores: Floats, factors: Sequence[Factor]) -> str | None:
    if not factors:
        return "The finished runs have the same values of all keys."
    if np.ptp(scores) == 0:
        return "All finished runs have the same score."
    wanted = _basis(factors, len(scores)).shape[1] + 2
    if len(scores) < wanted:
        what = (
            "the effects of these keys" if sum(len(factor.keys) for factor in factors) > 1 else "the effect of this key"
        )
        return (
            f"{len(scores)} finished runs cannot separate {what} from chance: at least {wanted} are needed. More runs "
            "would help."
        )
    return None


def _notes(sweep: payload.Sweep, factors: Sequence[Factor], found: Analysis) -> list[str]:
    notes: list[str] = []
    if sum(effect["share"] or 0.0 for effect in found.effects) + found.rest > 1 + EXCESS:
        notes.append(
            "The lines add up to more than 100 %: the effects of some keys cancel out, so that the fit loses more "
            "without one of them than it alone would explain, or a share below 0 is shown as 0."
        )
    if found.residual < FEW:
        notes.append("These shares come from few runs and are only a hint. More runs would make them reliable.")
    if any(len(factor.keys) > 1 for factor in factors):
        notes.append("Keys on one line always changed together, so these runs cannot separate their effects.")
    if left := sum(run["latest"] and run["state"] == "pruned" for run in sweep["runs"]):
        notes.append(f"{left} pruned runs have no score and are not counted.")
    return notes


def _left_out(table: payload.Table, counted: set[str]) -> list[str]:
    """Which rows are not analysed, and why."""
    rows = table["rows"]
    notes = [f"{row['label']} is left out: {_unfit(row)}." for row in rows if _unfit(row)]
    untrained = [row for row in rows if row["not_trained"]]
    out = [row["label"] for row in untrained if row["row"] not in counted]
    if untrained and not out:
        notes.append("No row counts as trained.")
    if out:
        more = f" and {len(out) - NAMED} more" if len(out) > NAMED else ""
        notes.append(f"Left out because not trained: {'; '.join(out[:NAMED])}{more}.")
    return notes


def _none(measure: str, label: str, runs: int, reason: str, notes: list[str]) -> payload.Importance:
    return {
        "measure": measure,
        "label": label,
        "runs": runs,
        "effects": [],
        "shared": None,
        "rest": None,
        "p": None,
        "reason": reason,
        "method": "",
        "notes": notes,
    }
