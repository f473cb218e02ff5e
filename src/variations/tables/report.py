"""The report of a sweep: one HTML file with the table, learning curves, branch weights and sample translations."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

from variations.errors import UserError
from variations.figures.curves import Axes, Line, branch_count, chart, colour, dashes, series, weights_chart
from variations.store.atomic import read_stored, write_text
from variations.store.ledger import RunFolder
from variations.tables.collect import SeedRun
from variations.tables.grid import lay_out
from variations.tables.table import Table
from variations.tables.templates import environment

SAMPLES = 8
CURVES = (
    (Axes("Dev BLEU against steps", "step", "dev BLEU"), "step", "dev/bleu"),
    (Axes("Dev BLEU against time", "seconds", "dev BLEU"), "seconds", "dev/bleu"),
    (Axes("Dev loss against steps", "step", "dev loss, nats per sub-word"), "step", "dev/nll"),
    (Axes("Dev loss against time", "seconds", "dev loss, nats per sub-word"), "seconds", "dev/nll"),
)


@dataclass(frozen=True)
class Sample:
    """One source sentence with every row's translation."""

    source: str
    reference: str
    outputs: list[tuple[str, str]]
    """Row label and text."""


def write_report(table: Table, path: Path) -> Path:
    """Write the report to `path` and return it. Raises UserError where `path` cannot be written."""
    try:
        write_text(path, report(table))
    except OSError as error:
        raise UserError(
            f"Cannot write the report to {path}: {error.strerror}; choose another place with out=FILE."
        ) from error
    return path


def report(table: Table) -> str:
    """The whole page; it loads nothing from elsewhere."""
    from markupsafe import Markup

    metrics = {(index, run.seed): read_metrics(run) for index, run in _started(table)}
    samples, origin = choose_samples(table)
    config: dict[str, Any] = next((line.row.config for line in table.lines if line.row.config), {})
    data = config.get("data") or {}
    return (
        environment()
        .get_template("report.html")
        .render(
            title=f"{table.sweep.name}: report",
            lead=_lead(table),
            grid=lay_out(table),
            changes=_changes(table),
            legend=[
                _legend(line.label, i) for i, line in enumerate(table.lines) if any(run.config for run in line.row.runs)
            ],
            branches=[
                _legend(f"branch {b + 1}", b) for b in range(max(map(branch_count, metrics.values()), default=0))
            ],
            # These strings are drawn by this package from numbers alone, so they are the only ones not escaped.
            charts=[Markup(svg) for svg in _charts(metrics)],  # noqa: S704
            weights=[(label, seed, Markup(svg)) for label, seed, svg in _weights(table, metrics)],  # noqa: S704
            samples=samples,
            samples_from=origin,
            languages=(data.get("source", ""), data.get("target", "")),
            facts=_facts(table),
        )
    )


def _legend(label: str, style: int) -> dict[str, str]:
    return {"label": label, "colour": colour(style), "dashes": dashes(style)}


def read_metrics(run: SeedRun) -> list[dict[str, Any]]:
    """A run's measurements, or none if its file is damaged: a report is still worth reading without one curve."""
    try:
        return RunFolder(run.folder).read_metrics() if run.folder else []
    except UserError:
        return []


def choose_samples(table: Table, count: int = SAMPLES) -> tuple[list[Sample], str]:
    """`count` sentences spread over the test set, if possible such that the rows differ, and a word on their origin."""
    rows, texts, seeds = [], [], set()
    source: list[str] = []
    reference: list[str] = []
    for line in table.lines:
        for run in line.row.finished[:1]:
            found = _hypotheses(run)
            if found and (not source or (found[0], found[1]) == (source, reference)):
                source, reference, output = found
                rows.append(line.label)
                texts.append(output)
                seeds.add(run.seed)
    disagreed = [i for i in range(len(source)) if len({text[i] for text in texts}) > 1]
    chosen = sorted(_spread(disagreed or list(range(len(source))), count))
    samples = [
        Sample(source[i], reference[i], [(row, text[i]) for row, text in zip(rows, texts, strict=True)]) for i in chosen
    ]
    kind = "on which the rows differ" if disagreed and len(rows) > 1 else "of the test set"
    listed = ", ".join(map(str, sorted(seeds)))
    return samples, f"{len(samples)} sentences {kind}, evenly spread over {len(source):,}; seed {listed}."


def _hypotheses(run: SeedRun) -> tuple[list[str], list[str], list[str]] | None:
    if run.folder is None:
        return None
    folder = RunFolder(run.folder).hypotheses
    try:
        texts = [
            read_stored(folder / f"test.{kind}").decode("utf-8").removesuffix("\n").split("\n")
            for kind in ("src", "ref", "hyp")
        ]
    except (OSError, UnicodeDecodeError):
        return None
    equal = all(len(first) == len(second) for first, second in pairwise(texts))
    return (texts[0], texts[1], texts[2]) if equal and texts[0] != [""] else None


def _spread(items: Sequence[int], count: int) -> list[int]:
    if len(items) <= count:
        return list(items)
    return [items[i * len(items) // count] for i in range(count)]


def _started(table: Table) -> list[tuple[int, SeedRun]]:
    return [(i, run) for i, line in enumerate(table.lines) for run in line.row.runs if run.folder is not None]


def _charts(metrics: dict[tuple[int, int], list[dict[str, Any]]]) -> list[str]:
    found = []
    for number, (axes, x, y) in enumerate(CURVES):
        points = {key: series(lines, x, y) for key, lines in metrics.items()}
        lines = [Line(xs, ys, row) for (row, _), (xs, ys) in points.items() if xs]
        if lines:
            found.append(chart(axes, lines, name=f"curve{number}"))
    return found


def _weights(table: Table, metrics: dict[tuple[int, int], list[dict[str, Any]]]) -> list[tuple[str, int, str]]:
    """Branch weights of each row's first seed that has any."""
    found = []
    for index, line in enumerate(table.lines):
        for run in line.row.runs:
            svg = weights_chart(metrics.get((index, run.seed), []), name=f"weights{index}")
            if svg is not None:
                found.append((line.label, run.seed, svg))
                break
    return found


def _changes(table: Table) -> list[tuple[str, str | None, str]]:
    labels = {line.row.definition.row: line.label for line in table.lines}
    found: list[tuple[str, str | None, str]] = []
    for line in table.lines:
        if line.base is None:
            found.append((line.label, None, "base row"))
        elif line.changes is not None:
            found.append((line.label, labels[line.base], line.changes))
    return found if len(found) > 1 else []


def _lead(table: Table) -> str:
    done = sum(len(line.row.finished) for line in table.lines)
    wanted = sum(len(line.row.runs) for line in table.lines)
    seeds = len(table.sweep.seeds)
    return (
        f"{len(table.lines)} rows × {seeds} seed{'s' if seeds != 1 else ''}; {done} of {wanted} runs finished. "
        f"Written {datetime.now(UTC):%Y-%m-%d %H:%M} UTC."
    )


def _facts(table: Table) -> list[tuple[str, str]]:
    runs = [run for line in table.lines for run in line.row.finished]
    found: dict[str, dict[str, None]] = {}
    for run in runs:
        for name, value in _run_facts(run):
            found.setdefault(name, {})[value] = None
    facts = [("run store", str(table.store / table.sweep.name))]
    facts += [(name, "; ".join(values)) for name, values in found.items()]
    name = shlex.quote(table.sweep.name)
    again = f"python src/train.py --multirun sweep={name} && python src/table.py sweep={name} format=html"
    return [*facts, ("make it again", again)]


def _run_facts(run: SeedRun) -> list[tuple[str, str]]:
    try:
        environment_ = (RunFolder(run.folder).environment() if run.folder else None) or {}
    except UserError:
        return []
    git, packages = environment_.get("git") or {}, environment_.get("packages") or {}
    facts = []
    if git.get("commit"):
        facts.append(("commit", git["commit"][:12] + (" with uncommitted changes" if git.get("dirty") else "")))
    if packages.get("torch"):
        facts.append(("software", f"Python {environment_.get('python')}, torch {packages['torch']}"))
    gpus = ", ".join(environment_.get("gpus") or [])
    machine = [str(part) for part in (environment_.get("cpu"), f"{environment_.get('cores')} cores", gpus) if part]
    return [*facts, ("hardware", ", ".join(machine))] if environment_.get("cpu") else facts
