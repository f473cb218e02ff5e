"""The verb `new`: writes a sweep file and its rows, to be filled in."""

import argparse
import re
import sys
from pathlib import Path

import yaml

from variations.commands.cli import fail
from variations.configuration.doors import installed
from variations.configuration.places import CONF, IN_CHECKOUT, folder_fault, spelled
from variations.configuration.places import SWEEPS as LINK
from variations.store.atomic import destination, write_text
from variations.store.naming import GRID
from variations.system.errors import UserError

SWEEPS = LINK.resolve()
NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
BASE = "base"
SWEEP = """\
# The question that this table answers. `{plan} {typed}` shows what each row changes and costs.
name: {name}  # as the file; its runs are kept in runs/{name}/
table: {name}  # the folder of its rows: {variation}/
rows: [{rows}]  # the base row first; a row of another table is TABLE/ROW, such as quickstart/weighted
seeds: [1, 2, 3]  # fewer than three say little about chance
at_once: 2  # runs at the same time, each on one core
metric: bleu  # what the table compares: bleu, chrf, dev_ppl, ...
# For every row. A single key, such as model.h=4, replaces what the rows' files say, so a key that some row changes
# belongs in base.yaml. What a group sets, such as recipe=reference, gives way to the rows' own keys.
overrides: [size=tiny, data=toy, recipe=quick_cosine]
"""
ROW = """\
# @package _global_
# {about}
{change}variation:
  table: {name}
  row: {row}
  label: {label}  # as the table prints it
"""
BASE_ABOUT = "The base row, with which the others are compared. What is written here holds for them, too."
ROW_ABOUT = "Write here the one thing that this row changes; everything else is as in the base row."
EXAMPLE = """\
# A key is written as below; `{train} --cfg job` lists all keys; `make docs` explains them. A choice is a
# further line of `defaults`, such as `- override /positions: learned`. A network of your own, class MyModel in
# src/my_model.py, is `model: {{kind: "my_model:MyModel"}}` (docs/adding-a-variation.md).
defaults:
  - {name}/base
{setting}
"""
CHANGE = "model:\n  h: 1  # an example. Replace it"
COMMENT = "# model:\n#   dropout: 0.1  # an example. As long as it is a comment, this row changes nothing"
FIRST = "changed"
"""The row of a table without named rows."""


def create(name: str, rows: list[str]) -> list[Path]:
    """Write a sweep file and one file for each row, the base row among them, and return their paths.

    In a checkout they are in `sweeps/` and `conf/variation/`, otherwise in a folder `conf` of the current directory.

    Raises:
        UserError: A name cannot be used, the sweep or one of the files exists with another text, or an installed
            package has the sweep or the table. Then nothing is written.
    """
    rows = rows or [FIRST]
    if settings := [word for word in [name, *rows] if "=" in word]:
        raise UserError(
            f"{' '.join(settings)}: name the sweep and its rows only. The new rows are of task=translation; for "
            "another task, copy the files of one of its tables, conf/variation/TABLE and the sweep's."
        )
    for word in [name, *rows]:
        if not NAME.fullmatch(word):
            raise UserError(
                f"{word!r} cannot be used as a name: use letters, digits, _ and -, beginning with a letter."
            )
        if not isinstance(yaml.safe_load(word), str) or word.lower() in ("nan", "inf"):
            raise UserError(f"{word!r} cannot be used as a name: in a YAML file it means a value. Choose another word.")
    faults = [folder_fault("sweep.name", name), *(folder_fault("variation.row", row) for row in rows)]
    if fault := next(filter(None, faults), None):
        raise UserError(fault)
    if name == GRID:
        raise UserError(f"{name!r} cannot be used as a name: grids without a sweep.name have it. Choose another word.")
    if repeated := sorted({row for row in rows if rows.count(row) > 1 or row == BASE}):
        raise UserError(f"Each row needs a different name, and {BASE} is the base row's: {', '.join(repeated)}.")
    own = CONF if IN_CHECKOUT else Path.cwd() / "conf"
    sweep = (SWEEPS if IN_CHECKOUT else own / "sweep") / f"{name}.yaml"
    folder = own / "variation" / name
    typed = f"sweep={name}" if IN_CHECKOUT else f"'hydra.searchpath=[file://{own}]' sweep={name}"
    head = SWEEP.format(
        name=name, rows=", ".join([BASE, *rows]), variation=shown(folder), plan=spelled("plan"), typed=typed
    )
    texts = {folder / f"{BASE}.yaml": ROW.format(about=BASE_ABOUT, change="", name=name, row=BASE, label=BASE)}
    for k, row in enumerate(rows):  # the first one has a change, so that the table can be tried as it is
        change = EXAMPLE.format(train=spelled("train"), name=name, setting=COMMENT if k else CHANGE)
        text = ROW.format(about=ROW_ABOUT, change=change, name=name, row=row, label=row.replace("_", " "))
        texts[folder / f"{row}.yaml"] = f"{text}  base: {BASE}\n"
    if all(_text(path) == text for path, text in {**texts, sweep: head}.items()):
        return [sweep, *texts]  # the same command was typed before
    taken = [sweep, SWEEPS / f"{name}.yaml", CONF / "variation" / name]
    taken += [p for place in installed() for p in (place / f"sweep/{name}.yaml", place / "variation" / name)]
    known = [p for p in taken if p.exists() and p != folder]
    known += [p for p in sorted(folder.glob("*")) if p.suffix == ".yaml" and _text(p) != texts.get(p)]
    if known:
        raise UserError(
            f"{known[0]} exists already, and nothing is overwritten: choose another name. To add a row to a table, "
            "copy the file of one of its rows, and add its name to the rows in the sweep's file."
        )
    for path in (path for path in texts if not path.exists()):
        write_text(destination(path), texts[path])
    write_text(destination(sweep), head)  # last: what a killed command has written can be completed by the same command
    return [sweep, *texts]


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None


def shown(path: Path) -> str:
    """A path as it can be typed in the current folder."""
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


_ROWS = f"rows besides the base row; default: one row, `{FIRST}`"


def main() -> None:
    """Write the files, print their paths, and say what to type next."""
    parser = argparse.ArgumentParser(
        prog=spelled("new"),
        usage=f"{spelled('new')} NAME [ROW ...]",
        description="Make a sweep of your own, of translation models: a sweep file, a base row, and rows to fill in. "
        "Nothing is overwritten.",
        epilog=f"Example: {spelled('new')} heads one_head two_heads",
    )
    parser.add_argument("name", metavar="NAME", help="name of the sweep, and of its table")
    parser.add_argument("rows", metavar="ROW", nargs="*", default=[], help=_ROWS)
    arguments = parser.parse_args()
    try:
        made = create(arguments.name, arguments.rows)
    except UserError as error:
        fail(error)
    for path in made:
        sys.stdout.write(f"{shown(path)}\n")
    place = "" if IN_CHECKOUT else f"'hydra.searchpath=[file://{Path.cwd() / 'conf'}]' "
    first, *others = arguments.rows or [FIRST]
    rest = f"; without a change, {', '.join(others)} would repeat the base row" if others else ""
    sys.stderr.write(f"Write into each row what it changes. {first} has an example, `h: 1`{rest}.\n")
    for remark, line in {
        "Then see what the table costs:": f"{spelled('plan')} {place}",
        "train it:": f"{spelled('train')} {place}--multirun ",
        "and read it:": f"{spelled('table')} {place}",
    }.items():
        sys.stderr.write(f"{remark}\n  {line}sweep={arguments.name}\n")
