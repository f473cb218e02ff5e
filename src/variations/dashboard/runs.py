"""One run: configuration, measurements, branch weights and attention maps."""

from collections.abc import Sequence
from typing import Any, cast

from variations.configuration.tasks import task_of
from variations.dashboard.metrics import AXES, Metrics, rounded, thinned
from variations.dashboard.payload import runs as payload
from variations.dashboard.store import Store
from variations.dashboard.sweeps import log_tail
from variations.dashboard.walk import Found
from variations.figures.weights import KEY, branched
from variations.store.atomic import read_json
from variations.store.hidden import clean, without_secrets
from variations.store.identity import flatten
from variations.store.row_files import label_of
from variations.system.errors import UserError

SAMPLES = 20
DIFF = 20_000
"""Largest number of characters of uncommitted changes that are shown."""
DIGITS = 7
"""Significant digits of measurements."""
LARGEST = 8 * 1024 * 1024
"""Largest size of attention.json in bytes."""


def run(store: Store, found: Found) -> payload.Run:
    """All that is known about a run. Parts that cannot be read are empty, and `reason` says why."""
    known = store.summary(found)
    try:
        environment = found.folder.environment() if "environment.json" in found.files else None
        fault = known.fault
    except UserError as error:
        environment, fault = None, str(error)
    reason = fault or known.status.get("reason")
    state = "broken" if known.fault else found.state
    return {
        "id": found.id,
        "sweep": found.sweep,
        "row": found.row,
        "label": label_of(known.config, found.row),
        "seed": found.folder.seed,
        "attempt": found.folder.attempt,
        "state": state,
        "reason": clean(str(reason)) if reason else None,
        "config": flat(known.config),
        "environment": flat(environment or {}),
        "result": flat(known.result),
        "status": without_secrets(known.status),
        "samples": _samples(store, found),
        "log_tail": log_tail(found, state, reason),
        "revision": found.stamp,
    }


def flat(document: dict[str, Any]) -> dict[str, Any]:
    """Dotted keys and their values, without secrets; a long text is cut."""
    values = {key: without_secrets(value, key) for key, value in flatten(document).items()}
    return {key: _short(value) for key, value in values.items()}


def _short(value: Any) -> Any:
    if isinstance(value, str) and len(value) > DIFF:
        return f"{value[:DIFF]}\n… {len(value) - DIFF:,} further characters"
    return value


def _samples(store: Store, found: Found) -> list[payload.Sample]:
    items = store.outputs(found, "test")[:SAMPLES]
    if not items:
        return []
    sources, references, outputs = zip(*items, strict=True)
    near = task_of(store.summary(found).config).near(outputs, references)
    return [
        {"index": i, "source": source, "reference": reference, "hypothesis": output, "score": round(score, 2)}
        for i, (source, reference, output, score) in enumerate(zip(sources, references, outputs, near, strict=True))
    ]


def curves(
    store: Store,
    found: Found,
    points: int | None = None,
    wanted: Sequence[str] | None = None,
    columns: Sequence[str] = AXES,
) -> payload.Curves:
    """Measurements of a run during training.

    Args:
        store: The store.
        found: The run.
        points: The most points of each metric, evenly spread; None: all.
        wanted: The metrics; None: all. One that the run has not measured is left out.
        columns: Which of AXES.
    """
    with store.metrics(found) as metrics:
        known = metrics.scalars
        chosen = {key: _thin(*known[key], points) for key in (known if wanted is None else wanted) if key in known}
        used = sorted({place for places, _ in chosen.values() for place in places})
        order = {place: i for i, place in enumerate(used)}
        digits = DIGITS if points is None else 5
        document = {
            "id": found.id,
            **{name: _column(metrics, name, used, 12 if name == "step" else digits) for name in columns},
            "metrics": {
                key: [[order[place] for place in places], [rounded(value, digits) for value in values]]
                for key, (places, values) in chosen.items()
            },
            "revision": found.stamp,
        }
    return cast(payload.Curves, document)


def curves_of(store: Store, names: Sequence[str], wanted: Sequence[str], axis: str) -> payload.SomeCurves:
    """The metrics `wanted` of several runs against `axis`, one of AXES."""
    document: payload.SomeCurves = {"runs": [], "broken": []}
    for name in names:
        try:
            document["runs"].append(curves(store, store.find(name), None, wanted, list(dict.fromkeys(("step", axis)))))
        except KeyError:
            document["broken"].append({"path": name, "reason": "is no longer in the run store"})
        except UserError as error:
            document["broken"].append({"path": name, "reason": str(error)})
    return document


def _thin(places: list[int], values: list[float], points: int | None) -> tuple[list[int], list[float]]:
    if points is None or len(places) <= points:
        return places, values
    kept = thinned(range(len(places)), points)
    return [places[i] for i in kept], [values[i] for i in kept]


def _column(metrics: Metrics, name: str, used: list[int], digits: int) -> list[float | None]:
    column = metrics.costs[name]
    return [rounded(column[place], digits) for place in used]


# Branch weights -------------------------------------------------------------------------------------------------------


def branches(store: Store, found: Found, points: int | None = None) -> payload.Branches:
    """κ and α of every branched sub-layer, encoder first."""
    with store.metrics(found) as metrics:
        order = branched(metrics.lists)
        places = sorted({place for key in metrics.lists if KEY.fullmatch(key) for place in metrics.lists[key][0]})
        places = thinned(places, points) if points else places
        layers: list[payload.BranchLayer] = [
            {
                "name": match[1],
                "label": f"{match[2]} layer {int(match[3]) + 1}" + (f", {match[4]}" if match[4] else ""),
                "kappa": _rows(metrics, f"branch/{match[1]}.kappa", places),
                "alpha": _rows(metrics, f"branch/{match[1]}.alpha", places),
            }
            for match in order
        ]
        return {
            "id": found.id,
            "steps": [int(metrics.costs["step"][place] or 0) for place in places],
            "layers": layers,
            "dead": [branch for layer in layers for branch in _dead(layer)],
            "revision": found.stamp,
        }


def _rows(metrics: Metrics, key: str, places: list[int]) -> list[list[float] | None]:
    known = dict(zip(*metrics.lists.get(key, ([], [])), strict=True))
    return [[rounded(value, 4) or 0.0 for value in known[place]] if place in known else None for place in places]


def _dead(layer: payload.BranchLayer) -> list[payload.DeadBranch]:
    """Branches whose κ or α is 0 at the last recorded step."""
    zero: dict[int, list[str]] = {}
    for weight, values in (("kappa", layer["kappa"]), ("alpha", layer["alpha"])):
        last = next((row for row in reversed(values) if row is not None), [])
        for branch, value in enumerate(last):
            if value == 0:
                zero.setdefault(branch, []).append(weight)
    return [
        {"layer": layer["name"], "branch": branch, "weight": "both" if len(weights) == 2 else weights[0]}
        for branch, weights in sorted(zero.items())
    ]


# Attention ------------------------------------------------------------------------------------------------------------


def attention(store: Store, found: Found) -> payload.Attention | None:
    """Stored attention maps; None if there are none. Raises UserError if the file is damaged."""
    path = found.folder.path / "attention.json"
    if "attention.json" not in found.files:
        return None
    try:
        if path.stat().st_size > LARGEST:
            raise UserError(f"{path} is larger than {LARGEST // 2**20} MiB: it is not one that a run wrote.")
        stored = read_json(path)
        sentences = stored["sentences"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path} cannot be read: {type(error).__name__}.") from error
    document: payload.Attention = {"id": found.id, "sentences": sentences, "revision": found.stamp}
    if isinstance(stored.get("words"), dict):
        names = stored["words"]
        document["words"] = {
            "source": str(names.get("source")),
            "target": str(names.get("target")),
            "looking": str(names.get("looking")),
            "looked_at": str(names.get("looked_at")),
        }
    told = str(stored.get("note") or "").startswith("The targets are references")  # files before the key existed
    if stored.get("references") is True or told:
        document["references"] = True
    if stored.get("note"):
        document["note"] = str(stored["note"])
    return document


# Drawings -------------------------------------------------------------------------------------------------------------


def drawings(store: Store, found: Found) -> payload.Drawings:
    """Tested items as drawn by the run's task. Raises UserError if stored files are damaged."""
    known = store.summary(found)
    task = task_of(known.config)
    inside = all(store.inside(path) for path in found.folder.hypotheses.glob("test.*"))
    drawn = task.drawings(found.folder, "test") if inside and not known.fault else ()
    return {
        "id": found.id,
        "drawn": task.drawn,
        "drawings": [{"line": each.line, "title": each.title, "svg": each.svg} for each in drawn],
        "revision": found.stamp,
    }
