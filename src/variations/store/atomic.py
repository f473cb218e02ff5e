"""Files that are either whole or absent: written under a temporary name beside the target, then renamed."""

import errno
import glob
import gzip
import json
import math
import os
import re
import stat
import sys
import tempfile
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO

import yaml

from variations.configuration.places import CONF, SWEEPS
from variations.store import fence
from variations.system.errors import RunFailedError, UserError

FIGURES = "figures"
"""A run's folder of pictures, the only ones of its files that a command may write again."""
FULL = (errno.ENOSPC, errno.EDQUOT)
BROKEN = (errno.EIO, errno.EROFS, errno.ESTALE)
LARGEST = 64 << 20
"""The largest file of keys and values that is read, in bytes; runs write some thousands."""
DEEPEST = 60
LARGEST_NUMBER = sys.float_info.max
TOO_DEEP = f"it is nested more than {DEEPEST} levels deep"


@contextmanager
def replaced(path: Path) -> Iterator[Path]:
    """Yield a temporary name; the file written there is flushed to the disk and then renamed to `path`.

    In a run's folder the process must hold the lease (see fence.py). The folder of `path` is made if it is missing. A
    path that a user has named goes through `destination` first.

    Raises:
        TakenOverError: another process has taken over the run whose file this is.
    """
    if not fence.check(path.parent):
        make_folder(path.parent)
    temporary = fence.scratch(path)
    with fence.refused(path):
        try:
            yield temporary
            flush(temporary)
            temporary.replace(path)
            flush(path.parent)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


def destination(path: Path) -> Path:
    """The place for an output file that a user has named: if `path` is a link, the file that it names.

    Temporary files of it that a killed process left more than ten minutes ago (`fence.scratch`) are removed.

    Raises:
        OSError: it is a folder, or a device or a pipe, which a rename would destroy, or a file of a run or of the
            configuration.
    """
    try:
        place = path.resolve() if path.is_symlink() else path
    except RuntimeError:
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path)) from None
    _refuse_special(place)
    for remnant in place.parent.glob(f".{glob.escape(place.name)}.*.tmp"):
        with suppress(OSError):
            if time.time() - remnant.stat().st_mtime > 600:
                remnant.unlink()
    return place


def _refuse_special(path: Path) -> None:
    """Raise OSError if `path` is neither missing nor a regular file that a command may replace."""
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "it is a device or a pipe, not a regular file", str(path))
    if not path.exists():
        return
    place = path.resolve()
    if any(place.is_relative_to(folder) for folder in (CONF, SWEEPS.resolve())):
        raise OSError(errno.EEXIST, "it is a file of the configuration, which nothing may overwrite", str(path))
    for run in (place.parent, place.parent.parent):  # its own files, and those of a folder in it
        if (run / "config.yaml").is_file() and (run / "status.json").is_file() and place.parent.name != FIGURES:
            raise OSError(errno.EEXIST, f"it is a file of the run {run}, which nothing may overwrite", str(path))


def write_text(path: Path, text: str) -> None:
    """Replace `path` by `text` in UTF-8: a reader, or a power cut, sees the old file or the new one, never half."""
    with replaced(path) as temporary, temporary.open("x", encoding="utf-8", newline="\n") as file:
        file.write(text)


@contextmanager
def disk_refusals_told() -> Iterator[None]:
    """Raise RunFailedError if a disk that is full, broken or read-only stops a run, or the limit on open files."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE):
            raise RunFailedError(
                "too many files are open: raise the limit (ulimit -n 1024) and run the same command again to continue."
            ) from error
        if error.errno not in (*FULL, *BROKEN, errno.EACCES):
            raise
        what, remedy = ("is full", "free some space") if error.errno in FULL else ("cannot be written to", "repair it")
        raise RunFailedError(
            f"the disk {what}: {error}. Checkpoints are untouched: {remedy} and run the same command again to continue."
        ) from error


@contextmanager
def told_if_unwritable(path: Path, advice: str = "; choose another file with out=FILE.") -> Iterator[None]:
    """Raise a UserError if `path` cannot be written; `advice` ends its message."""
    try:
        yield
    except OSError as error:
        raise UserError(f"Cannot write {path}: {error.strerror or error}{advice}") from error


def refuse_unwritable(**files: str | None) -> None:
    """Check that files can be written before any work is done; nothing is left behind.

    Args:
        files: By key of the command line; None is skipped.

    Raises:
        UserError: one cannot be made, or is a folder.
    """
    for key, name in files.items():
        if name is None:
            continue
        refuse_unwritable_file(Path(name).expanduser(), f"; choose another file with {key}=FILE.")


def refuse_unwritable_file(path: Path, advice: str) -> None:
    """The same for one file; `advice` ends the message."""
    with told_if_unwritable(path, advice):
        _refuse_special(path)
        with tempfile.TemporaryFile(dir=next(folder for folder in path.absolute().parents if folder.exists())):
            pass


def make_folder(path: Path) -> None:
    """Make a folder and its parents so that they survive a power cut."""
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for folder in missing:
        with suppress(PermissionError):  # a folder that may be written, but not listed, cannot be flushed
            flush(folder.parent)


def flush(path: Path) -> None:
    """Flush a file's contents, or a folder's entries, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_json(path: Path, value: Any) -> None:
    """Write `value` as JSON with sorted keys, two spaces of indent and a final newline."""
    write_text(path, json_text(value) + "\n")


def write_yaml(path: Path, value: Any) -> None:
    """Write `value` as `yaml_text`."""
    write_text(path, yaml_text(value))


def write_new_yaml(path: Path, value: Any) -> bool:
    """The same, unless there is such a file, which is kept: False. Of several processes at once, one writes."""
    temporary = fence.scratch(path)
    try:
        with temporary.open("x", encoding="utf-8", newline="\n") as file:
            file.write(yaml_text(value))
        flush(temporary)
        made = linked(temporary, path)
        if made is None:  # no links here
            made = not path.exists()
            if made:
                temporary.replace(path)
        if made:
            flush(path.parent)
        return made
    finally:
        temporary.unlink(missing_ok=True)


def linked(temporary: Path, path: Path) -> bool | None:
    """Give a complete file the name `path`, unless that is taken: whether it has it now; None: there are no links."""
    try:
        os.link(temporary, path)
    except FileNotFoundError:  # whoever holds the run by now has removed our temporary file as a remnant
        return False
    except FileExistsError:
        # A network file system may repeat a request whose answer was lost; the existing file is then our own.
        with suppress(FileNotFoundError):  # as above
            return temporary.samefile(path)
        return False
    except OSError:
        return None
    return True


def yaml_text(value: Any) -> str:
    """`value` (plain containers) as YAML, keys in the order given."""
    return yaml.safe_dump(plain(value), sort_keys=False, allow_unicode=True, width=120)


def json_text(value: Any, *, indent: int | None = 2) -> str:
    """Standard JSON of `value`, keys sorted; NaN and infinities, which JSON lacks, become null."""
    return json.dumps(plain(value, finite=True), indent=indent, sort_keys=True, ensure_ascii=False, allow_nan=False)


def stored_path(path: Path) -> Path | None:
    """`path`, or `<path>.gz` in its place, as records have it; None if neither exists.

    If that cannot be known, because the folder may not be read, it is `path`: reading it raises PermissionError.
    """
    compressed = path.with_name(f"{path.name}.gz")
    try:
        return path if path.is_file() else compressed if compressed.is_file() else None
    except PermissionError:
        return path


def read_stored(path: Path) -> bytes:
    """Contents of `path`, or of `<path>.gz` in its place.

    Raises:
        OSError: Neither can be read.
    """
    found = stored_path(path)
    if found is None:
        raise FileNotFoundError(f"there is no {path}")
    packed = found.suffix == ".gz" and path.suffix != ".gz"
    return unpacked(found) if packed else found.read_bytes()


def unpacked(path: Path, opened: BinaryIO | None = None) -> bytes:
    """Contents of a gzipped file of a record. OSError: they are damaged, or larger than any that a record has."""
    try:
        with gzip.open(opened or path) as file:
            data = file.read(LARGEST + 1)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise OSError(f"{path} is damaged: {error}") from error
    if len(data) > LARGEST:
        raise OSError(errno.EFBIG, f"{path} holds more than {LARGEST >> 20} MiB")
    return data


def read_yaml(path: Path) -> Any:
    """Contents of a YAML file. Raises `yaml.YAMLError`, OSError, or ValueError for contents that no run writes."""
    text = read_regular(path)
    try:
        return _by_blocks(text) if _AS_WRITTEN.fullmatch(text) else _parsed(text)
    except RecursionError:
        raise ValueError(TOO_DEEP) from None


_AS_WRITTEN = re.compile(r"(?=[a-z_])(?:(?:[a-z_]\w*:(?: [^&*!\n]*)?|(?: |- )[^&*!\n]*)\n)+")
"""Text as `write_yaml` writes a mapping: only keys and list items start at the left margin."""
_KEY = re.compile(r"^(?=\w)", re.MULTILINE)


def _by_blocks(text: str) -> Any:
    """As `_parsed`, block by block: the configurations of a sweep differ in few blocks, and each is parsed once."""
    found: dict[str, Any] = {}
    try:
        for block in filter(None, _KEY.split(text)):
            found |= _copied(_block(block))
    except yaml.YAMLError:  # what looks like a key belongs to the text of the block before it
        return _parsed(text)
    return found


@lru_cache(maxsize=2048)
def _block(text: str) -> Any:
    return _parsed(text)


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in value.items()}
    return [_copied(item) for item in value] if isinstance(value, list) else value


def _parsed(text: str) -> Any:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    if "*" in text and any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, Loader=loader)):
        # A few lines of them can expand without limit.
        raise ValueError("it repeats parts of itself through YAML aliases")
    return usable(yaml.load(text, Loader=loader), finite=False)  # noqa: S506 (both loaders are the safe ones)


def read_json(path: Path) -> Any:
    """Contents of a JSON file. Raises OSError, or ValueError for damaged contents, or contents that no run writes."""
    try:
        return usable(json.loads(read_regular(path), parse_constant=_refuse))
    except RecursionError:
        raise ValueError(TOO_DEEP) from None


def _refuse(constant: str) -> None:
    raise ValueError(f"it contains {constant}, which is not JSON")  # runs write null; a NaN would pass for a number


def read_object(path: Path) -> dict[str, Any] | None:
    """The JSON object in `path`; None if there is none, or it cannot be read."""
    try:
        value = read_json(path)
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) else None


def read_regular(path: Path) -> str:
    """Text of a regular file in UTF-8; does not block on a pipe. Raises OSError or UnicodeDecodeError."""
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file")
        if found.st_size > LARGEST:
            raise OSError(errno.EFBIG, f"it is larger than {LARGEST >> 20} MiB")
        return file.read().decode("utf-8")


def usable(value: Any, *, finite: bool = True) -> Any:
    """Return `value`, which was read from a file of a run.

    Raises:
        ValueError: it is nested so deeply that recursion over it would overflow the stack, or if it must be `finite`,
            has an infinite number or one that is too large for a float.
    """
    _look([value], finite, DEEPEST)
    return value


def _look(node: dict[Any, Any] | list[Any], finite: bool, levels: int) -> None:
    for item in node.values() if isinstance(node, dict) else node:
        if isinstance(item, float | int):
            if finite and not -LARGEST_NUMBER <= item <= LARGEST_NUMBER:
                raise ValueError(f"it contains the number {str(item)[:20]}, which no run writes")
        elif isinstance(item, dict | list):
            if not levels:
                raise ValueError(TOO_DEEP)
            _look(item, finite, levels - 1)


def is_number(value: Any) -> bool:
    """Whether a stored value is a number; true and false are none. Values that were not finite are stored as null."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def plain(value: Any, *, finite: bool = False) -> Any:
    """`value` as dicts, lists, strings, numbers, booleans and None; arrays and tensors are converted by `tolist`."""
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


def as_typed(value: Any) -> str:
    """A value as YAML and the command line write it: `null`, `true`, `0.1`, `[1, 2]`."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(repr(item) if isinstance(item, str) else as_typed(item) for item in value)}]"
    return {"None": "null", "True": "true", "False": "false"}.get(found := f"{plain(value)}", found)
