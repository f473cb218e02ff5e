"""A layer over the real disk that records writes, loses unflushed data, and fails on demand.

    with recorded(folder) as events: ...        # each write, flush, name added or removed below `folder`
    rebuild(events[:k], folder, elsewhere, rng)  # a possible state after event k and a power cut
    with failing(folder, at=n, error=errno.ENOSPC): ...

A power cut may do anything that POSIX allows, not just what one file system does. In each file, data written after the
last flush may be lost, truncated, or zeroed. In each folder, every name added or removed after the last flush may
independently revert; only a rename never loses both names. A folder whose own name is lost is lost with all its
contents.
"""

import builtins
import errno
import io
import itertools
import mmap
import os
import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest


@dataclass(frozen=True)
class Event:
    """`write` of data at a file offset, `cut` of a file to a size, `flush` of a file or folder, name `added` or
    `gone`; also `create` and `rename`, just before they happen."""

    kind: str
    node: int = 0
    """The number of the file; for a name, of the file that it names."""
    path: str = ""
    offset: int = 0
    data: bytes = b""
    folder: bool = False
    before: str = ""
    """For a name added by a rename: the former name."""


class _Disk:
    def __init__(self, root: Path, on: Callable[[Event], None]) -> None:
        self.root, self.on = os.path.realpath(root), on
        self._nodes: dict[int, int] = {}
        self._count = itertools.count(1)

    def node(self, inode: int, *, new: bool = False) -> int:
        """Return our own number for a file, since the system reuses inode numbers of deleted files."""
        if new or inode not in self._nodes:
            self._nodes[inode] = next(self._count)
        return self._nodes[inode]

    def inside(self, path: Any, dir_fd: int | None = None) -> str | None:
        """Return the real path if it is below the root, without resolving a link in the last component."""
        if isinstance(path, int):
            return None
        text = os.fspath(path)
        text = text.decode() if isinstance(text, bytes) else text
        if dir_fd is not None:
            text = os.path.join(os.readlink(f"/proc/self/fd/{dir_fd}"), text)
        whole = os.path.join(os.path.realpath(os.path.dirname(os.path.abspath(text))), os.path.basename(text))
        return whole if whole.startswith(self.root + os.sep) or whole == self.root else None


class _File(io.FileIO):
    """An unbuffered file that reports its writes."""

    def __init__(self, disk: _Disk, path: str, mode: str) -> None:
        new = not os.path.exists(path)
        if new:
            disk.on(Event("create", path=path))
        super().__init__(path, mode)
        self.disk, self.where = disk, path
        self.node = disk.node(os.fstat(self.fileno()).st_ino, new=new)
        if new:
            disk.on(Event("added", self.node, path))
        elif "w" in mode:
            disk.on(Event("cut", self.node))

    def write(self, data: Any) -> int:
        content = bytes(data)
        offset = os.fstat(self.fileno()).st_size if "a" in self.mode else self.tell()
        self.disk.on(Event("write", self.node, self.where, offset, content))
        return super().write(content)

    def truncate(self, size: int | None = None) -> int:
        size = self.tell() if size is None else size
        self.disk.on(Event("cut", self.node, offset=size))
        return super().truncate(size)


@contextmanager
def watched(root: Path, on: Callable[[Event], None]) -> Iterator[None]:
    """Report each event below `root` to `on` before it happens (new files and names: immediately after)."""
    disk, real_open = _Disk(root, on), io.open
    real = {
        name: getattr(os, name) for name in ("replace", "rename", "link", "unlink", "remove", "mkdir", "rmdir", "fsync")
    }

    def opened(file: Any, mode: str = "r", buffering: int = -1, *text: Any, **options: Any) -> Any:
        """Open a file. `text`: encoding, errors and newline, which `open` also accepts by position."""
        path = disk.inside(file)
        if path is None or not set(mode) & set("wax+"):
            return real_open(file, mode, buffering, *text, **options)
        raw = _File(disk, path, mode.replace("b", "").replace("t", "") + "b")
        if buffering == 0:
            return raw
        buffered: Any = io.BufferedRandom(raw) if "+" in mode else io.BufferedWriter(raw)
        return buffered if "b" in mode else io.TextIOWrapper(buffered, *text, **options)

    def renamed(name: str) -> Callable[..., None]:
        def call(source: Any, target: Any, **options: Any) -> None:
            before, after = disk.inside(source), disk.inside(target)
            if before is None or after is None:
                return real[name](source, target, **options)
            on(Event("rename", path=after, before=before))
            node, folder = disk.node(os.stat(source).st_ino), os.path.isdir(source)
            real[name](source, target, **options)
            on(Event("added", node, after, folder=folder, before="" if name == "link" else before))
            return None

        return call

    def removed(name: str) -> Callable[..., None]:
        def call(path: Any, *, dir_fd: int | None = None) -> None:
            real[name](path, dir_fd=dir_fd)
            if where := disk.inside(path, dir_fd):
                on(Event("gone", path=where))

        return call

    def mkdir(path: Any, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        where = disk.inside(path, dir_fd)
        if where and not os.path.exists(where):
            on(Event("create", path=where))
        real["mkdir"](path, mode, dir_fd=dir_fd)
        if where:
            on(Event("added", path=where, folder=True))

    def fsync(descriptor: Any) -> None:
        number = descriptor if isinstance(descriptor, int) else descriptor.fileno()
        where = disk.inside(os.readlink(f"/proc/self/fd/{number}"))
        if where:
            on(Event("flush", disk.node(os.fstat(number).st_ino), where, folder=os.path.isdir(where)))
        real["fsync"](descriptor)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(io, "open", opened)
        patch.setattr(builtins, "open", opened)
        for name in ("replace", "rename", "link"):
            patch.setattr(os, name, renamed(name))
        for name in ("unlink", "remove", "rmdir"):
            patch.setattr(os, name, removed(name))
        patch.setattr(os, "mkdir", mkdir)
        patch.setattr(os, "fsync", fsync)
        patch.setattr(shutil, "_USE_CP_SENDFILE", False)
        yield


@contextmanager
def recorded(root: Path) -> Iterator[list[Event]]:
    """Collect everything that reaches the disk below `root`."""
    events: list[Event] = []
    with watched(root, lambda event: events.append(event) if event.kind not in ("create", "rename") else None):
        yield events


class Operations:
    """The number of operations so far that a disk may refuse, in this process and its forks."""

    def __init__(self) -> None:
        self._count = mmap.mmap(-1, 8)  # shared by forked processes

    def __len__(self) -> int:
        return int.from_bytes(self._count[:], "little")

    def add(self) -> int:
        """Count an operation and return its number, from 1."""
        self._count[:] = (len(self) + 1).to_bytes(8, "little")
        return len(self)


@contextmanager
def failing(root: Path, *, at: int, error: int, for_ever: bool = True) -> Iterator[Operations]:
    """Make the `at`-th operation below `root` that a disk may refuse fail, and all later ones if `for_ever`.

    Deleting always works, and so does renaming on a full disk. Yields the operations so far.
    """
    refusable = {"write", "create"} if error == errno.ENOSPC else {"write", "create", "flush", "rename"}
    done = Operations()

    def on(event: Event) -> None:
        if event.kind not in refusable:
            return
        number = done.add()
        if number == at or (for_ever and number > at):
            raise OSError(error, os.strerror(error), event.path)

    with watched(root, on):
        yield done


@dataclass
class _Node:
    """A file's contents: the flushed bytes and the events since."""

    certain: bytearray = field(default_factory=bytearray)
    pending: list[Event] = field(default_factory=list)

    def after_a_cut(self, rng: random.Random) -> bytes:
        """Return contents that a power cut may leave."""
        how = rng.choice(["kept", "lost", "torn", "zeroed"])
        if how == "lost":
            return bytes(self.certain)
        events = list(self.pending)
        if how == "torn" and events:
            events = events[: rng.randrange(len(events)) + 1]
            last = events.pop()
            cut = rng.randrange(len(last.data) + 1)
            events.append(Event(last.kind, last.node, last.path, last.offset, last.data[:cut]))
        content = bytearray(self.certain)
        for event in events:
            _apply(content, event, zeroed=how == "zeroed")
        return bytes(content)


def _apply(content: bytearray, event: Event, *, zeroed: bool = False) -> None:
    if event.kind == "cut":
        del content[event.offset :]
        return
    end = event.offset + len(event.data)
    content.extend(bytes(max(0, end - len(content))))
    content[event.offset : end] = bytes(len(event.data)) if zeroed else event.data


def rebuild(events: list[Event], root: Path, target: Path, rng: random.Random) -> None:
    """Create in `target` a state that a power cut after `events` may leave of `root`."""
    nodes: dict[int, _Node] = {}
    names: list[tuple[Event, bool]] = []  # with whether the name is flushed
    for event in events:
        if event.kind in ("write", "cut"):
            nodes.setdefault(event.node, _Node()).pending.append(event)
        elif event.kind == "flush" and not event.folder:
            node = nodes.setdefault(event.node, _Node())
            for pending in node.pending:
                _apply(node.certain, pending)
            node.pending.clear()
        elif event.kind == "flush":
            names = [(name, sure or os.path.dirname(name.path) == event.path) for name, sure in names]
        else:
            names.append((event, False))
    folders, files = {os.path.realpath(root)}, dict[str, int]()
    for event, sure in names:
        if not sure and rng.random() < 0.5:
            continue
        if event.kind == "gone":
            folders.discard(event.path)
            files.pop(event.path, None)
        elif event.folder:
            folders.add(event.path)
        else:
            files[event.path] = event.node
            if event.before and rng.random() < 0.5:  # the former name may stay until its folder is flushed
                files.pop(event.before, None)
    start = os.path.realpath(root)
    for path, node in sorted(files.items()):
        place, above = Path(path).parent, True
        while str(place) != start and above:
            above, place = str(place) in folders, place.parent
        if above:
            copy = target / os.path.relpath(path, start)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(nodes.setdefault(node, _Node()).after_a_cut(rng))
