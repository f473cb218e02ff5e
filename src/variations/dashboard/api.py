"""Routes from paths to payloads; expensive payloads are cached until the store changes."""

import gc
import hashlib
import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar
from urllib.parse import unquote

from variations.dashboard import sweeps
from variations.dashboard.metrics import AXES
from variations.dashboard.store import Store, revision, texts_stamp
from variations.dashboard.walk import Found
from variations.store.atomic import plain
from variations.store.row_files import files_stamp
from variations.system.errors import UserError

T = TypeVar("T")

MOST_COMPARED = 12
"""Largest number of runs side by side; more do not fit on a screen."""
KEPT = 32
"""Largest number of cached payloads."""


class MissingError(UserError):
    """There is no such payload."""


class Api:
    """Payloads of one store."""

    def __init__(self, store: Store, *, sweep: str | None = None) -> None:
        self.store = store
        self.sweep = sweep
        self._kept: dict[tuple[str, ...], tuple[str, bytes]] = {}
        self._locks: dict[tuple[str, ...], threading.Lock] = {}
        self._lock = threading.Lock()

    def answer(self, path: str, query: Mapping[str, str] | None = None) -> bytes:
        """The payload of `path` (below /api/, still percent-encoded) as JSON.

        Raises:
            MissingError: There is no such payload.
            UserError: The request or the stored files are invalid.
        """
        query = query or {}
        name, *rest = (segment(part) for part in path.split("/"))
        if name == "index" and not rest:
            return document(sweeps.index(self.store, sweep=self.sweep))
        if name == "curves" and not rest:
            return self._curves(query)
        if name == "compare" and not rest:
            return self._compare(query.get("ids", ""))
        if name == "sweep" and rest:
            return self._sweep("/".join(rest), significance=query.get("significance", "") not in ("", "0", "false"))
        if name == "importance" and rest:
            return self._importance("/".join(rest))
        if name in _OF_RUNS and rest:
            return self._of_run(name, "/".join(rest), query)
        raise MissingError(f"There is no /api/{path}.")

    def _sweep(self, name: str, *, significance: bool) -> bytes:
        runs = self._present(name, self.store.sweep)
        return self._cached(
            ("sweep", name, str(significance)),
            f"{revision(runs)} {files_stamp()} {texts_stamp(runs)}",
            lambda: document(self._present(name, lambda _: sweeps.sweep(self.store, name, significance=significance))),
        )

    def _present(self, name: str, look: Callable[[str], T]) -> T:
        """What `look` finds of a sweep; it raises KeyError if the sweep is missing, or has been deleted meanwhile."""
        try:
            return look(name)
        except KeyError:
            if name in self.store.snapshot(fresh=True).sweeps:
                raise
            raise MissingError(f"The run store has no sweep {name!r}.") from None

    def _importance(self, name: str) -> bytes:
        from variations.dashboard.importance import importance

        table = self._sweep(name, significance=False)
        stamp = hashlib.sha256(table).hexdigest()
        return self._cached(("importance", name), stamp, lambda: document(importance(json.loads(table))))

    def _of_run(self, name: str, identifier: str, query: Mapping[str, str]) -> bytes:
        run = self._find(identifier)
        if name == "curves":
            points = query.get("points")
            if points is not None and not (re.fullmatch(r"[0-9]{1,7}", points) and 2 <= int(points) <= 1_000_000):
                raise UserError(f"points={points[:20]}: must be a whole number between 2 and 1,000,000.")
            return document(_OF_RUNS[name](self.store, run, int(points) if points else None))
        return document(_OF_RUNS[name](self.store, run))

    def _curves(self, query: Mapping[str, str]) -> bytes:
        names, metrics = listed(query.get("ids", "")), listed(query.get("metrics", ""))
        axis = query.get("x", "step")
        if not names or not metrics:
            raise UserError("Name runs and what they measured: ids=RUN,RUN&metrics=KEY,KEY.")
        if axis not in AXES:
            raise UserError(f"x={axis}: must be one of {', '.join(AXES)}.")
        from variations.dashboard.runs import curves_of

        return document(curves_of(self.store, names, metrics, axis))

    def _find(self, identifier: str) -> Found:
        try:
            return self.store.find(identifier)
        except KeyError:
            raise MissingError(f"The run store has no run {identifier!r}.") from None

    def _compare(self, ids: str) -> bytes:
        names = listed(ids)
        if not 2 <= len(names) <= MOST_COMPARED:
            raise UserError(f"Compare 2 to {MOST_COMPARED} runs with ids=RUN,RUN; {len(names)} were given.")
        runs = [self._find(name) for name in names]
        from variations.dashboard.compare import compare

        stamp = f"{revision(runs)} {texts_stamp(runs)}"
        return self._cached(("compare", *names), stamp, lambda: document(compare(self.store, runs)))

    def _cached(self, key: tuple[str, ...], stamp: str, make: Callable[[], bytes]) -> bytes:
        """The result of `make` for this stamp, cached; concurrent requests wait for the first."""
        with self._lock:
            lock = self._locks.setdefault(key, threading.Lock())
        with lock:
            known = self._kept.get(key)
            if known is not None and known[0] == stamp:
                return known[1]
            with uncollected():
                made = make()
                self.store.keep()
            with self._lock:
                self._kept.pop(key, None)
                self._kept[key] = (stamp, made)
                while len(self._kept) > KEPT:
                    oldest = next(iter(self._kept))
                    del self._kept[oldest]
                    held = self._locks.get(oldest)  # missing if it was deleted while its request was about to take it
                    if held is not None and not held.locked():
                        del self._locks[oldest]
            return made


@contextmanager
def uncollected() -> Iterator[None]:
    """No search for cycles of references: the facts of thousands of runs stay, and each search looks at all of them."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def segment(text: str) -> str:
    """One decoded part of a path. Raises MissingError if it is empty or dots, or contains slashes or control signs."""
    decoded = unquote(text, errors="replace")
    if decoded in ("", ".", "..") or any(sign in "/\\" or ord(sign) < 32 for sign in decoded):
        raise MissingError("There is no such address.")
    return decoded


def listed(text: str) -> list[str]:
    """What a query lists, separated by commas and still percent-encoded: decoded, each once."""
    return list(dict.fromkeys(unquote(part) for part in text.split(",") if part))


def document(value: Any) -> bytes:
    """Compact JSON in UTF-8; non-finite numbers become null."""
    text = json.dumps(plain(value, finite=True), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.encode("utf-8", "replace")


def _run(*arguments: Any) -> Any:
    from variations.dashboard.runs import run

    return run(*arguments)


def _curves(*arguments: Any) -> Any:
    from variations.dashboard.runs import curves

    return curves(*arguments)


def _branches(*arguments: Any) -> Any:
    from variations.dashboard.runs import branches

    return branches(*arguments)


def _attention(*arguments: Any) -> Any:
    from variations.dashboard.runs import attention

    found = attention(*arguments)
    if found is None:
        raise MissingError("This run has no stored attention maps.")
    return found


def _drawings(*arguments: Any) -> Any:
    from variations.dashboard.runs import drawings

    return drawings(*arguments)


_OF_RUNS: dict[str, Callable[..., Any]] = {
    "run": _run,
    "curves": _curves,
    "branches": _branches,
    "attention": _attention,
    "drawings": _drawings,
}
