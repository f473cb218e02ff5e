"""The verb `figures`: which runs, which figures, and where the files go."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from variations.commands.cli import command
from variations.commands.stored import SweepKeys, bar
from variations.configuration.extras import need
from variations.configuration.schema import AUTO, choice, number
from variations.configuration.suggestions import did_you_mean
from variations.configuration.tasks import named, task_of
from variations.figures.traces import COSTS
from variations.store.contents import EXCHANGED
from variations.system.errors import UserError
from variations.tasks.base import Asked, Measure
from variations.tasks.task import Task

OF_RUNS = ("differences", "learning_curves", "loss_against_loss", "branch_weights", "convergence", "parts")
SELECTING = {
    "line": ("attention", "drawings"),
    **dict.fromkeys(("sentence", "target", "items", "heads", "words"), ("attention",)),
    "layer": ("attention", "branch_weights", "all"),
    "x": ("learning_curves", "all"),
    "set": ("drawings",),
}
"""Keys that select a part of some figures only."""


@dataclass
class FiguresConfig(Asked, SweepKeys):
    """Keys of `figures.py`: a sweep or a run, and which figure."""

    run: str | None = None
    """Folder of a single run, instead of a sweep."""
    figure: str = choice("all", "all", *OF_RUNS, "attention", "drawings")
    """`all`: those of stored runs. `attention` and `drawings` (of tested items, such as trees): with run=FOLDER."""
    out: str | None = None
    """Folder for the files; null: <runs>/<sweep>/figures, or figures in the run's folder."""
    format: str = choice("svg", "svg", "png", "pdf")
    metric: str = AUTO
    """The quantity in learning_curves and convergence, such as dev/nll; auto: the one that fits the sweep's metric."""
    x: str | None = choice(None, *COSTS)
    """Cost on the x axis of learning_curves; null: one panel for each cost that the task's runs record."""
    window: int = number(5, ge=1)
    """Window of the moving average in branch_weights, in measurements; 1: none."""
    skip: float = number(0.1, ge=0, lt=1)
    """Fraction of training that loss_against_loss leaves out at the start."""
    set: str | None = None
    """The tested set, for drawings; null: test."""


def draw(config: FiguresConfig) -> None:
    """Draw figures of stored runs as SVG, PNG or PDF, and print the name of each file.

    differences shows each row against its base row. learning_curves, loss_against_loss, branch_weights, convergence
    (a table) and parts show what runs measured. attention shows every layer and head of a trained run for one sentence.
    drawings show single items of a tested run, such as the trees of task=parsing. docs/figures.md explains each.
    """
    if (config.run is None) == (config.sweep.name is None):
        raise UserError("Which figures? Give either sweep=NAME or run=FOLDER.")
    for key, figures in SELECTING.items():
        if getattr(config, key) is not None and config.figure not in figures:
            wanted = " and ".join(f"figure={name}" for name in figures if name != "all")
            raise UserError(f"{key} is for {wanted}, not for figure={config.figure}: leave it out.")
    need("dashboard", "Drawing")
    of_one_run = {"attention": _attention, "drawings": _drawings}
    for path in of_one_run.get(config.figure, _of_runs)(config):
        print(path, flush=True)


# Stored runs ----------------------------------------------------------------------------------------------------------


def _of_runs(config: FiguresConfig) -> Iterator[Path]:
    from variations.figures.canvas import save, style

    rows, home = _rows(config)
    if not any(row.metrics for row in rows):
        raise UserError(f"None of these runs has measured anything yet: {home.parent} contains no metrics.")
    out = _place(config, home)
    config.metric = _metric(config, rows)
    wanted = OF_RUNS if config.figure == "all" else (config.figure,)
    count = 0
    with style(), bar("drawing", len(wanted)) as advance:
        for name in wanted:
            if name == "convergence":  # a table
                files = _convergence(config, rows, out)
            else:
                drawn = _FIGURES[name](config, rows)
                files = (save(figure, _ours(out / f"{stem}.{config.format}")) for stem, figure in drawn)
            for path in files:
                count += 1
                yield path
            advance()
    if not count:
        raise UserError(_nothing(config))


def _metric(config: FiguresConfig, rows: Any) -> str:
    """The quantity that the figures show. Raises UserError if no run records it."""
    task = named(rows[0].task)
    recorded = {key for row in rows for lines in row.metrics.values() for line in lines for key in line}
    if config.metric == AUTO:
        watched = _watched(config, task) if config.run is None else None
        return str(next((key for key in (watched, *task.curves, task.monitor) if key in recorded), task.monitor))
    known = [key for key in task.curves if key in recorded]
    if known and config.metric not in recorded:
        near = did_you_mean(config.metric, known)
        raise UserError(f"metric={config.metric}: no run recorded it.{near} Valid: {', '.join(known)}.")
    return config.metric


def _rows(config: FiguresConfig) -> tuple[Any, Path]:
    from variations.figures.traces import run_row
    from variations.store.ledger import RunFolder
    from variations.tables.collect import has_measurements

    if config.run is not None:
        folder = RunFolder.open(Path(config.run).expanduser())
        if folder.finished() and folder.measurements.read() and not has_measurements(folder, folder.result() or {}):
            raise UserError(f"{folder.measurements.path} {EXCHANGED}: restore it to draw this run.")
        return [run_row(folder)], folder.path / "figures"
    return list(_sweep_rows(config)), config.home / "figures"


def _sweep_rows(config: FiguresConfig) -> Iterator[Any]:
    """The rows of a sweep in its order, base row first. Rows and runs that cannot be drawn are named and left out."""
    from variations.figures.traces import TracedRow, is_averaged, with_tokens
    from variations.tables.alike import edited_between, mixed_validations, other_overrides, other_validations
    from variations.tables.collect import collect, of_other_task, table_task
    from variations.tables.line import NOT_TRAINED
    from variations.tables.table import LOSS, caveats, incomparable, other_loss, unlike, why_untrained

    sweep = config.definition().with_bases()
    collected = collect(sweep, config.store)
    task = table_task(collected)
    watched = _watched(config, task) if config.metric == AUTO else config.metric
    measure = _measure(task, watched or task.monitor)
    known = {row.definition.row: row for row in collected}
    unmeasured = []
    for row in collected:
        if row.finished and (of_task := of_other_task(row, task)):
            name = row.definition.row
            sys.stderr.write(f"Left out: {name} is of task={of_task}: 'rows=[{name}]' draws it.\n")
            continue
        base = sweep.base_of(row.definition)
        other = known[base.row] if base else None
        uncompared = other_losses = other_objective = apart = None
        if other is not None and row.config and other.config:
            uncompared = incomparable(task, row, other, measure) or other_validations(row, other)
            if found := other_loss(task, LOSS, row, other):
                other_losses = f"its losses depend on {found}, which its base row does not share: not compared"
            smoothing = [(side.config.get("recipe") or {}).get("label_smoothing") for side in (row, other)]
            if smoothing[0] != smoothing[1]:
                other_objective = "its training loss has another label smoothing than its base row's: not compared"
            apart = "; ".join([*filter(None, [other_overrides(row, other)]), *edited_between(row, other)])
        why = why_untrained(row)
        told = (*caveats(row), *filter(None, [apart]), *([f"{NOT_TRAINED}: {why}"] if why else ()))
        read = {run.seed: _measurements(run) for run in row.runs if run.folder is not None}
        metrics = {seed: [with_tokens(line) for line in lines] for seed, lines in read.items() if lines}
        unmeasured += [] if read or row.definition.quoted else [row.definition.row]
        results = {run.seed: run.result for run in row.finished}
        yield TracedRow(
            row.definition.row,
            row.definition.label,
            base.row if base else None,
            metrics,
            results,
            row.config.get("task") or task.name,  # a row without a run has no curves, but may give axes their names
            told,
            uncompared,
            other_losses,
            other_objective,
            bool(unlike(row) or mixed_validations(row)),
            any(is_averaged(run.config) for run in row.runs),
        )
    if 0 < len(unmeasured) < len(collected):
        sys.stderr.write(f"Left out, because they have no runs here: {', '.join(unmeasured)}.\n")


def _watched(config: FiguresConfig, task: Task) -> str | None:
    """What validations record that fits the sweep's metric."""
    return task.watched(task.primary(config.sweep.metric).key)


def _measure(task: Task, recorded: str) -> Measure:
    """The measure of a quantity in validations, by which rows are compared in all but what losses alone depend on."""
    from variations.tables.table import LOSS

    keys = [recorded.replace("/", sign, 1) for sign in "._"]
    known = (task.measure(key) for key in keys if task.unknown_metric(key, ()) is None)
    return replace(next(known, LOSS), is_loss=False)


def _measurements(run: Any) -> list[dict[str, Any]]:
    from variations.store.ledger import RunFolder

    folder = RunFolder(run.folder)
    if run.state == "broken":
        reason = str(run.reason).rstrip(".")
        sys.stderr.write(f"Left out: {folder.path} is broken: {reason}.\n")
        return []
    try:
        found: list[dict[str, Any]] = folder.measurements.read()
    except UserError as error:
        sys.stderr.write(f"Left out: {error}\n")
        return []
    if run.finished and found and not run.measured:
        sys.stderr.write(f"Left out: {folder.measurements.path} {EXCHANGED}.\n")
        return []
    return found


def _learning(config: FiguresConfig, rows: Any) -> Iterator[tuple[str, Any]]:
    from variations.figures.learning import learning_curves

    figure = learning_curves(rows, config.metric, [config.x] if config.x else COSTS)
    if figure is not None:
        against = f"-{config.x}" if config.x else ""
        yield f"learning_curves-{config.metric.replace('/', '_')}{against}", figure


def _losses(config: FiguresConfig, rows: Any) -> Iterator[tuple[str, Any]]:
    from variations.figures.learning import loss_against_loss

    figure = loss_against_loss(rows, config.skip)
    if figure is not None:
        yield "loss_against_loss", figure


def _weights(config: FiguresConfig, rows: Any) -> Iterator[tuple[str, Any]]:
    """One file for each row and seed: branch 1 of one seed does not correspond to branch 1 of another."""
    from variations.figures.weights import branch_weights, moved, sublayers

    part = "decoder" if config.part == "cross" else config.part
    for row in rows:
        for seed, metrics in row.metrics.items():
            names = sublayers(metrics, part, config.layer)
            if names and not moved(metrics, names):
                sys.stderr.write(f"{row.label}, seed {seed}: its branch weights are constant, so they are not drawn.\n")
            elif names:
                stem = "-".join(["branch_weights", row.name, *_layer_words(config), f"seed{seed}"])
                title = f"{row.label}, seed {seed}"
                yield stem, branch_weights(metrics, names, config.window, title, averaged=row.averaged)


def _layer_words(config: FiguresConfig) -> list[str]:
    found = [] if config.part == "all" else [config.part]
    return found + ([] if config.layer is None else [f"layer{config.layer}"])


def _differences(config: FiguresConfig, rows: Any) -> Iterator[tuple[str, Any]]:
    from variations.tables.chance import SignificanceConfig
    from variations.tables.drawn import forest, note

    table = _table(config, SignificanceConfig())
    if table and (drawn := forest(table)):
        yield drawn
    elif table and config.figure == "differences":
        why = note(table).replace("\n", " ") or "No row and its base row have both finished."
        raise UserError(f"Nothing to draw: no row can be compared with its base row. {why}")


def _parts(config: FiguresConfig, rows: Any) -> Iterator[tuple[str, Any]]:
    from variations.figures.parts import parts
    from variations.tables.chance import SignificanceConfig
    from variations.tables.drawn import bars

    if (table := _table(config, SignificanceConfig(show=False))) and any(m.part_of for m in table.measures):
        names, rows_of, unit, left_out = bars(table)
        sys.stderr.write("".join(f"{text}\n" for text in left_out))
        yield "parts", parts(names, rows_of, unit)


def _table(config: FiguresConfig, significance: Any) -> Any:
    """The table of the sweep; None for a single run, which is compared with nothing."""
    from variations.tables.table import build

    if config.sweep.name is None:
        return None
    return build(config.definition().with_bases(), config.store, significance)


_FIGURES = {
    "differences": _differences,
    "learning_curves": _learning,
    "loss_against_loss": _losses,
    "branch_weights": _weights,
    "parts": _parts,
}


def _convergence(config: FiguresConfig, rows: Any, out: Path) -> Iterator[Path]:
    from variations.figures.convergence import convergence, document, markdown, uncompared
    from variations.store.atomic import told_if_unwritable, write_json, write_text

    finished = {row.name: row.results.keys() for row in rows}
    for row in rows:
        why = uncompared(row, config.metric)
        if not why and row.base in finished and not row.results.keys() & finished[row.base]:
            why = "there is no seed that both it and its base row have finished"
        if why:
            sys.stderr.write(f"The table of convergence leaves {row.label} out: {why}.\n")
    found = convergence(rows, config.metric)
    if not found:
        return
    stem = f"convergence-{config.metric.replace('/', '_')}"
    with told_if_unwritable(out, "; choose another folder with out=DIR."):
        write_text(_ours(out / f"{stem}.md"), markdown(found, rows[0].label_of(config.metric)))
        write_json(_ours(out / f"{stem}.json"), document(found, config.metric))
    yield out / f"{stem}.md"
    yield out / f"{stem}.json"


def _nothing(config: FiguresConfig) -> str:
    of_curves = f"no run measured {config.metric}"
    if config.x is not None:
        of_curves = f"no run counted {config.x} when it measured {config.metric}; leave x out for what was counted"
    reasons = {
        "differences": "a single run has no base row",
        "learning_curves": of_curves,
        "branch_weights": "no run recorded weights of such branches: choose a sweep with a weighted model, or another "
        "layer or part",
        "convergence": f"no row and its base row both measured {config.metric} under one seed",
        "parts": "no run of a sweep measured the parts of a score, such as the errors of single tasks",
        "loss_against_loss": "no run measured training and dev loss at the same step",
    }
    return f"Nothing to draw: {reasons.get(config.figure, f'no run measured {config.metric}')}."


# Attention ------------------------------------------------------------------------------------------------------------


def _attention(config: FiguresConfig) -> Iterator[Path]:
    from variations.figures.canvas import save, style
    from variations.training.weights import load_network

    folder = _one_run(config, "draws one trained run")
    network, frozen = load_network(folder.path)
    with style():
        for stem, figure in task_of(folder.config()).attended(folder, frozen, network, config):
            yield save(figure, _ours(_place(config, folder.path / "figures") / f"{stem}.{config.format}"))


def _one_run(config: FiguresConfig, what: str) -> Any:
    from variations.store.ledger import RunFolder

    if config.run is None:
        raise UserError(f"figure={config.figure} {what}: give run=FOLDER instead of a sweep.")
    return RunFolder.open(Path(config.run).expanduser())


def _place(config: FiguresConfig, usual: Path) -> Path:
    return Path(config.out).expanduser() if config.out else usual


def _ours(path: Path) -> Path:
    """Return the path. Raises UserError if a file without this command's mark is there."""
    from variations.figures.canvas import MADE_BY

    try:
        found = path.read_bytes()
    except OSError:
        return path  # there is none, or writing will report the error
    if MADE_BY.encode() not in found:
        raise UserError(f"{path} was not made by this command: rename it, or choose another folder with out=DIR.")
    return path


# Drawings of single items ---------------------------------------------------------------------------------------------


def _drawings(config: FiguresConfig) -> Iterator[Path]:
    from variations.figures.canvas import MADE_BY
    from variations.store.atomic import write_text
    from variations.tables.collect import unfit

    folder = _one_run(config, "shows one tested run")
    if config.format != "svg":
        raise UserError(f"figure=drawings writes SVG only: leave out format={config.format}.")
    task = task_of(folder.config())
    if not task.drawn:
        raise UserError(f"figure=drawings: task={task.name} draws no single items; task=parsing draws trees.")
    if fault := unfit(folder):
        sys.stderr.write(f"warning: {folder.path} is damaged: {fault}.\n")
    part = config.set or "test"
    found = task.drawings(folder, part, config.line)
    if not found:
        raise UserError(
            f"{folder.path} has nothing to draw for set={part}: it was not tested on it, or made no mistake, or "
            "is the record of a run on a corpus whose sentences are not published."
        )
    out = _place(config, folder.path / "figures")
    for drawing in found:
        path = out / f"{part}-{drawing.line:04d}.svg"
        write_text(_ours(path), f"{drawing.svg}\n<!-- {MADE_BY} -->\n")
        yield path


main = command(
    draw,
    schema=FiguresConfig,
    config_name="figures",
    examples={
        "sweep=quickstart": "all figures of a table",
        "sweep=quickstart figure=branch_weights layer=2 format=png out=DIR": "",
        "run=RUN figure=attention sentence='the cat sleeps' layer=2": "",
        "run=RUN figure=attention line=7 layer=5 'heads=[5,6]' 'words=[its]' part=encoder": "",
        "run=RUN figure=drawings line=7": "trees of a run of task=parsing",
    },
)
