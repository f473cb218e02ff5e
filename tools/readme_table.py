"""Writes the table of the README from the records: `make results` calls it, and a test compares."""

import sys
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))

SWEEP = "babi_memn2n_1k"
ROWS = ["pe", "bow", "pe_ls", "pe_ls_rn"]
"""Rows that differ in one part of the network or its training."""
COLUMNS = ("row", "published.mean_error", "test.error", "published_delta.mean_error", "delta", "ci", "p")
START, END = "<!-- table: tools/readme_table.py -->\n", "<!-- end of table -->\n"


def text() -> str:
    """The rows as a Markdown table: published and measured figures, differences, intervals, and their footnotes."""
    from variations.configuration.compose import compose_run
    from variations.store.rows import define
    from variations.tables.grid import lay_out
    from variations.tables.table import build
    from variations.tables.text import footnotes, pipe_table, raised, used_notes

    store = Path("records")
    sweep = compose_run([f"sweep={SWEEP}"]).sweep
    grid = lay_out(build(define(sweep, rows=ROWS, store=store), store))
    keys = [column.key for column in grid.columns]
    shown = [keys.index(key) for key in COLUMNS if key in keys]
    rows, notes = [[row[i] for i in shown] for row in grid.rows], used_notes(grid, shown)
    remarks = [remark for remark in grid.remarks if remark.startswith("p is not corrected")]
    part = replace(grid, columns=[grid.columns[i] for i in shown], rows=rows, notes=notes, remarks=remarks)
    below = footnotes(part, lambda mark: raised((mark,)))
    return "\n".join([*pipe_table(part), "", "<br>\n".join(below)]) + "\n"


def filled(readme: str) -> str:
    """The README with the table made from the records."""
    before, _, rest = readme.partition(START)
    _, _, after = rest.partition(END)
    return f"{before}{START}{text()}{END}{after}"


if __name__ == "__main__":
    path = ROOT / "README.md"
    path.write_text(filled(path.read_text(encoding="utf-8")), encoding="utf-8")
