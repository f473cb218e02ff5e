"""What the figures of a table show: differences from base rows, and parts of a score."""

from collections.abc import Sequence
from typing import Any

from variations.figures.differences import Difference, Published
from variations.figures.differences import differences as draw
from variations.figures.parts import Bars
from variations.tables.line import NOT_TRAINED, Line, Table


def forest(table: Table) -> tuple[str, Any] | None:
    """The figure of the differences and the stem of its file; None if no row is compared with its base row."""
    found = differences(table)
    if not found:
        return None
    return f"differences-{table.primary.key.replace('.', '_')}", draw(found, _axis(table), note(table))


def _compared(table: Table) -> list[Line]:
    """The rows that have a difference from their base row in the sweep's metric."""
    return [line for line in table.lines if table.primary.key in line.delta]


def differences(table: Table) -> list[Difference]:
    """What is drawn of the rows that are compared, in the table's order."""
    lines = _compared(table)
    return [
        Difference(
            line.label if line.base == lines[0].base else f"{line.label} (v. {_base(table, line).label})",
            line.delta[table.primary.key].mean,
            (line.test.across.low, line.test.across.high) if line.test else None,
            _published(table, line),
            table.primary.digits,
        )
        for line in lines
    ]


def _axis(table: Table) -> str:
    """What is drawn, and from which row the differences are taken."""
    first, *others = _compared(table)
    elsewhere = ", or from the row in brackets" if any(line.base != first.base for line in others) else ""
    better = "" if table.primary.higher_is_better else " (lower is better)"
    return f"{table.primary.label}{better}: difference from {_base(table, first).label}{elsewhere}"


def _base(table: Table, line: Line) -> Line:
    """The base row of a row that has a difference from it."""
    return next(other for other in table.lines if other.row.definition.row == line.base)


def _published(table: Table, line: Line) -> list[Published]:
    base, found = _base(table, line), []
    for key, value in line.published_delta.items():
        kind = table.task.published(key)
        if _alike(table, key):
            recalled = any(side.published[key].recalled for side in (line, base) if key in side.published)
            found.append(Published(f"published, {kind.label}", value, recalled))
    return found


def _alike(table: Table, key: str) -> bool:
    """Whether published differences have the unit of the measured ones, even on other data."""
    kind = table.task.published(key)
    same = table.primary.key in kind.measures or (bool(kind.unit) and kind.unit == table.primary.unit)
    return same and not table.part(key)


def note(table: Table) -> str:
    """The note below them, line by line: their intervals, who is not drawn, and the data of published figures."""
    lines = _compared(table)
    found = [_intervals(table, lines), *_left_out(table, lines)]
    if noted := [line.label for line in lines if line.notes]:
        which = "; ".join(noted) if len(noted) < len(lines) else "all of these rows"
        found.append(f"The table has footnotes on {which}.")
    printed = dict.fromkeys(key for line in lines for key in line.published_delta if _alike(table, key))
    if texts := dict.fromkeys(text for key in printed if (text := table.task.published(key).text)):
        found.append(f"Published figures were measured on {' and '.join(texts)}.")
    return "\n".join(filter(None, found))


def _intervals(table: Table, lines: Sequence[Line]) -> str:
    """Which chance they cover; empty if nothing was tested."""
    tests = {line.label: line.test for line in lines if line.test}
    if not tests:
        return ""
    items = table.primary.items
    single = [label for label, test in tests.items() if not test.counts_seeds]
    of_restarts = {test.counts_restarts for test in tests.values() if test.counts_seeds}
    trained = " or ".join({False: "seeds", True: "restarts"}[kind] for kind in sorted(of_restarts))
    covered = f"{trained} and in {items}" if trained else f"{items}, not in the seed"
    apart = f" ({'; '.join(single)}: one seed, so in {items} only)" if single and trained else ""
    return f"{100 * table.significance.level:.3g} % intervals: chance in {covered}{apart}."


def _left_out(table: Table, lines: Sequence[Line]) -> list[str]:
    """Which rows were not tested or are not drawn, and why; those with the same reason together."""
    reasons: dict[str, list[str]] = {}
    for line in lines:
        if not line.test and line.untested:
            reasons.setdefault(line.untested, []).append(line.label)
    for line in table.lines:
        if line.row.finished and line not in lines and line.base:
            why = f"{NOT_TRAINED}: {line.untrained}" if line.untrained else line.uncompared or line.untested
            reasons.setdefault(f"not drawn, {why}" if why else "not drawn", []).append(line.label)
    return [f"{'; '.join(labels)}: {why.rstrip('.')}." for why, labels in reasons.items()]


def bars(table: Table) -> tuple[list[str], list[Bars], str, list[str]]:
    """The parts of a score: their names, a panel for each row that measured them, their unit, and what is left out."""
    measured = [measure for measure in table.measures if measure.part_of]
    printed = {part.key: key for line in table.lines for key in line.published if (part := table.part(key))}
    found, left_out = [], []
    for line in table.lines:
        own = [line.measured.get(part.key) for part in measured]
        figures = [line.published.get(printed.get(part.key, "")) for part in measured]
        if not any(own):
            continue
        compared = [figure if figure and figure.difference is not None else None for figure in figures]
        if why := dict.fromkeys(note for f in figures if f and f.difference is None for note in f.notes):
            left_out.append(f"{line.label}: published figures are not drawn beside its own: {'; '.join(why)}.")
        found.append(
            Bars(
                line.label,
                [mean.mean if mean else None for mean in own],
                [mean.sd if mean else None for mean in own],
                [figure.value if figure else None for figure in compared],
                any(figure.recalled for figure in compared if figure),
                list(dict.fromkeys(note for figure in compared if figure for note in figure.notes)),
            )
        )
    unit = table.task.measure(measured[0].part_of).label.removeprefix("mean ") if measured else ""
    return [part.label for part in measured], found, unit, left_out
