"""Small text files, read as a whole."""

import gzip
import io
import zlib
from pathlib import Path

from variations.system.errors import DataError


def read_text(path: Path) -> str:
    """The text of a UTF-8 file, with or without a byte order mark; `.gz` is unpacked.

    Raises DataError for a file that cannot be read, and with line and column for one that is not UTF-8.
    """
    try:
        content = path.read_bytes()
        unpacked = gzip.decompress(content) if path.suffix.lower() == ".gz" else content
        return io.TextIOWrapper(io.BytesIO(unpacked), encoding="utf-8-sig").read()
    except UnicodeDecodeError as error:
        before = error.object[: error.start]
        line, column = before.count(b"\n") + 1, len(before[before.rfind(b"\n") + 1 :].decode("utf-8-sig")) + 1
        byte = error.object[error.start]
        raise DataError(f"{path}, line {line}, column {column}: the byte 0x{byte:02x} is not UTF-8 text") from None
    except (gzip.BadGzipFile, EOFError, zlib.error):
        raise DataError(f"{path}: cannot be read (it is not a complete gzip file)") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from None
