"""The file of a row, read for mistakes about which Hydra's message is unclear or names no file."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from variations.configuration.doors import file_of, shown
from variations.configuration.hydra_door import Loader
from variations.configuration.overrides import leaf_keys
from variations.configuration.suggestions import HIDDEN, OPEN, options, options_text, walk_groups
from variations.configuration.tasks import schema_of

NO_PARTS = ("task", "sweep", "variation", "hydra", *HIDDEN)
"""Groups that are not written as `GROUP: OPTION` by mistake, or also keys."""
UNREAD = ("defaults", "variation", *OPEN)
"""Parts in which keys may have dots: their contents are labels, figures, or arguments of other packages."""


def row_faults(lines: Sequence[str], error: BaseException, loader: Loader) -> list[str]:
    """Faults in the files of the row that `lines` choose, and in those it inherits, after Hydra failed with `error`.

    Empty if there is no such row, or if its files contain none of these mistakes.
    """
    chosen = [line.partition("=")[2].strip("'\"") for line in lines if line.startswith("variation=")]
    found: list[str] = []
    pending, seen = [f"variation/{name}" for name in chosen if re.fullmatch(r"[\w.,/-]+", name)], set[str]()
    groups = [group for group in walk_groups(loader) if not group.startswith(("hydra", "variation/"))]
    while pending:
        option = pending.pop()
        file = None if option in seen else file_of(option)
        seen.add(option)
        content = _read(file) if file else None
        if file is None or content is None:
            continue
        faults = [*_part_faults(content, groups, loader), *_default_faults(content, groups, str(error), loader)]
        found += [f"{shown(file)}: {fault}" for fault in faults]
        entries = [entry for entry in _entries(content) if isinstance(entry, str) and entry != "_self_"]
        here = option.rpartition("/")[0]
        pending += [entry.removeprefix("/") if entry.startswith("/") else f"{here}/{entry}" for entry in entries]
    return list(dict.fromkeys(found))


def _read(file: Path) -> dict[Any, Any] | None:
    try:
        content = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError):  # reported when it is composed
        return None
    return content if isinstance(content, dict) else None


def _entries(content: Mapping[Any, Any]) -> list[Any]:
    entries = content.get("defaults")
    return entries if isinstance(entries, list) else []


def _part_faults(content: Mapping[Any, Any], groups: Sequence[str], loader: Loader) -> Iterator[str]:
    """Keys with dots, and groups that are written like keys."""
    known = [name.partition(".") for name in leaf_keys(schema_of(None)) if "." in name]
    parts = {part for part, _, _ in known}
    for key, value in content.items():
        group = str(key).removeprefix("override ").strip().lstrip("/")
        if group in parts and value is None:
            yield f"`{key}:` has nothing below it: indent its keys by two spaces more than `{key}:`, or leave it out."
        elif isinstance(value, str) and (match := re.fullmatch(r"(\w+):(\S+)", value)) and group in parts:
            yield f"below `{key}:` is the text '{value}': write `{match[1]}: {match[2]}`, with a space after the colon."
        elif group == "model" and isinstance(value, Mapping) and ":" in str(value.get("kind")):
            ours = {name.partition(".")[0] for part, _, name in known if part == group}
            if own := [str(name) for name in value if name not in ours]:
                yield f"`{group}` has no key {', '.join(own)}: keys of a class of your own belong below `options:`."
        elif group in groups and group not in NO_PARTS and isinstance(value, str):
            valid = options(loader, group)
            option = value if value in valid else "OPTION"
            more = "" if value in valid else f" '{value}' is no option of it.{options_text(group, value, valid)}"
            yield f"`{group}` is a group: write `defaults: [{{override /{group}: {option}}}]`.{more}"
    yield from _dotted(content, [])


def _dotted(content: Mapping[Any, Any], above: list[str]) -> Iterator[str]:
    for key, value in content.items():
        path = [*above, *str(key).split(".")]
        if ".".join([*above, str(key)]).startswith(UNREAD):
            continue
        if isinstance(key, str) and re.fullmatch(r"\w+(\.\w+)+", key):
            yield f"'{key}' is written with a dot; in a file write `{_nested(path, value)}`."
        elif isinstance(value, Mapping):
            yield from _dotted(value, path)


def _nested(path: Sequence[str], value: Any) -> str:
    """`model: {h: 1}`."""
    whole: Any = value
    for key in reversed(path):
        whole = {key: whole}
    return yaml.safe_dump(whole, default_flow_style=True, width=10**6, allow_unicode=True).strip()[1:-1]


def _default_faults(content: Mapping[Any, Any], groups: Sequence[str], error: str, loader: Loader) -> Iterator[str]:
    """Groups of the defaults list that lack `override` or the slash, and options that do not exist."""
    twice = re.search(r"Multiple values for ([\w/]+)", error)
    for entry in _entries(content):
        for key, option in entry.items() if isinstance(entry, Mapping) else ():
            name = str(key)
            group = name.removeprefix("override ").removeprefix("optional ").strip().lstrip("/")
            if group not in groups or name.startswith("optional "):
                continue
            right = f"override /{group}"
            if name != right and (not name.endswith(f"/{group}") or (twice and twice[1] == group)):
                yield f"`{name}: {option}` in its defaults: write `defaults: [{{{right}: {option}}}]`."
            valid = options(loader, group)
            for choice in option if isinstance(option, list) else [option]:
                if isinstance(choice, str) and choice not in valid and "${" not in choice:
                    yield f"{group}={choice}: there is no such option.{options_text(group, choice, valid)}"
