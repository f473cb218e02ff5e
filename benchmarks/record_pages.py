"""Pages of docs/results that are made from records: their command line and their tables."""

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from variations.store.atomic import write_text
from variations.system.errors import UserError


def deliver_page(
    description: str | None, page: Callable[[Path], str], figures: Callable[[Path, Path], None] | None = None
) -> int:
    """Write or print the page that `page` makes of a folder of records; return the exit code.

    With --output, `figures` is called with the folder of records and the page's file.
    """
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=Path, default=Path("records"))
    parser.add_argument("--output", type=Path, help="file for the page")
    chosen = parser.parse_args()
    try:
        text = page(chosen.records)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    if chosen.output is None:
        print(text, end="")
    else:
        write_text(chosen.output, text)
        if figures is not None:
            figures(chosen.records, chosen.output)
    return 0


def table(head: Sequence[str], rows: Sequence[Sequence[str]], texts: int = 1) -> str:
    """A Markdown table, the first columns `texts` of which are aligned to the left."""
    line = f"|{':---|' * texts}{'---:|' * (len(head) - texts)}"
    return "\n".join([f"| {' | '.join(head)} |", line, *(f"| {' | '.join(row)} |" for row in rows)]) + "\n"
