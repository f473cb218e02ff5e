"""Files with one sentence a line, read strictly: every fault is named with its place."""

import gzip
import zlib
from pathlib import Path

from variations.system.errors import DataError


def read_lines(path: Path, what: str) -> list[str]:
    """Lines of a UTF-8 text file (plain, or gzip when its name ends in .gz), without line ends.

    `what` names the file's part in messages ("hypothesis file"). Only newlines end lines, so that other separators
    inside a sentence do not shift what follows. Raises DataError for a file that is missing, unreadable, empty or not
    UTF-8.
    """
    data = _bytes(path, what)
    if not data:
        raise DataError(f"The {what} {path} is empty: give a file with one sentence a line.")
    lines = data.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    if not lines[-1]:
        lines.pop()
    return [_text(line, path, what, number) for number, line in enumerate(lines, start=1)]


def _bytes(path: Path, what: str) -> bytes:
    if path.is_dir():
        raise DataError(f"The {what} {path} is a folder: give a file with one sentence a line.")
    try:
        data = path.read_bytes()
        return gzip.decompress(data) if path.suffix == ".gz" else data
    except FileNotFoundError:
        raise DataError(f"The {what} {path} does not exist: check the path.") from None
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DataError(f"The {what} {path} is not a complete gzip file ({error}).") from None
    except OSError as error:
        raise DataError(f"The {what} {path} cannot be read: {error.strerror or error}.") from None


def _text(line: bytes, path: Path, what: str, number: int) -> str:
    try:
        return line.decode("utf-8").removesuffix("\r")
    except UnicodeDecodeError as error:
        raise DataError(
            f"Line {number} of the {what} {path} is not valid UTF-8 (byte {error.start + 1} of the line is "
            f"0x{line[error.start]:02x}): convert the file to UTF-8."
        ) from None
