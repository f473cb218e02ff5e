"""A disk in memory that replaces the functions of `os`, `io` and `shutil` used by pathlib and the run store.

    disk = Disk(host)
    with disk.mounted(): Path("/simulated/run").mkdir()

Paths below ROOT belong to this disk; all others go to the real functions. The host is called before each operation that
others can see, so that it may let another process go first, and after each change. The disk keeps possibly stale folder
listings for each machine, as network file systems do; entries that a machine changes itself or does not find are looked
up anew.
"""

import errno
import io
import itertools
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

ROOT = "/simulated"
FIRST_DESCRIPTOR = 1_000_000
DEVICE = 77


class Host(Protocol):
    """The user of the disk."""

    def point(self) -> None:
        """Run before each operation that others can see."""

    def changed(self, path: str) -> None:
        """Run after a name is added to or removed from a file."""

    def now(self) -> float:
        """Return the time for file timestamps."""

    def listings(self) -> "dict[int, tuple[float, list[str]]] | None":
        """Return the current machine's cached listings and their times by folder number; None: it caches nothing."""


class Node:
    """A file or folder, independent of its names."""

    __slots__ = ("data", "modified", "names", "number")

    def __init__(self, number: int, modified: float, *, folder: bool = False) -> None:
        self.number, self.modified = number, modified
        self.names: dict[str, Node] | None = {} if folder else None
        self.data = bytearray()


class File:
    """An open file."""

    def __init__(self, disk: "Disk", node: Node, mode: str) -> None:
        self.disk, self.node, self.text = disk, node, "b" not in mode
        self.place = len(node.data) if "a" in mode else 0
        self.mode = mode

    def __enter__(self) -> "File":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def read(self, size: int = -1) -> Any:
        end = len(self.node.data) if size < 0 else self.place + size
        found = bytes(self.node.data[self.place : end])
        self.place += len(found)
        return found.decode() if self.text else found

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self.place = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self.place, os.SEEK_END: len(self.node.data)}[whence]
        return self.place

    def write(self, content: Any) -> int:
        self.disk.host.point()
        data = content.encode() if isinstance(content, str) else bytes(content)
        if "a" in self.mode:
            self.place = len(self.node.data)
        self.node.data[self.place : self.place + len(data)] = data
        self.place += len(data)
        self.node.modified = self.disk.host.now()
        return len(content)

    def truncate(self, size: int) -> int:
        del self.node.data[size:]
        return size

    def fileno(self) -> int:
        return self.disk.descriptor(self.node)

    def flush(self) -> None:
        """Do nothing, as nothing is buffered."""

    close = flush


class Entry:
    """A name in a listing, as returned by `os.scandir`."""

    def __init__(self, name: str, node: Node | None) -> None:
        self.name, self._folder = name, node is not None and node.names is not None

    def is_dir(self) -> bool:
        return self._folder


class Listing(list[Entry]):
    """The result of `os.scandir`."""

    def __enter__(self) -> "Listing":
        return self

    def __exit__(self, *_: object) -> None:
        """Do nothing, as nothing is open."""


class Disk:
    """Folders and files by name; the folder ROOT exists from the start."""

    remembered = 30.0
    """The maximum age of a cached listing in seconds."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.top = Node(1, 0.0, folder=True)
        self._last, self._open = 1, dict[int, Node]()
        self._descriptors = itertools.count(FIRST_DESCRIPTOR)

    # Finding --------------------------------------------------------------------------------------------------------

    def node(self, path: str) -> Node:
        """Return the node at `path`."""
        node, above = self.top, self.top
        for part in path[len(ROOT) :].split("/"):
            if not part:
                continue
            if node.names is None:
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
            above, found = node, node.names.get(part)
            if found is None:
                self._forget(above)
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
            node = found
        return node

    def _place(self, path: str) -> tuple[dict[str, Node], str, Node]:
        head, _, name = path.rstrip("/").rpartition("/")
        above = self.node(head)
        if above.names is None:
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
        return above.names, name, above

    def _forget(self, folder: Node) -> None:
        listings = self.host.listings()
        if listings is not None:
            listings.pop(folder.number, None)

    def _changed(self, folder: Node, path: str) -> None:
        folder.modified = self.host.now()
        self._forget(folder)
        self.host.changed(path)

    def _new(self, *, folder: bool = False) -> Node:
        self._last += 1
        return Node(self._last, self.host.now(), folder=folder)

    def descriptor(self, node: Node) -> int:
        """Return a descriptor for an open file."""
        number = next(self._descriptors)
        self._open[number] = node
        return number

    def names(self, path: str) -> list[str]:
        """Return a folder's names as the current machine sees them."""
        self.host.point()
        folder = self.node(path)
        if folder.names is None:
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
        listings, now = self.host.listings(), self.host.now()
        if listings is None:
            return list(folder.names)
        since, found = listings.get(folder.number, (float("-inf"), []))
        if now - since > self.remembered:
            found = list(folder.names)
            listings[folder.number] = (now, found)
        return list(found)

    # Functions of `os`, `io`, `shutil` ----------------------------------------------------------------------------

    def stat(self, path: Any, **_: Any) -> os.stat_result:
        return self._facts(self.node(path))

    def fstat(self, descriptor: int) -> os.stat_result:
        return self._facts(self._open[descriptor])

    def _facts(self, node: Node) -> os.stat_result:
        kind = stat.S_IFREG if node.names is None else stat.S_IFDIR
        time = node.modified
        return os.stat_result((kind | 0o700, node.number, DEVICE, 1, 0, 0, len(node.data), time, time, time))

    def listdir(self, path: str) -> list[str]:
        return self.names(path)

    def scandir(self, path: str) -> Listing:
        found, there = self.names(path), self.node(path).names or {}
        return Listing(Entry(name, there.get(name)) for name in found)

    def mkdir(self, path: str, mode: int = 0o777) -> None:
        self.host.point()
        names, name, folder = self._place(path)
        if name in names:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
        names[name] = self._new(folder=True)
        self._changed(folder, path)

    def unlink(self, path: str) -> None:
        self.host.point()
        names, name, folder = self._place(path)
        self.node(path)
        del names[name]
        self._changed(folder, path)

    def rmtree(self, path: Any, ignore_errors: bool = False) -> None:
        self.host.point()
        try:
            names, name, folder = self._place(path)
            self.node(path)
        except OSError:
            if ignore_errors:
                return
            raise
        del names[name]
        self._changed(folder, path)

    def replace(self, source: str, target: Any) -> None:
        self.host.point()
        before, name, former = self._place(source)
        self.node(source)
        after, new_name, folder = self._place(os.fspath(target))
        after[new_name] = before.pop(name)
        self._forget(former)
        self._changed(folder, os.fspath(target))

    def link(self, source: str, target: Any) -> None:
        self.host.point()
        names, name, folder = self._place(os.fspath(target))
        if name in names:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), os.fspath(target))
        names[name] = self.node(source)
        self._changed(folder, os.fspath(target))

    def open(self, path: str, mode: str = "r", *_: Any, **__: Any) -> File:
        self.host.point()
        if "r" in mode:
            node = self.node(path)
        else:
            names, name, folder = self._place(path)
            if name in names and "x" in mode:
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
            if name not in names:
                names[name] = self._new()
                self._changed(folder, path)
            elif "w" in mode:
                names[name].data.clear()
            node = names[name]
        if node.names is not None:
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        return File(self, node, mode)

    def os_open(self, path: str, flags: int, *_: Any) -> int:
        self.host.point()
        return self.descriptor(self.node(path))

    def fdopen(self, descriptor: int, mode: str = "r", *_: Any) -> File:
        return File(self, self._open[descriptor], mode)

    @contextmanager
    def mounted(self) -> Iterator[None]:
        """Replace the real functions."""
        by_path: list[tuple[Any, str, Callable[..., Any]]] = [
            *((os, name, getattr(self, name)) for name in ("listdir", "scandir", "mkdir", "unlink", "replace", "link")),
            *((os, name, self.stat) for name in ("stat", "lstat")),
            (os, "rename", self.replace),
            (os, "open", self.os_open),
            (io, "open", self.open),
            (shutil, "rmtree", self.rmtree),
            (os.path, "realpath", lambda path, **_: path),
        ]
        by_number: dict[str, Callable[..., Any]] = {
            "fstat": self.fstat,
            "fdopen": self.fdopen,
            "fsync": lambda _: self.host.point(),
            "close": lambda number: self._open.pop(number, None),
        }
        changes: dict[Any, dict[str, Any]] = {os: {}, io: {}, shutil: {}, os.path: {}}
        for module, name, act in by_path:
            changes[module][name] = _for_path(getattr(module, name), act)
        for name, act in by_number.items():
            changes[os][name] = _for_number(getattr(os, name), act)
        with replaced(changes):
            yield


@contextmanager
def replaced(changes: dict[Any, dict[str, Any]]) -> Iterator[None]:
    """Replace attributes of modules and classes temporarily. (`unittest.mock` takes a millisecond for so many.)"""
    former = [(target, name, vars(target)[name]) for target, names in changes.items() for name in names]
    try:
        for target, names in changes.items():
            for name, value in names.items():
                setattr(target, name, value)
        yield
    finally:
        for target, name, value in former:
            setattr(target, name, value)


def _for_path(real: Callable[..., Any], act: Callable[..., Any]) -> Callable[..., Any]:
    def call(path: Any = ".", *rest: Any, **options: Any) -> Any:
        text = path if isinstance(path, str) else os.fspath(path) if isinstance(path, Path) else None
        return (
            real(path, *rest, **options) if text is None or not text.startswith(ROOT) else act(text, *rest, **options)
        )

    return call


def _for_number(real: Callable[..., Any], act: Callable[..., Any]) -> Callable[..., Any]:
    def call(number: Any, *rest: Any, **options: Any) -> Any:
        if not isinstance(number, int):
            number = number.fileno()
        return (real if number < FIRST_DESCRIPTOR else act)(number, *rest, **options)

    return call
