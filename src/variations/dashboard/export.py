"""The page as one HTML file with scripts, styles and payloads: it fetches nothing, and allows no other scripts."""

import base64
import hashlib
import html
import json
import re
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from variations.dashboard import assets, runs, sweeps
from variations.dashboard.api import Api, MissingError, document
from variations.dashboard.walk import Found
from variations.store.atomic import destination, told_if_unwritable, write_text
from variations.system.errors import UserError
from variations.tables.records import published

LIMIT = 2_900_000
"""Size of a file in bytes, suitable for an e-mail. Payloads are reduced until they fit, or to the last of DETAILS."""
_SCRIPT = re.compile(r'<script src="(/static/|/bokeh/)([^"?]+)"[^>]*></script>')
_STYLE = re.compile(r'<link rel="stylesheet" href="/static/([^"?]+)"[^>]*>')
_BULK = re.compile(r"scores\..*\.(?:details\..*|convention|signature)|deterministic\..*|averaged_steps")
_UNRESERVED = "!'()*-._~"
"""What JavaScript's encodeURIComponent leaves as it is, besides letters and digits."""
_PRIVATE = ("git.diff", "git.untracked", "git.remote", "host", "command")
"""Details of this machine that a recipient does not need."""
_DETAILS = ("log_tail", "notes", "reason", "result", "status")
"""Parts that may contain paths, besides the configuration and the environment of a run."""


@dataclass(frozen=True)
class Detail:
    """How much of each run a file contains."""

    points: int
    """Points of each curve."""
    weights: int
    """Number of steps with κ and α."""
    samples: int
    """Number of sentences of each run."""
    attention: int
    """Number of runs with attention maps."""
    pairs: int
    """Number of runs of a sweep that are compared with the first run of its base row."""


DETAILS = (
    Detail(200, 60, 20, 12, 30),
    Detail(200, 30, 8, 4, 20),
    Detail(100, 20, 4, 2, 10),
    Detail(50, 12, 2, 1, 5),
    Detail(25, 6, 1, 0, 2),
    Detail(8, 2, 0, 0, 1),
)
DIFFERING = 5
"""Most sentences of each comparison."""


def page(api: Api, names: Sequence[str] | None = None) -> str:
    """The page with the payloads of the named sweeps, by default of all.

    Raises:
        UserError: There is no such sweep, there are no runs, or BokehJS is missing.
    """
    known = api.store.snapshot().sweeps
    if names is not None and (unknown := [name for name in names if name not in known]):
        listed = ", ".join(known) or "none"
        raise MissingError(f"The run store {api.store.root} has no sweep {unknown[0]!r}; it has: {listed}.")
    if not known:
        raise UserError(f"There is nothing to export: {api.store.root} contains no runs.")
    chosen = {name: known[name] for name in (known if names is None else names)}
    frame, place = _frame(next(iter(chosen)) if len(chosen) == 1 else api.store.root.name)
    room = LIMIT - len(frame.encode())
    tables = _tables(api, chosen)
    scores = _Kept()
    payloads: list[str] = []
    for detail in DETAILS:
        payloads = [*tables, *_runs(api, chosen, detail, scores), *_pairs(api, chosen, detail, scores)]
        if sum(len(text.encode()) + 1 for text in payloads) <= room:
            break
    return frame[:place] + "\n".join(payloads) + "\n" + frame[place:]


def write(api: Api, sweep: str | None, path: Path, key: str) -> None:
    """Write the page of one sweep, or of all, to the file that the configuration's `key` names.

    Raises:
        UserError: As for `page`, or the file cannot be written.
    """
    if path.is_dir():
        raise UserError(f"{key}={path} is a folder: give a file, {key}={path / 'runs.html'}.")
    text = page(api, [sweep] if sweep else None)
    with told_if_unwritable(path, f"; choose another file with {key}=FILE."):
        write_text(destination(path), text)
    if (size := len(text.encode())) > LIMIT:
        advice = "" if sweep else " sweep=NAME exports one sweep."
        sys.stderr.write(f"{path} has {size / 1e6:.1f} MB, with as little of each run as a file may contain.{advice}\n")


# Payloads -------------------------------------------------------------------------------------------------------------


def element(path: str, content: bytes) -> str:
    """One payload as an element of the page, escaped so that its text cannot end the element or start another."""
    text = content.decode()
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return f'<script type="application/json" class="payload" data-path="{html.escape(path)}">{text}</script>'


def _tables(api: Api, chosen: dict[str, list[Found]]) -> list[str]:
    index = sweeps.index(api.store, live=False, sweep=next(iter(chosen)) if len(chosen) == 1 else api.sweep)
    index["sweeps"] = [entry for entry in index["sweeps"] if entry["name"] in chosen]
    index["broken"] = [
        {**item, "reason": published(item["reason"])}
        for item in index["broken"]
        if item["path"].split("/")[0] in chosen
    ]
    index["root"] = api.store.root.name
    found = [element("/api/index", document(index))]
    for name in chosen:
        content = json.loads(api.answer(f"sweep/{quote(name, safe='')}", {"significance": "1"}))
        for part in ("runs", "broken"):
            content[part] = [_without_paths(item) for item in content[part]]
        found.append(element(f"/api/sweep/{encoded(name)}", document(_public(api, content))))
        if content["table"] and content["table"]["keys"]:
            found.append(element(f"/api/importance/{encoded(name)}", api.answer(f"importance/{quote(name, safe='')}")))
    return found


def _public(api: Api, value: Any) -> Any:
    """A copy that does not reveal the path of the run store on this machine."""
    if isinstance(value, dict):
        return {key: _public(api, item) for key, item in value.items() if key != "host"}
    if isinstance(value, list):
        return [_public(api, item) for item in value]
    return value.replace(str(api.store.root), api.store.root.name) if isinstance(value, str) else value


def _without_paths(content: dict[str, Any], *further: str) -> dict[str, Any]:
    """What is said of runs, with each absolute path in _DETAILS and `further` parts reduced to its last part."""
    return {key: published(value) if key in (*_DETAILS, *further) else value for key, value in content.items()}


class _Kept:
    """Payloads of runs, computed once for all levels of detail."""

    def __init__(self) -> None:
        self._known: dict[str, Any] = {}

    def run(self, api: Api, found: Found) -> Any:
        if found.id not in self._known:
            content: Any = runs.run(api.store, found)
            content["environment"] = {k: v for k, v in content["environment"].items() if k not in _PRIVATE}
            content["status"] = {
                k: v for k, v in content["status"].items() if k not in ("host", "pid", "process", "command")
            }
            self._known[found.id] = _public(api, _without_paths(content, "config", "environment"))
        return self._known[found.id]

    def pairs(self, api: Api, sweep: str) -> list[tuple[str, str]]:
        """The ids of the first run of the base row and of another finished run, the best rows' first runs first."""
        key = f"pairs {sweep}"
        if key not in self._known:
            content = json.loads(api.answer(f"sweep/{quote(sweep, safe='')}", {"significance": "1"}))
            self._known[key] = _ordered(content)
        found: list[tuple[str, str]] = self._known[key]
        return found

    def pair(self, api: Api, ids: tuple[str, str]) -> Any:
        """What the page says of two runs."""
        key = f"pair {' '.join(ids)}"
        if key not in self._known:
            content = json.loads(api.answer("compare", {"ids": ",".join(quote(name, safe="") for name in ids)}))
            content["environment"] = [item for item in content["environment"] if item["key"] not in _PRIVATE]
            for item in (*content["config"], *content["environment"]):
                item["values"] = [published(value, item["key"]) for value in item["values"]]
            self._known[key] = _public(api, _without_paths(content))
        return self._known[key]

    def drawings(self, api: Api, found: Found) -> Any:
        """Drawings of a run; None if its files are damaged."""
        key = f"drawings {found.id}"
        if key not in self._known:
            try:
                self._known[key] = runs.drawings(api.store, found)
            except UserError:
                self._known[key] = None
        return self._known[key]


def _runs(api: Api, chosen: dict[str, list[Found]], detail: Detail, kept: _Kept) -> list[str]:
    found = []
    maps = 0
    for run in (run for group in chosen.values() for run in group):
        path = encoded(run.id)
        content = dict(kept.run(api, run))
        content["samples"] = content["samples"][: detail.samples]
        if detail is not DETAILS[0]:
            content["result"] = {key: value for key, value in content["result"].items() if not _BULK.fullmatch(key)}
        found.append(element(f"/api/run/{path}", document(content)))
        with suppress(UserError):  # damaged measurements: the page says that they are not in the file
            found.append(element(f"/api/curves/{path}", document(runs.curves(api.store, run, detail.points))))
            weights = runs.branches(api.store, run, detail.weights)
            if weights["layers"]:
                found.append(element(f"/api/branches/{path}", document(weights)))
        if maps < detail.attention and (stored := _attention(api, run)) is not None:
            maps += 1
            found.append(element(f"/api/attention/{path}", document(stored)))
        if (drawn := kept.drawings(api, run)) and drawn["drawings"]:
            drawn = {**drawn, "drawings": drawn["drawings"][: detail.samples]}
            found.append(element(f"/api/drawings/{path}", document(drawn)))
    return found


def _ordered(content: Any) -> list[tuple[str, str]]:
    """See `_Kept.pairs`."""
    rows = content["table"]["rows"] if content["table"] else []
    finished: dict[str, list[str]] = {}
    for run in content["runs"]:
        if run["latest"] and run["state"] == "finished":
            finished.setdefault(run["row"], []).append(run["id"])
    bases = {row["base"] for row in rows}
    first = next((row["row"] for row in rows if row["row"] in bases and row["row"] in finished), None)
    first = first or next((row["row"] for row in rows if row["row"] in finished), None)
    if first is None:
        return []
    measure = content["table"]["measures"][0]
    means = {row["row"]: (row["measured"].get(measure["key"]) or {}).get("mean") for row in rows}
    scores = {row: float(mean) for row, mean in means.items() if mean is not None}
    known = [row for row in finished if row in scores]
    known.sort(key=scores.__getitem__, reverse=measure["higher_is_better"])
    order = dict.fromkeys([*(row for row in known if row != first), first, *finished])
    base, *further = finished.pop(first)
    finished[first] = further
    most = max(map(len, finished.values()))
    return [(base, finished[row][at]) for at in range(most) for row in order if at < len(finished.get(row, []))]


def _pairs(api: Api, chosen: dict[str, list[Found]], detail: Detail, kept: _Kept) -> list[str]:
    found = []
    for name in chosen:
        for ids in kept.pairs(api, name)[: detail.pairs]:
            content = dict(kept.pair(api, ids))
            content["sentences"] = content["sentences"][: min(DIFFERING, detail.samples)]
            path = f"/api/compare?ids={','.join(quote(part, safe=_UNRESERVED) for part in ids)}"
            found.append(element(path, document(content)))
    return found


def _attention(api: Api, run: Found) -> Any:
    try:
        return runs.attention(api.store, run)
    except UserError:
        return None


def encoded(identifier: str) -> str:
    """An identifier encoded as in the page's requests: each part by the rules of JavaScript's encodeURIComponent."""
    return "/".join(quote(part, safe=_UNRESERVED) for part in identifier.split("/"))


# The page around them -------------------------------------------------------------------------------------------------


def _frame(name: str) -> tuple[str, int]:
    """The page of that name with scripts and styles, and the index before the first script, for the payloads."""
    hashes: list[str] = []
    text = assets.static_file("index.html").read_text(encoding="utf-8")
    text = _STYLE.sub(lambda match: f"<style>{_style(assets.static_file(match[1]).read_text('utf-8'))}</style>", text)
    text = _SCRIPT.sub(lambda match: _inlined(match[1], match[2], hashes), text)
    if re.search(r'(?:src|href)="/', text[: text.index("<script>")]):
        raise RuntimeError("index.html names a file in a way that the export does not know")
    policy = (
        f"default-src 'none'; script-src {' '.join(hashes)}; style-src 'unsafe-inline'; img-src data: blob:; "
        "font-src data:; base-uri 'none'; form-action 'none'"
    )
    meta = f'<meta http-equiv="Content-Security-Policy" content="{html.escape(policy)}">'
    text = text.replace("<head>", f"<head>\n{meta}", 1)
    text = text.replace("<title>Variations</title>", f"<title>{html.escape(name)} · Variations</title>", 1)
    return text, text.index("<script>")


def _inlined(root: str, name: str, hashes: list[str]) -> str:
    find: Callable[[str], Any] = assets.static_file if root == "/static/" else assets.bokeh_file
    text = find(name).read_text(encoding="utf-8").replace("\r\n", "\n").replace("\r", "\n")
    text = re.sub(r"<(?=/script|!--|script)", r"\\x3C", text, flags=re.IGNORECASE)  # it occurs only in strings
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    hashes.append(f"'sha256-{digest}'")
    return f"<script>{text}</script>"


def _style(text: str) -> str:
    return text.replace("</style", "<\\/style")
