"""One attempt at a download: request what is missing, check the answer, and append it to the part file.

`NAME.part.json` records the address and version to which `NAME.part` belongs.
"""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn
from urllib.parse import urlsplit

from variations.store.atomic import read_object, write_json
from variations.system.errors import UserError

if TYPE_CHECKING:
    import requests

CHUNK = 1 << 16
SPARE = 64 << 20
"""Bytes on the disk that a download leaves free."""
TRANSIENT = frozenset({408, 425, 429, 500, 502, 503, 504})


@dataclass(frozen=True)
class Remote:
    """A file on the web. Checksums in hexadecimal, size in bytes; None if the publisher states none."""

    url: str
    sha256: str | None = None
    size: int | None = None
    md5: str | None = None


class Broken(Exception):  # noqa: N818 (not an error until the attempts are used up)
    """A temporary error, after which another attempt is made."""

    def __init__(self, reason: str, *, wait: float = 0.0, offline: bool = False) -> None:
        super().__init__(reason)
        self.wait = wait
        self.offline = offline


def receive(
    session: "requests.Session",
    remote: Remote,
    part: Path,
    timeout: float,
    manual: str,
    show: Callable[[int, int | None], None],
) -> None:
    """Make one attempt. Returns when `part` is complete; raises Broken if another attempt may succeed."""
    have, state = _resumable(part, remote)
    if have and have == state.get("size"):
        return
    with _request(session, remote.url, timeout, have, state) as response:
        have, total = _accept(response, remote, part, have, state, manual)
        if total is not None:
            require_space(part.parent, total - have + SPARE, f"The download of {remote.url}")
        write_json(beside(part, ".json"), _validators(response, remote.url, total))
        with part.open("ab" if have else "wb") as file:
            for chunk in _chunks(response, timeout):
                file.write(chunk)
                have += len(chunk)
                show(have, total)
    if total is not None and have < total:
        raise Broken(f"the connection was lost after {have:,} of {total:,} bytes")


def _resumable(part: Path, remote: Remote) -> tuple[int, dict[str, Any]]:
    """The number of bytes that can be kept, and the validators of their version."""
    state = record(part) or {}
    total = remote.size if remote.size is not None else state.get("size")
    identified = state.get("url") == remote.url and (state.get("validator") or total is not None)
    have = size_of(part)
    if not identified or (total is not None and have > total):
        return 0, {}
    return have, {**state, "size": total}


def _request(
    session: "requests.Session", url: str, timeout: float, have: int, state: dict[str, Any]
) -> "requests.Response":
    import requests

    headers = {"Accept-Encoding": "identity", "User-Agent": "variations"}
    if have:
        headers["Range"] = f"bytes={have}-"
        if state.get("validator"):
            headers["If-Range"] = str(state["validator"])
    try:
        return session.get(url, headers=headers, stream=True, timeout=timeout)
    except requests.Timeout as error:
        raise Broken(f"no answer within {timeout:g} s") from error
    except requests.ConnectionError as error:
        raise Broken(f"no connection to {urlsplit(url).netloc}", offline=True) from error
    except requests.RequestException as error:
        raise UserError(f"Cannot download {url}: {error}.") from None


def _accept(
    response: "requests.Response", remote: Remote, part: Path, have: int, state: dict[str, Any], manual: str
) -> tuple[int, int | None]:
    """The offset at which the body starts, and the total size if the server states it."""
    status = response.status_code
    if status in TRANSIENT:
        wait = response.headers.get("Retry-After", "")
        raise Broken(
            f"the server answers {status} {response.reason}",
            wait=float(min(int(wait), 60)) if wait.isdecimal() else 0.0,
        )
    if status == 416:  # no such range: the existing part is of another version
        discard(part)
        raise Broken("the server cannot resume the download")
    if status not in (200, 206):
        raise UserError(
            f"Cannot download {remote.url}: the server answers {status} {response.reason}. {manual}".rstrip()
        )
    if status == 206:
        start, total = _content_range(response)
        if start != have or (state.get("size") is not None and total not in (None, state["size"])):
            discard(part)
            raise Broken("the server resumes at a position that was not requested")
    else:
        length = response.headers.get("Content-Length", "")
        have, total = 0, int(length) if length.isdecimal() else None
    if remote.size is not None and total not in (None, remote.size):
        _refuse_size(remote, total, manual)
    return have, remote.size if total is None else total


def _refuse_size(remote: Remote, total: int | None, manual: str) -> NoReturn:
    raise UserError(
        f"The file at {remote.url} is not the published one: expected {remote.size:,} bytes, the server offers "
        f"{total:,}. {manual}".rstrip()
    )


def _content_range(response: "requests.Response") -> tuple[int | None, int | None]:
    """Start and total of `bytes START-END/TOTAL`; None if the header does not have them."""
    unit, _, rest = response.headers.get("Content-Range", "").partition(" ")
    span, _, total = rest.partition("/")
    start = span.partition("-")[0]
    known = unit == "bytes" and start.isdecimal()
    return (int(start) if known else None), (int(total) if known and total.isdecimal() else None)


def _validators(response: "requests.Response", url: str, total: int | None) -> dict[str, Any]:
    """The validators for a later attempt; a weak ETag must not be used to resume (RFC 9110, section 13.1.5)."""
    tag = response.headers.get("ETag", "")
    validator = response.headers.get("Last-Modified") if not tag or tag.startswith("W/") else tag
    return {"url": url, "validator": validator, "size": total}


def _chunks(response: "requests.Response", timeout: float) -> Iterator[bytes]:
    # The raw stream: some servers label archives `Content-Encoding: gzip`, and requests would unpack them.
    from urllib3.exceptions import HTTPError, ReadTimeoutError

    stream = response.raw.stream(CHUNK, decode_content=False)
    try:
        yield from stream
    except (ReadTimeoutError, TimeoutError) as error:
        raise Broken(f"no byte arrived for {timeout:g} s") from error
    except (HTTPError, ConnectionError) as error:
        raise Broken("the connection was lost") from error


def discard(part: Path) -> None:
    """Delete a part file and its record."""
    part.unlink(missing_ok=True)
    beside(part, ".json").unlink(missing_ok=True)


def size_of(path: Path) -> int:
    """The size of a file in bytes; 0 if it is missing."""
    return path.stat().st_size if path.exists() else 0


def record(path: Path) -> dict[str, Any] | None:
    """Where a fetched file came from: `url`, `sha256`, `size` and how it was `checked`; None where nothing is known."""
    return read_object(beside(path, ".json"))


def require_space(folder: Path, needed: int, what: str) -> None:
    """Raise UserError unless the disk of `folder` (which need not exist yet) has `needed` bytes free for `what`."""
    there = next(parent for parent in (folder, *folder.parents) if parent.exists())
    free = shutil.disk_usage(there).free
    if free < needed:
        raise UserError(
            f"{what} needs {needed / 1e6:,.0f} MB in {folder}, but only {free / 1e6:,.0f} MB are free: "
            "free some space or name another folder with data.cache=DIR."
        )


def beside(path: Path, ending: str) -> Path:
    """The file in the same folder with `ending` appended to its name."""
    return path.with_name(path.name + ending)
