"""Fixture: a web server on loopback that misbehaves on demand."""

import hashlib
import io
import re
import tarfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

PIECE = 1 << 13
"""Bytes."""


def packed(members: dict[str, bytes]) -> bytes:
    """Return a `.tar.gz` of these files, given by their names in it."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return stream.getvalue()


@dataclass
class Site:
    """The server's files, behaviour and request log."""

    url: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    break_at: list[int] = field(default_factory=list)
    """For each coming response, the number of body bytes after which the connection is cut."""
    stall_at: list[int] = field(default_factory=list)
    """The same, but the connection stays open without sending."""
    statuses: list[int] = field(default_factory=list)
    """Statuses of the coming responses, before any file is served."""
    headers: dict[str, str] = field(default_factory=dict)
    ranges: bool = True
    validator: bool = True
    delay: float = 0.0
    pause: float = 0.0
    """Seconds between two pieces of a body."""
    log: list[tuple[str, str | None]] = field(default_factory=list)
    """(path, Range header) of each request."""
    released: threading.Event = field(default_factory=threading.Event)


def handler(site: Site) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            pass

        def do_GET(self) -> None:
            site.log.append((self.path, self.headers.get("Range")))
            time.sleep(site.delay)
            if site.statuses:
                self.send_error(site.statuses.pop(0))
            elif self.path not in site.files:
                self.send_error(404)
            else:
                self.serve(site.files[self.path])

        def serve(self, body: bytes) -> None:
            tag = f'"{hashlib.md5(body).hexdigest()}"'
            asked = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range") or "")
            start, same = int(asked[1]) if asked else 0, self.headers.get("If-Range") in (None, tag)
            partial = bool(asked) and site.ranges and same
            if partial and start >= len(body):
                self.send_error(416)
                return
            start = start if partial else 0
            self.send_response(206 if partial else 200)
            if partial:
                self.send_header("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
            if site.validator:
                self.send_header("ETag", tag)
            for name, value in site.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body) - start))
            self.end_headers()
            if site.stall_at:
                self.wfile.write(body[start : start + site.stall_at.pop(0)])
                self.wfile.flush()
                site.released.wait(20)
            elif site.break_at:
                self.wfile.write(body[start : start + site.break_at.pop(0)])
            else:
                for place in range(start, len(body), PIECE if site.pause else len(body)):
                    self.wfile.write(body[place : place + PIECE] if site.pause else body[start:])
                    time.sleep(site.pause)

    return Handler


@pytest.fixture
def site() -> Iterator[Site]:
    """A running server, stopped after the test."""
    running = Site()
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler(running))
    server.daemon_threads = True
    running.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield running
    finally:
        running.released.set()
        server.shutdown()
        server.server_close()
        thread.join()
