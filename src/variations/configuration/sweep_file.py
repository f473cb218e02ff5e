"""A sweep's file, read for its own faults: Hydra stops at the first, and hides all of the rows behind it."""

import re
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from variations.configuration.compose import compose_run, composition_fault
from variations.configuration.doors import file_of, shown
from variations.configuration.overrides import quoted, typed_keys
from variations.configuration.schema import SweepConfig
from variations.system.errors import ConfigError

OF_FILE = re.compile(r"(^|')sweep\.")
"""Before a key of a sweep's file, which is written there without it."""


def mended(lines: Sequence[str]) -> tuple[list[str], list[str] | None]:
    """The faults of the file of the sweep that `lines` choose, and lines that can be composed in spite of them.

    Of a file with faulty keys, the sound ones are given instead of `sweep=NAME`. None: the file has to be corrected
    first. A file that is not YAML, or does not exist, is reported when it is composed.
    """
    typed = typed_keys(lines)
    option = typed.get("sweep", "")
    files = read(option)
    if not files:
        return [], list(lines)
    faults, choice = _examined(files, option, typed)
    if choice is None:
        return faults, None
    return faults, [word for line in lines for word in (choice if line.startswith("sweep=") else [line])]


def read(option: str, above: Sequence[Path] = ()) -> list[tuple[Path, Any]]:
    """The files of a sweep, each after those that its `defaults` include, and what they say.

    Left out are files that do not exist, and those that cannot be read or include each other in a circle.
    """
    file = file_of(f"sweep/{option}") if re.fullmatch(r"[\w./-]+", option) else None
    if file is None or file in above:
        return []
    try:
        text = file.read_text(encoding="utf-8")
        content = yaml.safe_load(text)
    except (OSError, ValueError, yaml.YAMLError):
        return []
    entries = content.get("defaults") if isinstance(content, dict) else None
    names = [entry for entry in entries if isinstance(entry, str)] if isinstance(entries, list) else []
    included = [found for name in names for found in read(name, [*above, file])]
    if re.search(r"^# *@package +_global_", text, re.MULTILINE) and isinstance(content, dict):
        own = content.get("sweep")
        content = {**own, "defaults": entries} if isinstance(own, dict) and entries else own
    return [*included, (file, content)]


def file_with(key: str, option: str) -> Path | None:
    """The file of a sweep that sets a key, its own rather than one that it includes; None if there is no such sweep."""
    files = read(option)
    setting = [file for file, content in files if isinstance(content, dict) and key in content]
    return setting[-1] if setting else file_of(f"sweep/{option}")


def compose_sweep(name: str) -> SweepConfig:
    """What `sweeps/NAME.yaml` says.

    Raises:
        ConfigError: Its faults.
    """
    line = [f"sweep={name}"]
    faults, _ = mended(line)
    if faults:
        raise ConfigError(faults)
    found: SweepConfig = compose_run(line).sweep
    return found


def in_file(text: str) -> str:
    """A fault with the keys as they are written in a sweep's file."""
    return OF_FILE.sub(r"\1", text)


def _examined(
    files: Sequence[tuple[Path, Any]], option: str, typed: Collection[str]
) -> tuple[list[str], list[str] | None]:
    """The faults of a sweep's files, and the overrides that stand for `sweep=`."""
    line = f"sweep={option}"
    file, content = files[-1]
    if not content:
        example = f"write `name: {option}` and the rows to train, such as `rows: [quickstart/transformer]`"
        return [f"{shown(file)} is empty: {example}."], None
    if not isinstance(content, dict):
        return [], [line]
    sound: dict[Any, Any] = {}
    faults: list[str] = []
    for place, own in files:
        for key, value in own.items() if isinstance(own, dict) else ():
            if found := _key_faults(key, value):
                faults += [f"{shown(place)}: {fault}" for fault in found]
            elif key != "defaults":
                sound[key] = value
    composed = not faults
    if "sweep.name" not in typed and ("name" in sound or "name" not in content):
        faults += [f"{shown(file)}: {fault}" for fault in _name_faults(content.get("name"), option)]
    if not faults:
        return [], [line]
    name = [] if "sweep.name" in typed else [f"sweep.name={quoted(option)}"]
    if composed:
        return faults, [line, *name]
    if any(isinstance(own, dict) and "search" in own for _, own in files):  # its other faults depend on all its keys
        return faults, None
    words = [f"sweep.{key}={_literal(value)}" for key, value in sound.items() if f"sweep.{key}" not in typed]
    return faults, [*(word for word in words if not word.startswith("sweep.name=")), *name]


def _name_faults(name: Any, option: str) -> list[str]:
    if name is None:
        return ["name is not set: the sweep's file must set it, because it names the folder of the runs."]
    if "/" in option:
        folder, _, last = option.rpartition("/")
        return [f"a sweep's file must be in the folder sweep itself: move it out of {folder}/, as {last}.yaml."]
    if str(name) == option:
        return []
    if isinstance(name, bool):
        return [f"name: YAML reads this word as {str(name).lower()}: write it in quotes, or choose another name."]
    text = (
        f"name: {name} is not the name of the file: write name: {option}, because sweeps of the same name share the "
        "folders of their runs."
    )
    if file_of(f"sweep/{name}"):  # the copy of a sweep of that name, which is not to be overwritten
        return [text]
    return [f"{text} To keep other runs under another name, copy the file to {name}.yaml, or type sweep.name={name}."]


def _key_faults(key: Any, value: Any) -> list[str]:
    """What is wrong with a key of a file, or its value; nothing if it fits the schema."""
    if key == "defaults":
        chosen = [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []
        if isinstance(value, list) and "_self_" in value[:-1]:
            return ["defaults: write _self_ last: what the files after it say would replace what this file says."]
        words = ", ".join(f"{group.rpartition('/')[2]}={name}" for entry in chosen for group, name in entry.items())
        example = f"defaults: only names of other sweeps can stand here: write overrides: [{words}] instead."
        return [example] if chosen else []
    if isinstance(value, list) and key == "rows" and (twice := [row for row in value if value.count(row) > 1]):
        return [f"rows: {twice[0]} is listed twice: leave one out."]
    if isinstance(value, list) and key == "overrides":
        own = [line for line in value if re.match(r"(sweep[.=]|variation=|rows=|seeds=)", str(line))]
        if own:
            return [f"overrides: {own[0]} is not for single rows: set name, rows and the like as keys of this file."]
        if stores := [line for line in value if str(line).startswith("runs=")]:
            return [f"overrides: type {stores[0]} after each command instead: tables and figures do not read it here."]
    try:
        OmegaConf.merge(_schema(), {"sweep": {key: value}})
    except OmegaConfBaseException as error:
        text = in_file(composition_fault(error))
        return [text if str(key) in text else f"{key}: {text}"]
    return []


@cache
def _schema() -> DictConfig:
    """The keys of a sweep's file with their types; `merge` copies it."""
    return OmegaConf.create({"sweep": OmegaConf.structured(SweepConfig)})


def _literal(value: Any) -> str:
    """A value of a file in the syntax of the command line."""
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{key}:{_literal(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_literal, value)) + "]"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return quoted(value) if isinstance(value, str) else str(value)
