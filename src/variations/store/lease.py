"""Leases: a file with a heartbeat in a run's folder, so that no two processes ever execute the same run.

A lease is a file `lease-<n>.json`; the one with the highest number is in force. A process that wants the run creates
the next number with `link`, which succeeds for one process only (also on network file systems, which may lack locks).
It then checks whether a higher number has appeared meanwhile, and if so withdraws. The highest file is never deleted,
not even when the lease is released, so numbers only grow and no process can take an old one by mistake.

Taking a lease over fences the former holder off (see fence.py) before the new one reads anything.

The holder increments `beat` in its file. A lease is free when it was released; when its holder was a process of this
machine that has ended; when the pool it was queued in knows no such job; or when an observer has seen no beat for
`seconds` by its own clock. Clocks of different machines are never compared. In a copy of a folder, whose holder works
on the original, only the last of these counts.
"""

import json
import os
import re
import secrets
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import UTC, datetime
from pathlib import Path

from variations.store import fence
from variations.store.atomic import flush, json_text, linked, make_folder, read_regular, write_json
from variations.store.process_identity import Process
from variations.system.errors import ExitCode, InUseError, TakenOverError, UserError

SECONDS = 60.0
"""A lease is free if it has not been renewed for this long; its holder renews it six times in this time."""
SILENT = 3600.0
"""Readers assume that a holder on another machine is dead if it has written nothing for this long."""
NAME = re.compile(r"lease-(\d+)\.json")
KEY_SECONDS = 3.0
"""How long a run that was started waits for the sweep to record the key under which it was submitted."""

_held: set[str] = set()
"""Tokens of the leases that this process holds; on a full disk, the files may say otherwise."""

Alive = Callable[[str, str], bool | None]
"""From a pool's name and a key: whether that job is queued or running, None if unknown."""


@dataclass(frozen=True)
class Record:
    """The contents of a lease's file."""

    number: int
    state: str
    """`queued`: a sweep has submitted the run, or is about to; `running`; `released`."""
    token: str = ""
    pid: int = 0
    host: str = "an unknown host"
    place: str = ""
    born: int = 0
    pool: str | None = None
    key: str | None = None
    since: str = "an unknown time"
    beat: int = 0
    seconds: float = SECONDS
    folder: str = ""
    """The run's folder, by device and inode: a copy has others."""

    def is_copy(self, folder: Path) -> bool:
        """Whether the lease was copied with its folder, so that its holder does not work on this one."""
        return self.folder not in ("", _identity(folder))

    @property
    def name(self) -> str:
        """Number and token, by which the holder's fence is called."""
        return f"{self.number}-{self.token}"

    @property
    def process(self) -> Process:
        """The holder."""
        return Process(self.pid, self.host, self.place, self.born)

    def who(self) -> str:
        """Describe the holder."""
        return f"process {self.pid} on {self.host} since {self.since}"


def read(folder: Path) -> Record | None:
    """Return the lease in force, or the last one; None if there has been none."""
    while True:
        numbers = _numbers(folder)
        if not numbers:
            return None
        try:
            return _record(max(numbers), read_regular(folder / f"lease-{max(numbers)}.json"))
        except FileNotFoundError:
            continue  # a higher number has replaced it
        except ValueError:
            return Record(max(numbers), "running")  # damaged, as below


def _record(number: int, text: str) -> Record:
    known = {item.name for item in fields(Record)} - {"number"}
    try:
        stored = json.loads(text)
        return Record(number, **{key: value for key, value in stored.items() if key in known})
    except (ValueError, TypeError, AttributeError):  # damaged: held until it has not been renewed for long enough
        return Record(number, "running")


def _identity(folder: Path) -> str:
    try:
        found = folder.stat()
    except OSError:  # deleted meanwhile
        return ""
    return f"{found.st_dev}:{found.st_ino}"


def _numbers(folder: Path) -> list[int]:
    try:
        names = [path.name for path in folder.iterdir()]
    except (FileNotFoundError, NotADirectoryError):
        return []
    return [int(match[1]) for match in map(NAME.fullmatch, names) if match]


def silent(folder: Path, *others: Path) -> bool:
    """Return whether the lease of a run is unheld, or its holder has not written for SILENT seconds; for readers only.

    This reads the times of files, which another machine's clock may have set, so it never decides whether the lease
    may be taken over.

    Args:
        folder: The run's folder.
        others: Further files that the holder writes.
    """
    record = read(folder)
    if record is not None:
        if record.state == "released":
            return True
        if (alive := record.process.alive()) is not None and not record.is_copy(folder):
            return not alive
    files = [*others, *([] if record is None else [folder / f"lease-{record.number}.json"])]
    times = [path.stat().st_mtime for path in files if path.exists()]
    return not times or time.time() - max(times) > SILENT


def copied(folder: Path) -> bool:
    """Return whether the lease was copied with its folder, as `Record.is_copy` says; for readers only."""
    try:
        record = read(folder)
    except OSError:  # of another user
        return False
    return record is not None and record.is_copy(folder)


def waits(folder: Path) -> bool:
    """Return whether a run waits in a queue, as the sweep that submitted it, or its job, has written; for readers only.

    Slurm keeps the run when its sweep has ended, and may have dropped it since.
    """
    try:
        record = read(folder)
    except OSError:  # of another user
        return False
    if record is None or record.state != "queued" or record.is_copy(folder):
        return False
    return (record.pool == "slurm" and record.key is not None) or record.process.alive() is True


class Lease:
    """A lease that this process holds."""

    def __init__(self, folder: Path, record: Record) -> None:
        self.folder, self.record = folder, record

    @classmethod
    def claim(
        cls,
        folder: Path,
        over: Record | None,
        state: str,
        *,
        pool: str | None = None,
        key: str | None = None,
        seconds: float = SECONDS,
    ) -> "Lease | None":
        """Take the lease in place of `over`, what `read` returned and the caller judged free.

        Returns:
            The lease, or None if another process was quicker.

        Raises:
            UserError: the folder cannot be made or written.
        """
        with writing(folder):
            make_folder(folder)
        process = Process.of()
        since = datetime.now(UTC).isoformat(timespec="seconds")
        number = 1 if over is None else over.number + 1
        who = {"pid": process.pid, "host": process.host, "place": process.place, "born": process.born}
        who["folder"] = _identity(folder)
        record = Record(number, state, secrets.token_hex(8), **who, pool=pool, key=key, since=since, seconds=seconds)  # type: ignore[arg-type]
        lease = cls(folder, record)
        with writing(folder):
            made = lease._make()
        if not made:
            return None
        if state == "running":
            with writing(folder):
                fence.build(folder, record.name)
        if not lease.held():  # checked last: a later claimant finds our fence and removes it
            fence.leave(folder, record.name)
            lease.path.unlink(missing_ok=True)
            return None
        _held.add(record.token)
        for lower in _numbers(folder):
            if lower < number:
                (folder / f"lease-{lower}.json").unlink(missing_ok=True)
        return lease

    @property
    def path(self) -> Path:
        """The lease's file."""
        return self.folder / f"lease-{self.record.number}.json"

    def held(self) -> bool:
        """Return whether this lease is still in force; one of its number in a recreated folder does not count."""
        found = read(self.folder)
        return found is not None and found.number == self.record.number and found.token in ("", self.record.token)

    def beat(self, *, key: str | None = None) -> bool:
        """Renew the lease, and record the pool's key if given; False if the lease was taken over."""
        if not self.held():
            return False
        self.record = replace(self.record, beat=self.record.beat + 1, key=key or self.record.key)
        try:
            self._write()
        except TakenOverError:
            return False
        return True

    def release(self) -> None:
        """Release the lease if it is still in force."""
        _held.discard(self.record.token)
        try:
            if self.held():
                self.record = replace(self.record, state="released")
                with suppress(TakenOverError):  # meanwhile
                    self._write()
        finally:
            fence.leave(self.folder, self.record.name)

    def _write(self) -> None:
        write_json(self.path, self._content())

    def _content(self) -> dict[str, object]:
        return {key: value for key, value in asdict(self.record).items() if key != "number"}

    def _make(self) -> bool:
        """Create the complete file, unless there is one with that number."""
        temporary = self.folder / f".lease.{os.getpid()}-{self.record.token}.tmp"
        text = json_text(self._content()) + "\n"
        try:
            temporary.write_text(text, encoding="utf-8")
            flush(temporary)  # after a power cut, an empty lease would count as held until it expired
            made = linked(temporary, self.path)
            return self._make_without_links(text) if made is None else made
        finally:
            temporary.unlink(missing_ok=True)

    def _make_without_links(self, text: str) -> bool:
        """The same without links; a reader that finds the file still empty assumes that the lease is held."""
        try:
            with self.path.open("x", encoding="utf-8") as file:
                try:
                    file.write(text)
                    file.flush()
                except OSError:
                    self.path.unlink()
                    raise
        except FileExistsError:
            return False
        return True


@dataclass
class Watch:
    """Observes the leases of other processes: when each was last renewed, by this process's own clock."""

    alive: Alive = lambda pool, key: None
    clock: Callable[[], float] = field(default_factory=lambda: time.monotonic)
    seen: dict[Path, tuple[str, int, float]] = field(default_factory=dict)

    def free(self, folder: Path, record: Record | None) -> bool | None:
        """Return whether a lease may be taken over; None: not known yet, call again."""
        if record is None or record.state == "released":
            return True
        if record.process == Process.of() and record.token not in _held:
            return True
        process_alive = record.process.alive()
        if record.is_copy(folder) and (process_alive is not False or record.state != "running"):
            return self._silent(folder, record)
        if record.state == "running" and process_alive is not None:
            return not process_alive
        job_alive = self.alive(record.pool, record.key) if record.pool and record.key else None
        if job_alive is not None:
            return not job_alive
        if process_alive is not None:  # the sweep that queued the run
            return not process_alive
        return self._silent(folder, record)

    def _silent(self, folder: Path, record: Record) -> bool | None:
        now = self.clock()
        before = self.seen.get(folder)
        if before is None or before[:2] != (record.token, record.beat):
            self.seen[folder] = (record.token, record.beat, now)
            return None if before is None else False
        return True if now - before[2] > record.seconds else None


@contextmanager
def hold(
    folder: Path, *, seconds: float = SECONDS, key: str | None = None, over: Lease | None = None
) -> Iterator[Lease]:
    """Hold the lease of a run while it is executed or copied, and renew it in the background.

    Args:
        folder: The run's folder.
        seconds: How long others must wait after the last renewal.
        key: A sweep's pool has started this process under this key: it may take over a lease in state `queued` that has
            the key.
        over: This process's lease in state `queued`, which is replaced.

    Raises:
        InUseError: another process holds the lease; the sentence names it.
    """
    lease = _take(folder, seconds, key, over)
    stop = threading.Event()
    heart = threading.Thread(target=_beat, args=(lease, seconds / 6, stop), name="lease", daemon=True)
    heart.start()
    try:
        yield lease
    finally:
        stop.set()
        heart.join()
        try:
            lease.release()
        except OSError as error:  # a full disk; others can see that this process has ended
            print(f"Cannot write {lease.path}: {error}", file=sys.stderr)


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Hold the lease of a run for a moment, unless this process holds it already.

    Raises:
        InUseError: another process holds the lease; the message names it.
    """
    record = read(folder)
    if record is not None and record.token in _held:
        yield
        return
    with hold(folder):
        yield


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Raise UserError if the run's folder cannot be made or written."""
    try:
        yield
    except OSError as error:
        raise UserError(
            f"the run's folder {folder} cannot be made or written ({error.strerror}): choose another place with "
            "runs=DIR."
        ) from error


def _take(folder: Path, seconds: float, key: str | None, over: Lease | None) -> Lease:
    watch, told = Watch(), False
    deadline = time.monotonic() + KEY_SECONDS
    while True:
        record = read(folder)
        mine = key is not None and record is not None and record.state == "queued" and record.key in (key, None)
        if mine and record is not None and record.key is None and time.monotonic() < deadline:
            time.sleep(0.05)  # the sweep has not written the key yet
            continue
        own = over is not None and record is not None and record.token == over.record.token
        free = True if mine or own else watch.free(folder, record)
        if free:
            facts = {"pool": record.pool, "key": key} if mine and record is not None else {}
            lease = Lease.claim(folder, record, "running", seconds=seconds, **facts)
            if lease is not None:
                return lease
        elif record is not None and free is False:
            raise InUseError(f"{folder} is in use by {record.who()}: wait for it to end, or stop it.")
        elif record is not None and not told:
            told = True
            print(
                f"Waiting up to {record.seconds:.0f} s to see whether {record.who()} is still running …",
                file=sys.stderr,
            )
        time.sleep(0.05 if free else min(1.0, seconds / 6))


def _beat(lease: Lease, every: float, stop: threading.Event) -> None:
    while not stop.wait(every):
        try:
            held = lease.beat()
        except OSError:  # a full disk, or a file system that is briefly unavailable: the next renewal may succeed
            continue
        if not held:
            what, code = "was taken over, because this process did not renew its lease in time", ExitCode.HELD
            if not lease.folder.exists():
                what, code = "was deleted while this process was using it", ExitCode.FAILED
            sys.stderr.write(f"error: {lease.folder} {what}.\n")
            sys.stderr.flush()
            os._exit(code)  # at once and without writing: the folder may belong to another process by now
