"""A W&B service on loopback for the real wandb-core: it stores what it receives and shows it to the tests.

It answers the GraphQL operations that wandb-core and wandb-workspaces send, the stream of a run's history, and file
uploads, each in the format that the client expects. As the protocol specifies, history lines are stored by their offset
in the stream; a line that is sent again with the same offset replaces the earlier one.
"""

import base64
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote

ENTITY = "researcher"


@dataclass
class StoredRun:
    """The service's data about one run."""

    name: str
    project: str
    fields: dict[str, Any] = field(default_factory=dict)
    """Variables of UpsertBucket: displayName, groupName, jobType, tags, commit, …; the last non-null value of each."""
    streams: dict[str, dict[int, str]] = field(default_factory=dict)
    """Lines of each stream file, by offset."""
    files: dict[str, bytes] = field(default_factory=dict)
    exit_code: int | None = None
    complete: bool = False

    @property
    def history(self) -> list[dict[str, Any]]:
        """The history lines, in order of offset."""
        lines = self.streams.get("wandb-history.jsonl", {})
        return [json.loads(lines[offset]) for offset in sorted(lines)]

    @property
    def summary(self) -> dict[str, Any]:
        """The last summary."""
        lines = self.streams.get("wandb-summary.json", {})
        return json.loads(lines[max(lines)]) if lines else {}

    @property
    def config(self) -> dict[str, Any]:
        """The configuration values, without W&B's own entry."""
        stored = json.loads(self.fields.get("config") or "{}")
        return {key: entry["value"] for key, entry in stored.items() if key != "_wandb"}


@dataclass
class Service:
    """State of the service, shared by its threads."""

    runs: dict[str, StoredRun] = field(default_factory=dict)
    operations: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    """Operations that the service could not answer."""
    views: list[dict[str, Any]] = field(default_factory=list)
    """Variables of UpsertView: reports and workspaces."""
    artifacts: dict[str, dict[str, Any]] = field(default_factory=dict)
    uploads: dict[str, bytes] = field(default_factory=dict)
    authorizations: set[str] = field(default_factory=set)
    refuse: int | None = None
    """HTTP status returned for every request, to simulate an outage."""
    url: str = ""
    lock: threading.RLock = field(default_factory=threading.RLock)

    def answer(self, operation: str, query: str, variables: dict[str, Any]) -> dict[str, Any] | None:
        """Return the data of a GraphQL response; None for an unknown operation."""
        with self.lock:
            self.operations.append(operation)
            method = getattr(self, f"_{operation[:1].lower()}{operation[1:]}", None)
            if method is None:
                self.unknown.append(f"{operation}: {query}")
                return None
            found: dict[str, Any] = method(query, variables)
            return found

    # Account --------------------------------------------------------------------------------------------------------

    def _viewer(self, query: str, variables: dict[str, Any]) -> dict[str, Any]:
        teams = {"edges": []}
        viewer = {"id": "user", "entity": ENTITY, "username": ENTITY, "flags": "{}", "teams": teams, "admin": False}
        viewer |= {"name": ENTITY, "email": "researcher@example.org", "createdAt": "2026-01-01", "deletedAt": None}
        return {"viewer": viewer | {"apiKeys": {"edges": []}}}

    _getDefaultEntity = _viewer

    def _getProjects(self, query: str, variables: dict[str, Any]) -> dict[str, Any]:
        user = {"__typename": "User", "id": "user", "name": ENTITY, "username": ENTITY, "email": None, "admin": False}
        user |= {"flags": None, "entity": ENTITY, "deletedAt": None, "apiKeys": None, "teams": None}
        node = {"__typename": "Project", "id": "project", "name": "variations", "entityName": ENTITY}
        node |= {"createdAt": "2026-01-01T00:00:00", "isBenchmark": False, "user": user}
        page = {"__typename": "PageInfo", "endCursor": None, "hasNextPage": False}
        return {"models": {"edges": [{"node": node}], "pageInfo": page}}

    def _serverFeaturesQuery(self, query: str, variables: dict[str, Any]) -> dict[str, Any]:
        return {"serverInfo": {"features": []}}

    _serverFeatures = _serverFeaturesQuery

    def _serverInfo(self, query: str, variables: dict[str, Any]) -> dict[str, Any]:
        return {"serverInfo": {"cliVersionInfo": {}, "latestLocalVersionInfo": None}}

    # Runs -----------------------------------------------------------------------------------------------------------

    def _runResumeStatus(self, query: str, variables: dict[str, Any]) -> dict[str, Any]:
        run = self.runs.get(variables["name"])
        if run is None:
            return {"model": {"id": "project", "name": variables["project"], "bucket": None}}
        lines = run.streams.get("wandb-history.jsonl", {})
        tail = [lines[max(lines)]] if lines else []
        bucket = {
            "id": f"id-{run.name}",
            "name": run.name,
            "summaryMetrics": json.dumps(run.summary),
            "displayName": run.fields.get("displayName"),
            "logLineCount": len(run.streams.get("output.log", {})),
            "historyLineCount": max(lines) + 1 if lines else 0,
            "eventsLineCount": len(run.streams.get("wandb-events.jsonl", {})),
            "historyTail": json.dumps(tail),
            "eventsTail": "[]",
            "config": run.fields.get("config") or "{}",
            "tags": run.fields.get("tags") or [],
            "wandbConfig": '{"t": {"1": []}}',
        }
        return {"model": {"id": "project", "name": variables["project"], "bucket": bucket}}

    def _upsertBucket(self, query: str, variables: dict[str, Any]) -> dict[str, Any]:
        name = variables["name"]
        inserted = name not in self.runs
        run = self.runs.setdefault(name, StoredRun(name, variables.get("project") or "uncategorized"))
        run.fields |= {key: value for key, value in variables.items() if value is not None}
        project = {"id": "project", "name": run.project, "entity": {"id": "entity", "name": ENTITY}}
        bucket = {
            "id": f"id-{name}",
            "name": name,
            "displayName": run.fields.get("displayName"),
            "description": None,
            "config": run.fields.get("config") or "{}",
            "sweepName": None,
            "project": project,
            "historyLineCount": None,  # a number only for a fork
        }
        return {"upsertBucket": {"bucket": bucket, "inserted": inserted}}

    def _createRunFiles(self, query: str, variables: dict[str, Any]) -> dict[str, Any]:
        run = variables["run"]
        files = [{"name": name, "uploadUrl": f"{self.url}/put/{run}/{name}"} for name in variables["files"]]
        return {"createRunFiles": {"runID": run, "uploadHeaders": [], "files": files}}

    def _organizationCoreWeaveOrganizationID(self, query: str, variables: dict[str, Any]) -> dict[str, Any]:
        return {"entity": {"organization": {"coreWeaveOrganizationId": None}}}

    # Artifacts (tables are stored as such) --------------------------------------------------------------------------

    def _artifactType(self, query: str, variables: dict[str, Any]) -> dict[str, Any]:
        return {"project": {"artifact": None}}

    def _createArtifact(self, query: str, variables: dict[str, Any]) -> dict[str, Any]:
        given = variables.get("input") or variables
        name = (given.get("artifactCollectionNames") or [given.get("artifactCollectionName")])[0]
        identity = f"artifact-{len(self.artifacts)}"
        self.artifacts[identity] = {"name": name, "type": given.get("artifactTypeName"), "run": given.get("runName")}
        artifact = {"id": identity, "state": "PENDING", "artifactSequence": {"id": "sequence", "latestArtifact": None}}
        return {"createArtifact": {"artifact": artifact}}

    def _createArtifactManifest(self, query: str, variables: dict[str, Any]) -> dict[str, Any]:
        given = variables.get("input") or variables
        place = {"id": "file", "name": given.get("name"), "displayName": given.get("name"), "uploadHeaders": []}
        place["uploadUrl"] = f"{self.url}/put/manifests/{given['artifactID']}"
        return {"createArtifactManifest": {"artifactManifest": {"id": "manifest", "file": place}}}

    def _createArtifactFiles(self, query: str, variables: dict[str, Any]) -> dict[str, Any]:
        given = variables.get("input") or variables
        edges = []
        for file in given["artifactFiles"]:
            url = f"{self.url}/put/artifacts/{file['artifactID']}/{file['name']}"
            artifact = {"id": file["artifactID"]}
            node = {"id": file["name"], "name": file["name"], "displayName": file["name"], "uploadUrl": url}
            node |= {"uploadHeaders": [], "artifact": artifact, "storagePath": None, "uploadMultipartUrls": None}
            edges.append({"node": node})
        return {"createArtifactFiles": {"files": {"edges": edges}}}

    def _updateArtifactManifest(self, query: str, variables: dict[str, Any]) -> dict[str, Any]:
        return self._createArtifactManifest(query, variables | {"artifactID": variables.get("artifactID", "updated")})

    def _commitArtifact(self, query: str, variables: dict[str, Any]) -> dict[str, Any]:
        given = variables.get("input") or variables
        self.artifacts[given["artifactID"]]["committed"] = True
        return {"commitArtifact": {"artifact": {"id": given["artifactID"], "digest": "digest"}}}

    # Reports and workspaces -----------------------------------------------------------------------------------------

    def _upsertView2(self, query: str, variables: dict[str, Any]) -> dict[str, Any]:
        self.views.append(variables)
        identity = variables.get("id") or base64.b64encode(f"View:{len(self.views)}".encode()).decode()
        view = {"id": identity, "name": variables.get("name"), "displayName": variables.get("displayName")}
        view |= {"type": variables.get("type"), "description": variables.get("description"), "spec": variables["spec"]}
        view |= {"user": {"username": ENTITY, "name": ENTITY}, "createdAt": "2026-01-01", "updatedAt": "2026-01-01"}
        view |= {"project": {"name": variables.get("projectName"), "entityName": ENTITY}}
        return {"upsertView": {"view": view, "inserted": True}}

    _upsertView = _upsertView2

    def _projectInternalId(self, query: str, variables: dict[str, Any]) -> dict[str, Any]:
        return {"project": {"internalId": base64.b64encode(b"Project:v1:variations:researcher").decode()}}

    # Streams and files ----------------------------------------------------------------------------------------------

    def stream(self, run: str, body: dict[str, Any]) -> dict[str, Any]:
        """Handle a POST to a run's file_stream."""
        with self.lock:
            stored = self.runs[run]
            for name, part in (body.get("files") or {}).items():
                lines = stored.streams.setdefault(name, {})
                if name == "wandb-summary.json" or part["offset"] == 0:
                    lines.clear()
                for number, line in enumerate(part["content"]):
                    lines[part["offset"] + number] = line
            if body.get("complete"):
                stored.complete, stored.exit_code = True, body.get("exitcode")
            return {"limits": {}}

    def put(self, path: str, content: bytes) -> None:
        """Store an upload: a run's file as `RUN/NAME`, or part of an artifact."""
        with self.lock:
            run, _, name = path.partition("/")
            if run in self.runs:
                self.runs[run].files[name] = content
            else:
                self.uploads[path] = content


class _Handler(BaseHTTPRequestHandler):
    service: Service
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *arguments: Any) -> None:
        pass

    def _body(self) -> bytes:
        import gzip

        if self.headers.get("Transfer-Encoding") == "chunked":
            body = b""
            while size := int(self.rfile.readline().split(b";")[0], 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        else:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        return gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body

    def _send(self, value: Any, status: int = 200) -> None:
        content = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def handle_one_request(self) -> None:
        with suppress(ConnectionResetError):  # a client that was killed
            super().handle_one_request()

    def do_GET(self) -> None:
        self._send({})

    def do_PUT(self) -> None:
        self.service.put(unquote(self.path.removeprefix("/put/")), self._body())
        self._send({})

    def do_POST(self) -> None:
        body = json.loads(self._body() or b"{}")
        service = self.service
        if header := self.headers.get("Authorization"):
            service.authorizations.add(header)
        if service.refuse is not None:
            self._send({"errors": [{"message": "refused"}]}, service.refuse)
        elif self.path.endswith("/graphql"):
            named = re.search(r"(?:query|mutation)\s+(\w+)", body["query"])
            operation = body.get("operationName") or (named[1] if named else "unnamed")
            data = service.answer(operation, body["query"], body.get("variables") or {})
            self._send({"data": data} if data is not None else {"errors": [{"message": f"unknown: {operation}"}]})
        elif match := re.search(r"/files/[^/]+/[^/]+/([^/]+)/file_stream", self.path):
            self._send(service.stream(match[1], body))
        else:
            self._send({}, 404)


@contextmanager
def serve() -> Iterator[Service]:
    """Run a service on a free port of 127.0.0.1 for the duration of the block."""
    service = Service()
    handler = type("Handler", (_Handler,), {"service": service})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    service.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield service
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
