"""The verb `table`: which sweep, which format, and where it goes."""

import shlex
import shutil
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from variations.commands.cli import command, typed, typed_settings
from variations.commands.stored import RECORDS, SweepKeys, put
from variations.configuration.doors import typed_again
from variations.configuration.extras import need
from variations.configuration.places import spelled
from variations.configuration.schema import choice
from variations.store.atomic import refuse_unwritable
from variations.system.errors import UserError
from variations.tables.chance import SignificanceConfig
from variations.tables.collect import SeedRun
from variations.tables.difference import compare
from variations.tables.formats import Look, render, terminal
from variations.tables.line import Table
from variations.tables.table import build


@dataclass
class TableConfig(SweepKeys):
    """Keys of `src/table.py`."""

    format: str = choice("terminal", "terminal", "markdown", "latex", "csv", "json", "html")
    """`html` writes the whole sweep as the dashboard shows it: curves, translations, branch weights."""
    out: str | None = None
    """File to write; null: standard output, and for html <runs>/<sweep>/report.html."""
    columns: list[str] | None = None
    """Columns in their order, as [parameters,test.bleu,delta,ci,p]; a name that does not exist lists all. Null: all; in
    LaTeX without further scores and costs."""
    caption: str | None = None
    """Title of the table; null: the sweep's name."""
    diff: list[str] | None = None
    """diff=[ROW]: what ROW changes in its base row; diff=[ROW,OTHER]: what OTHER changes in ROW. Terminal or json."""
    significance: SignificanceConfig = field(default_factory=SignificanceConfig)
    """How differences are tested; significance.show=false leaves the tests out."""
    report: bool = False
    """Also write the HTML report to <runs>/<sweep>/report.html."""


def show(config: TableConfig) -> None:
    """Print a sweep's table, published figures beside measured ones, or write it to a file.

    Raises:
        UserError: No sweep is named, it has no rows, or the file cannot be written.
    """
    if config.format == "html" or config.report:
        need("dashboard", "The HTML report")
        _refuse_settings(config)
    sweep = config.definition().with_bases()
    refuse_unwritable(out=config.out)
    drawn = config.format in ("terminal", "markdown", "latex") and config.diff is None
    if not drawn and (config.columns is not None or config.caption is not None):
        raise UserError("columns and caption are for format=terminal, markdown and latex, without diff.")
    if config.diff is not None:
        _put_difference(config)
        return
    report = config.home / "report.html"
    if config.format == "html":
        _say(_report(config, Path(config.out).expanduser() if config.out else report))
        return
    table = build(sweep, config.store, config.significance)
    _put(table, config)
    runs = [run for line in table.lines for run in line.row.runs]
    counts = Counter(run.state for run in runs)
    if told := [f"{count} {state}" for state in ("running", "queued") if (count := counts[state])]:
        sys.stderr.write(f"Of {len(runs)} runs: {', '.join(told)}.\n")
    elif runs and not any(run.finished for run in runs):
        sys.stderr.write(f"None of these runs is finished in {config.store}. {_advice(config.home, runs)}\n")
    if config.report:
        line = _report(config, report)
        if config.format == "terminal" and config.out is None:
            _say(line)
        else:  # standard output belongs to the table alone
            sys.stderr.write(f"{line}\n")


def _refuse_settings(config: TableConfig) -> None:
    """Refuse what the report would not follow."""
    given = [name for name in ("rows", "seeds") if getattr(config, name)]
    given += typed_settings("sweep", "significance")
    if given:
        html = config.format == "html"
        what = "format=html writes" if html else "report=true also writes"
        other = " and ".join(["choose another format"] * html + ["leave report=true out"] * config.report)
        raise UserError(
            f"{what} the whole sweep, with all seeds that its rows have and the metric and tests of its runs: leave "
            f"{' and '.join(given)} out, or {other}."
        )


def _report(config: TableConfig, path: Path) -> str:
    """Write the dashboard's page of the sweep."""
    from variations.dashboard.api import Api
    from variations.dashboard.export import write
    from variations.dashboard.store import Store

    write(Api(Store(config.store)), config.sweep.name, path, "out")
    return f"report: {path}"


def _put_difference(config: TableConfig) -> None:
    if config.format not in {"terminal", "json"} or config.out is not None:
        raise UserError("diff prints to the terminal: format=terminal or format=json, without out.")
    if config.rows:
        raise UserError("diff names the rows that it compares: leave rows out.")
    of_sweep = [word for word in typed() if word.partition("=")[0].partition(".")[0] == "sweep"]
    found = compare(
        config.sweep,
        config.diff or [],
        config.store,
        seeds=config.seeds,
        significance=config.significance,
        chosen=of_sweep,
    )
    sys.stdout.write(found.json() if config.format == "json" else found.text())


def _put(table: Table, config: TableConfig) -> None:
    look = Look(config.columns, config.caption)
    if config.out is None and config.format == "terminal" and sys.stdout.isatty():
        sys.stdout.write(terminal(table, look, width=shutil.get_terminal_size().columns, colour=True))
    else:
        put(render(table, config.format, look), config.out)


def _advice(home: Path, runs: Sequence[SeedRun]) -> str:
    """How to train the runs of this table. A sweep that has begun in `home` may have had further overrides."""
    chosen = [word for word in typed() if word.partition("=")[0] in ("sweep", "sweep.name", "rows", "seeds", "runs")]
    chosen = [word for word in chosen if word != f"runs={RECORDS}"]  # nothing is trained there
    begun = any(run.state != "absent" for run in runs)
    if begun or not any(word.startswith("sweep=") for word in chosen):
        return "To continue them, repeat the commands that started them."
    line = " ".join([spelled("train"), "--multirun", *map(shlex.quote, chosen + typed_again())])
    further = ", with the further overrides of this sweep's other runs, if any" if any(home.glob("*/seed*/")) else ""
    return f"To train them{further}: {line}"


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")


main = command(
    show,
    schema=TableConfig,
    config_name="table",
    examples={
        "sweep=quickstart": "on the terminal",
        "sweep=quickstart format=html": "a report with curves and translations",
        "sweep=quickstart format=latex out=table.tex": "",
        "sweep=quickstart 'columns=[test.bleu,delta,ci,p]' caption='Heads'": "",
        "sweep=quickstart format=json": "one JSON document",
        "sweep=quickstart 'diff=[transformer,uniform]'": "what one row changes in another",
        "sweep=quickstart significance.n=10000": "finer p-values; significance.show=false: none",
    },
)
