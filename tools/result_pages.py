"""Writes docs/results/<sweep>.md and its figure for every recorded sweep: `make results` calls it, a test compares."""

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))

if TYPE_CHECKING:
    from variations.tables.line import Table

RECORDS = Path("records")


def write(name: str, folder: Path) -> list[Path]:
    """Write the page and the figure of the differences, if there are any, into `folder`."""
    from variations.configuration.compose import compose_run
    from variations.figures.canvas import save, style
    from variations.store.rows import define
    from variations.tables.drawn import forest
    from variations.tables.table import build

    table = build(define(compose_run([f"sweep={name}"]).sweep, store=RECORDS), RECORDS)
    page, picture = folder / f"{name}.md", None
    with style():
        if drawn := forest(table):
            stem, figure = drawn
            picture = Path("differences", name, f"{stem}.svg")
            (folder / picture).parent.mkdir(parents=True, exist_ok=True)
            save(figure, folder / picture)
    page.write_text(_text(name, table, picture), encoding="utf-8")
    return [page, *([folder / picture] if picture else [])]


def _text(name: str, table: "Table", figure: Path | None) -> str:
    """Title in the site's navigation, first comment of the sweep's file, commands, figure, table."""
    from variations.configuration.places import SWEEPS
    from variations.system.markdown import escaped
    from variations.tables.formats import render

    comment = re.match(r"(?:# .*\n)+", (SWEEPS / f"{name}.yaml").read_text(encoding="utf-8"))
    about = " ".join(line.removeprefix("# ") for line in comment[0].splitlines()) if comment else ""
    title = re.search(rf"- (.+): results/{name}\.md$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE)
    named = [(line.row.definition.row, line.label) for line in table.lines]
    names = ", ".join(f"`{row}`{f' ({escaped(label)})' if label != row else ''}" for row, label in named)
    command, picture = "", ""
    if figure:
        command = (
            f"python src/figures.py sweep={name} runs={RECORDS} figure=differences out=docs/results/{figure.parent}\n"
        )
        picture = f"![Measured and published differences from the base row]({figure})\n\n"
    return f"""# {title[1].strip('"') if title else name}

{about}

```console
python src/table.py sweep={name} runs={RECORDS}
{command}```

[How to read a table](../tables.md) explains the columns and marks, [claims](../claims.md) what follows from the runs.

{picture}{render(table, "markdown")}
Names of the rows, for `rows=[…]` and `diff=[…]`: {names}.
"""


if __name__ == "__main__":
    for home in sorted(path for path in (ROOT / RECORDS).iterdir() if path.is_dir()):
        for written in write(home.name, Path("docs") / "results"):
            print(written)
