"""Files that are either whole or absent: written under a temporary name beside the target, then renamed."""

import gzip
import json
import math
import os
import secrets
import zlib
from pathlib import Path
from typing import Any

import yaml


def write_text(path: Path, text: str) -> None:
    """Replace `path` by `text` in UTF-8: a reader, or a power cut, sees the old file or the new one, never half."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp")
    try:
        with temporary.open("x", encoding="utf-8", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_json(path: Path, value: Any) -> None:
    """Write `value` as JSON with sorted keys, two spaces of indent and a final newline."""
    write_text(path, json_text(value) + "\n")


def write_yaml(path: Path, value: Any) -> None:
    """Write `value` (plain containers) as YAML, keys in the order given."""
    write_text(path, yaml.safe_dump(plain(value), sort_keys=False, allow_unicode=True, width=120))


def json_text(value: Any, *, indent: int | None = 2) -> str:
    """Standard JSON of `value`, keys sorted; a number that is not finite becomes null, because JSON has none."""
    return json.dumps(plain(value, finite=True), indent=indent, sort_keys=True, ensure_ascii=False, allow_nan=False)


def stored_path(path: Path) -> Path | None:
    """`path`, or the gzipped `<path>.gz` that stands for it in a record; None where there is neither."""
    compressed = path.with_name(f"{path.name}.gz")
    return next((found for found in (path, compressed) if found.is_file()), None)


def read_stored(path: Path) -> bytes:
    """Contents of `path`, or of `<path>.gz` where a record holds that instead.

    Raises:
        OSError: Neither can be read.
    """
    found = stored_path(path)
    if found is None:
        raise FileNotFoundError(f"there is no {path}")
    data = found.read_bytes()
    try:
        return gzip.decompress(data) if found.suffix == ".gz" and path.suffix != ".gz" else data
    except (EOFError, zlib.error) as error:
        raise OSError(f"{found} is damaged: {error}") from error


def read_yaml(path: Path) -> Any:
    """Contents of a YAML file. Raises `yaml.YAMLError` or OSError."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    with path.open(encoding="utf-8") as file:
        return yaml.load(file, Loader=loader)  # noqa: S506 (both loaders are the safe ones)


def plain(value: Any, *, finite: bool = False) -> Any:
    """`value` in dicts, lists, strings, numbers, booleans and None; arrays and tensors by their `tolist`."""
    if isinstance(value, dict):
        return {str(key): plain(item, finite=finite) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        items = sorted(value, key=str) if isinstance(value, set | frozenset) else value
        return [plain(item, finite=finite) for item in items]
    if isinstance(value, bool | int | str) or value is None:
        return value
    if isinstance(value, float):
        return None if finite and not math.isfinite(value) else value
    if hasattr(value, "tolist"):  # numpy and torch, without importing either
        return plain(value.tolist(), finite=finite)
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    raise TypeError(f"Cannot store a {type(value).__name__} in a run folder: {value!r}.")
