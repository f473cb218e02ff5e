"""Count the lines of Python in folders: code, docstrings, comments and blank lines.

python tools/source_size.py src
python tools/source_size.py src/variations/*/
"""

import ast
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

KINDS = ("code", "docstring", "comment", "blank")


def kinds(text: str) -> Counter[str]:
    """The number of a module's lines of each kind; a line with code and a comment is code."""
    docstrings = {
        line
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    found: Counter[str] = Counter()
    for number, line in enumerate(text.split("\n")[:-1], 1):
        words = line.strip()
        if number in docstrings:
            found["docstring"] += 1
        else:
            found["blank" if not words else "comment" if words.startswith("#") else "code"] += 1
    return found


def count(folder: Path) -> Counter[str]:
    """The number of lines of each kind in a folder's modules; links are not followed."""
    return sum((kinds(path.read_text(encoding="utf-8")) for path in folder.rglob("*.py")), Counter[str]())


def main(folders: Iterable[str]) -> None:
    """Print a line for each folder."""
    print(f"{'lines':>6} " + " ".join(f"{kind:>9}" for kind in KINDS))
    for folder in folders:
        found = count(Path(folder))
        print(f"{found.total():>6} " + " ".join(f"{found[kind]:>9}" for kind in KINDS) + f"  {folder}")


if __name__ == "__main__":
    main(sys.argv[1:] or ["src"])
