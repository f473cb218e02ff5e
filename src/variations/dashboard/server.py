"""The dashboard's server.

It is Python's own `ThreadingHTTPServer`, which serves one user on this machine, is read-only, and has few addresses. A
web framework would bring sessions, forms and templates that this page must not have, and an asynchronous server
(Tornado, which comes with Bokeh) would block while a payload reads files or a test draws samples; here each request has
a thread. Protection that a framework would offer is below in one place: methods, hosts, names, headers.
"""

import errno
import ipaddress
import re
import socket
import sys
import threading
import time
import traceback
from collections.abc import Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote_plus

from variations.dashboard import assets
from variations.dashboard.api import Api, MissingError, document, segment
from variations.system.errors import UserError

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""Only our scripts, no eval, nothing from other hosts. BokehJS adds style sheets, which need 'unsafe-inline'."""
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}
JSON = "application/json; charset=utf-8"
LOOK = 1.0
"""Seconds between checks of the store for event streams."""
BEAT = 15.0
"""Seconds between keep-alive comments on an idle stream."""
HOST = re.compile(r"(\[(?P<six>[0-9a-f:.]+)\]|(?P<name>[a-z0-9._-]+))(:\d{1,5})?")
"""A Host header: a name or an address, optionally with a port."""
NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
LISTS = ("ids", "metrics")
"""Keys of a query whose values are lists."""


class Server(ThreadingHTTPServer):
    """Serves one store until `shutdown`."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(self, api: Api, host: str = "127.0.0.1", port: int = 0) -> None:
        """Bind to `host` and `port`; 0 is any free port. Raises UserError if that is impossible."""
        self.api = api
        self.bound = host
        self.ending = threading.Event()
        if ":" in host:
            self.address_family = socket.AF_INET6
        try:
            super().__init__((host, port), Handler)
        except (OSError, TypeError, UnicodeError) as error:  # the last two: no name of a host
            raise UserError(_cannot_bind(host, port, error)) from error

    @property
    def url(self) -> str:
        """The address for a browser on this machine."""
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.bound, self.bound)  # noqa: S104 - compared, not bound
        return f"http://{f'[{host}]' if ':' in host else host}:{self.server_address[1]}/"

    def knows(self, host: str) -> bool:
        """Whether a request may have this Host header.

        A page on the internet can let its own name resolve to this machine (DNS rebinding), but the browser then sends
        that name. So only requests with names of this machine are answered; the port may be a tunnel's.
        """
        found = HOST.fullmatch(host.strip().lower())
        if found is None:
            return False
        name = (found["six"] or found["name"]).rstrip(".")
        if name in NAMES or name == self.bound.lower():
            return True
        if self.bound in NAMES:
            return False
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return name in {socket.gethostname().lower(), socket.getfqdn().lower()}
        return True

    def shutdown(self) -> None:
        """Stop, and end all event streams."""
        self.ending.set()
        super().shutdown()

    def server_bind(self) -> None:
        """Bind without the base class's lookup of this host's name, which may query a name server."""
        import socketserver

        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = self.bound, self.server_address[1]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore browsers that disconnect."""
        if not isinstance(sys.exc_info()[1], ConnectionError | TimeoutError):
            traceback.print_exc()


class Handler(BaseHTTPRequestHandler):
    """One connection of a browser."""

    server: Server  # type: ignore[assignment]
    protocol_version = "HTTP/1.1"
    server_version = "variations"
    sys_version = ""
    timeout = 60

    def do_GET(self) -> None:
        """Answer a request."""
        self._answer(send=True)

    def do_HEAD(self) -> None:
        """Answer with the headers only."""
        self._answer(send=False)

    def refuse(self) -> None:
        """Refuse any other method."""
        self.close_connection = True  # its body, if any, is not read
        self._fault(HTTPStatus.METHOD_NOT_ALLOWED, "This server is read-only: GET and HEAD.", Allow="GET, HEAD")

    def _answer(self, *, send: bool) -> None:
        self._head = not send
        hosts = self.headers.get_all("Host") or []
        if len(hosts) != 1 or not self.server.knows(hosts[0]):
            self.close_connection = True
            self._fault(
                HTTPStatus.FORBIDDEN, "This host name does not belong to this server: use the address that it printed."
            )
            return
        try:
            self._route()
        except MissingError as error:
            self._fault(HTTPStatus.NOT_FOUND, str(error))
        except UserError as error:
            self._fault(HTTPStatus.BAD_REQUEST, str(error))
        except ConnectionError:
            self.close_connection = True
        except Exception as error:  # noqa: BLE001 - one request must not end the server, and its page says why
            traceback.print_exc()
            self._fault(HTTPStatus.INTERNAL_SERVER_ERROR, f"Cannot answer: {type(error).__name__}.")

    def _route(self) -> None:
        path, _, query = self.path.partition("?")
        first, _, rest = path.removeprefix("/").partition("/")
        if not path.startswith("/"):
            raise MissingError("There is no such place.")
        if path == "/":
            self._file(lambda: assets.static_file("index.html"))
        elif first == "static":
            self._file(lambda: assets.static_file("/".join(map(segment, rest.split("/")))))
        elif first == "bokeh":
            self._file(lambda: assets.bokeh_file(segment(rest)))
        elif path == "/api/events":
            self._events()
        elif path == "/api/export":
            self._export(parameters(query))
        elif first == "api":
            self._send(HTTPStatus.OK, self.server.api.answer(rest, parameters(query)), JSON)
        else:
            raise MissingError("There is no such place.")

    def _file(self, find: Any) -> None:
        try:
            path = find()
        except KeyError:
            raise MissingError("There is no such file.") from None
        self._send(HTTPStatus.OK, path.read_bytes(), assets.media_type(path.suffix))

    def _export(self, query: Mapping[str, str]) -> None:
        from variations.dashboard.export import page

        name = query.get("sweep")
        body = page(self.server.api, [name] if name else None).encode()
        stem = "".join(sign if sign.isascii() and (sign.isalnum() or sign in "-_") else "_" for sign in name or "runs")
        disposition = {"Content-Disposition": f'attachment; filename="{stem}.html"'}
        self._send(HTTPStatus.OK, body, "text/html; charset=utf-8", **disposition)

    def _events(self) -> None:
        """Send the store's revision now, and whenever it changes."""
        self.close_connection = True
        self.send_response(HTTPStatus.OK)
        self._headers("text/event-stream; charset=utf-8", Connection="close")
        self.end_headers()
        last, spoken = "", 0.0
        while not self._head and not self.server.ending.is_set():
            revision = self.server.api.store.snapshot().revision
            if revision != last:
                self.wfile.write(f"event: revision\ndata: {revision}\n\n".encode())
                last, spoken = revision, time.monotonic()
            elif time.monotonic() - spoken > BEAT:
                self.wfile.write(b": alive\n\n")
                spoken = time.monotonic()
            self.wfile.flush()
            self.server.ending.wait(LOOK)

    def _fault(self, status: HTTPStatus, reason: str, **headers: str) -> None:
        self._send(status, document({"error": reason}), JSON, **headers)

    def _send(self, status: HTTPStatus, body: bytes, kind: str, **headers: str) -> None:
        self.send_response(status)
        self._headers(kind, **headers)
        self.send_header("Content-Length", str(len(body)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if not getattr(self, "_head", False):
            self.wfile.write(body)

    def _headers(self, kind: str, **headers: str) -> None:
        self.send_header("Content-Type", kind)
        self.send_header("Cache-Control", "no-store")
        for name, value in {**HEADERS, **headers}.items():
            self.send_header(name.replace("_", "-"), value)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answer a request that cannot be parsed."""
        self.close_connection = True
        self._fault(HTTPStatus(code), HTTPStatus(code).phrase)

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: standard error is for messages to the user."""


for _method in ("POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT"):
    setattr(Handler, f"do_{_method}", Handler.refuse)


def parameters(query: str) -> dict[str, str]:
    """A query's decoded keys and values; LISTS stay encoded, because they are split at commas before that."""
    found = {}
    for part in query.split("&"):
        key, _, value = part.partition("=")
        found[unquote_plus(key)] = value if key in LISTS else unquote_plus(value)
    return found


def _cannot_bind(host: str, port: int, error: Exception) -> str:
    number = error.errno if isinstance(error, OSError) else None
    if number == errno.EADDRINUSE:
        return f"Port {port} of {host} is in use: choose another one with port=NUMBER, or port=0 for any free port."
    if number == errno.EACCES:
        return f"Port {port} needs more rights than you have: choose one from 1024, or port=0 for any free port."
    reason = getattr(error, "strerror", None) or error
    return f"Cannot listen on host={host}: {reason}. Use host=127.0.0.1, or an address of this machine."
