"""The text of `--help`: what a command does, examples, groups with their options, and its own keys."""

import ast
import dataclasses
import inspect
import itertools
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from variations.configuration import tasks
from variations.configuration.compose import loader
from variations.configuration.places import CONF, spelled
from variations.configuration.schema import RunConfig
from variations.configuration.suggestions import options

WIDEST = 66
"""Length of the longest command whose remark is aligned with the others."""
FLAGS = {
    "--multirun": "run a whole sweep (sweep=NAME) or a grid (model=transformer,weighted); "
    "hydra/launcher=slurm or ray: on a cluster",
    "--cfg job": "print the configuration instead of running it{} (--resolve also resolves interpolations)",
    "--info defaults": "print the files that the configuration is composed from",
    "--config-dir DIR": "also look for groups in DIR",
    "--shell-completion install=bash": 'Tab completion in bash: eval "$(COMMAND --shell-completion install=bash)"',
}


def help_text(
    task: Callable[..., Any], schema: type[Any], config_name: str, examples: Mapping[str, str], *, multirun: bool
) -> str:
    """Return the text of `--help`."""
    about = re.split(r"\n+(?:Args|Returns|Raises):\n", inspect.getdoc(task) or config_name)[0]
    parts = [about, f"Usage: {spelled(config_name)} [GROUP=OPTION | KEY=VALUE] ..."]
    if examples:
        parts.append("\n".join(["Examples:", *_examples(spelled(config_name), examples)]))
    if groups := _groups(config_name):
        parts.append("\n".join(["Groups, and their options (* is the default):", *groups]))
    parts.append("\n".join(["Keys:", *_keys(schema)]))
    of_rows = ", with --multirun that of each row" if multirun else ""
    told = {name: text.format(of_rows) for name, text in FLAGS.items() if multirun or name != "--multirun"}
    flags = [f"  {name:<33} {text}" for name, text in told.items()]
    parts.append("\n".join(["Flags:", *flags]))
    return "\n\n".join(parts) + "\n"


def _examples(verb: str, examples: Mapping[str, str]) -> list[str]:
    lines = {f"{verb} {arguments}".rstrip(): remark for arguments, remark in examples.items()}
    width = max((len(line) for line in lines if len(line) <= WIDEST), default=0)
    return [f"  {line:<{width}}  {remark}".rstrip() for line, remark in lines.items()]


def _groups(config_name: str) -> list[str]:
    path = CONF / f"{config_name}.yaml"
    lines = []
    for group, default in _defaults(path):
        lines += _group_lines(group, default)
        if group == "task":
            for own, choice in _defaults(CONF / "task" / f"{default}.yaml"):
                lines += _group_lines(own, choice)
    return lines


def _defaults(path: Path) -> Iterator[tuple[str, str | None]]:
    """Groups in the defaults list of a configuration file that users type, and their options."""
    if not path.exists():
        return
    for entry in yaml.safe_load(path.read_text(encoding="utf-8")).get("defaults", []):
        if isinstance(entry, dict):
            ((group, default),) = entry.items()
            if " " not in group and "@" not in group:
                yield group.lstrip("/"), default


def _group_lines(group: str, default: str | None) -> list[str]:
    found = options(loader(), group)
    if group == "variation":
        tables: dict[str, int] = {}
        for option in found:
            table = option.split("/")[0]
            tables[table] = tables.get(table, 0) + 1
        found = [f"{table}/… ({count} row{'' if count == 1 else 's'})" for table, count in tables.items()]
    shown = ", ".join(f"{option}*" if option == default else option for option in found)
    return textwrap.wrap(f"{group + ':':<11} {shown}", 112, initial_indent="  ", subsequent_indent=" " * 14)


def _keys(schema: type[Any]) -> list[str]:
    lines, parts = [], []
    described = descriptions(schema)
    for item in dataclasses.fields(schema):
        if isinstance(item.type, type) and dataclasses.is_dataclass(item.type):
            parts.append(item.name)
            continue
        default = item.default if item.default_factory is dataclasses.MISSING else item.default_factory()
        value = "null" if default is None else str(default).lower() if isinstance(default, bool) else default
        said = " ".join([described.get(item.name, ""), _unsaid(item, described.get(item.name, ""))]).strip()
        start = f"  {f'{item.name}={value}':<22} "
        lines += textwrap.wrap(said, 112, initial_indent=start, subsequent_indent=" " * 25, break_on_hyphens=False) or [
            start.rstrip()
        ]
    if issubclass(schema, RunConfig):
        shared = {item.name for item in dataclasses.fields(RunConfig)}
        own = [item.name for item in dataclasses.fields(tasks.schema_of(None)) if dataclasses.is_dataclass(item.type)]
        parts = list(dict.fromkeys([*(name for name in own if name not in shared), *parts]))
    if parts:
        more = (
            f"and the keys of {', '.join(parts)}, such as {parts[0]}.KEY: --cfg job lists them all with their values."
        )
        lines += textwrap.wrap(more, 112, initial_indent="  ", subsequent_indent="  ")
    return lines


def _unsaid(item: dataclasses.Field[Any], said: str) -> str:
    """The choices of a key, if its description does not name them all."""
    choices = list(dict.fromkeys(item.metadata.get("choices", ())))
    return "" if all(f"`{choice}`" in said for choice in choices) else f"One of {', '.join(choices)}."


def descriptions(schema: type[Any]) -> dict[str, str]:
    """First lines of the strings below a dataclass's fields, which Python itself does not keep."""
    found: dict[str, str] = {}
    for base in reversed(schema.__mro__[:-1]):
        tree = ast.parse(Path(inspect.getfile(base)).read_text(encoding="utf-8"))
        body = next((n.body for n in tree.body if isinstance(n, ast.ClassDef) and n.name == base.__name__), [])
        for item, text in itertools.pairwise(body):
            match item, text:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(words))):
                    found[name] = " ".join(words.split())
    return found
