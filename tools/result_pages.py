"""Writes docs/results/<sweep>.md of every recorded sweep: `make results` calls it, and a test compares."""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))

RECORDS = Path("records")


def text(name: str) -> str:
    """The page: its title in the site's navigation, the first comment of the sweep's file, the command, the table."""
    from variations.configuration.compose import compose_run
    from variations.configuration.places import SWEEPS
    from variations.store.rows import define
    from variations.system.markdown import escaped
    from variations.tables.formats import render
    from variations.tables.table import build

    comment = re.match(r"(?:# .*\n)+", (SWEEPS / f"{name}.yaml").read_text(encoding="utf-8"))
    about = " ".join(line.removeprefix("# ") for line in comment[0].splitlines()) if comment else ""
    title = re.search(rf"- (.+): results/{name}\.md$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE)
    table = build(define(compose_run([f"sweep={name}"]).sweep, store=RECORDS), RECORDS)
    named = [(line.row.definition.row, line.label) for line in table.lines]
    names = ", ".join(f"`{row}`{f' ({escaped(label)})' if label != row else ''}" for row, label in named)
    return f"""# {title[1].strip('"') if title else name}

{about}

```console
python src/table.py sweep={name} runs={RECORDS}
```

[How to read a table](../tables.md) explains the columns and marks, [claims](../claims.md) what follows from the runs.

{render(table, "markdown")}
Names of the rows, for `rows=[…]` and `diff=[…]`: {names}.
"""


if __name__ == "__main__":
    for home in sorted(path for path in (ROOT / RECORDS).iterdir() if path.is_dir()):
        page = ROOT / "docs" / "results" / f"{home.name}.md"
        page.write_text(text(home.name), encoding="utf-8")
        print(page.relative_to(ROOT))
