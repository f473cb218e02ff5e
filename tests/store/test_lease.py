"""Leases: one process at a time holds a run, in any order of requests; dead and silent holders lose it."""

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from variations.store.lease import Lease, Watch, hold, read, waits
from variations.store.process_identity import Process
from variations.system.errors import InUseError

SRC = str(Path(__file__).parents[2] / "src")


def python(code: str, *arguments: str) -> str:
    environment = os.environ | {"PYTHONPATH": SRC}
    line = [sys.executable, "-c", code, *arguments]
    return subprocess.run(line, capture_output=True, text=True, check=True, env=environment).stdout


def elsewhere(folder: Path, **changes: object) -> Lease:
    """Return a lease held by a process on another machine."""
    lease = Lease.claim(folder, read(folder), "running")
    assert lease is not None
    lease.record = replace(lease.record, place="another machine", host="far", **changes)
    lease.beat()
    return lease


@pytest.mark.slow
def test_a_second_process_is_refused_with_the_holders_name(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from variations.store.lease import hold\n"
        "from variations.system.errors import UserError\n"
        "try:\n    with hold(Path(sys.argv[1])): print('held')\nexcept UserError as error: print(error)\n"
    )
    with hold(tmp_path):
        refused = python(code, str(tmp_path))
    allowed = python(code, str(tmp_path))
    assert f"is in use by process {os.getpid()} on " in refused
    assert allowed == "held\n"


@pytest.mark.slow
def test_of_many_that_want_it_at_once_one_gets_it(tmp_path: Path) -> None:
    for _ in range(20):
        over, barrier, got = read(tmp_path), threading.Barrier(8), []

        def want(over: object = over, barrier: threading.Barrier = barrier, got: list[Lease] = got) -> None:
            barrier.wait()
            lease = Lease.claim(tmp_path, over, "running")  # type: ignore[arg-type]
            if lease is not None:
                got.append(lease)

        threads = [threading.Thread(target=want) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(got) == 1
        assert got[0].held()
    assert sorted(path.name for path in tmp_path.iterdir()) == [f".lease-{got[0].record.name}", "lease-20.json"]


def test_who_is_late_with_an_old_judgement_gets_nothing(tmp_path: Path) -> None:
    judged = elsewhere(tmp_path).record
    quicker = Lease.claim(tmp_path, judged, "running")
    assert quicker is not None
    third = Lease.claim(tmp_path, quicker.record, "running")  # earlier lease files are gone
    assert third is not None
    assert Lease.claim(tmp_path, judged, "running") is None
    assert third.held()
    assert not quicker.beat()
    quicker.release()
    assert read(tmp_path) == third.record


def test_a_dead_process_of_this_machine_holds_nothing(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from variations.store.lease import Lease\n"
        "Lease.claim(Path(sys.argv[1]), None, 'running')\n"
    )
    python(code, str(tmp_path))
    assert Watch().free(tmp_path, read(tmp_path)) is True


def test_a_living_process_of_this_machine_holds_it_however_silent(tmp_path: Path) -> None:
    lease = Lease.claim(tmp_path, None, "running", seconds=1)
    assert lease is not None
    now = [0.0]
    watch = Watch(clock=lambda: now[0])
    assert watch.free(tmp_path, lease.record) is False
    now[0] = 1e6
    assert watch.free(tmp_path, lease.record) is False


def test_in_a_copy_of_a_folder_a_lease_is_free_when_it_has_been_silent(tmp_path: Path) -> None:
    """The holder lives, and renews the lease of the original alone."""
    clock = [0.0]
    folder, copy = tmp_path / "run", tmp_path / "copy"
    assert Lease.claim(folder, None, "running") is not None
    shutil.copytree(folder, copy)
    moved = folder.rename(tmp_path / "moved")
    watch = Watch(clock=lambda: clock[0])
    assert (watch.free(moved, read(moved)), watch.free(copy, read(copy))) == (False, None)
    clock[0] = 61.0
    assert (watch.free(moved, read(moved)), watch.free(copy, read(copy))) == (False, True)


def test_a_number_given_to_another_process_is_not_the_same_process() -> None:
    own = Process.of()
    assert own.alive() is True
    assert replace(own, born=own.born + 1).alive() is False or not sys.platform.startswith("linux")
    assert replace(own, place="another machine").alive() is None
    assert Process.from_key(own.key) == own
    assert Process.from_key("17_3") is None


def test_silence_is_measured_by_the_observers_clock_alone(tmp_path: Path) -> None:
    lease = elsewhere(tmp_path, since="2001-01-01T00:00:00+00:00", seconds=60.0)
    now = [1000.0]
    watch = Watch(clock=lambda: now[0])
    assert watch.free(tmp_path, read(tmp_path)) is None  # first observation: unknown
    now[0] += 59
    assert watch.free(tmp_path, read(tmp_path)) is None
    lease.beat()
    assert watch.free(tmp_path, read(tmp_path)) is False
    now[0] += 59
    assert watch.free(tmp_path, read(tmp_path)) is None
    now[0] += 2
    assert watch.free(tmp_path, read(tmp_path)) is True


@pytest.mark.parametrize(("alive", "free"), [(True, False), (False, True)])
def test_the_pool_knows_better_than_the_clock(alive: bool, free: bool, tmp_path: Path) -> None:
    elsewhere(tmp_path, pool="slurm", key="17_3")
    watch = Watch(alive=lambda pool, key: alive if (pool, key) == ("slurm", "17_3") else None)
    assert watch.free(tmp_path, read(tmp_path)) is free


def test_a_started_run_takes_the_lease_that_its_sweep_has_queued_and_its_key(tmp_path: Path) -> None:
    queued = Lease.claim(tmp_path, None, "queued", pool="slurm")
    assert queued is not None
    with pytest.raises(InUseError):
        hold(tmp_path).__enter__()
    threading.Timer(0.3, lambda: queued.beat(key="17_3")).start()
    with pytest.raises(InUseError):  # started by another sweep
        hold(tmp_path, key="17_4").__enter__()
    with hold(tmp_path, key="17_3") as lease:
        assert (lease.record.state, lease.record.pool, lease.record.key) == ("running", "slurm", "17_3")
        assert not queued.beat()
        with pytest.raises(InUseError):  # a second job for the same run
            hold(tmp_path, key="17_3").__enter__()
    last = read(tmp_path)
    assert last is not None and last.state == "released"


def test_whoever_lost_the_lease_ends_at_once(tmp_path: Path) -> None:
    code = (
        "import sys, time; from pathlib import Path; from variations.store.lease import Lease, hold, read\n"
        "folder = Path(sys.argv[1])\n"
        "with hold(folder, seconds=0.6) as lease:\n"
        "    Lease.claim(folder, lease.record, 'running')\n"
        "    time.sleep(30)\n"
    )
    line = [sys.executable, "-c", code, str(tmp_path)]
    environment = os.environ | {"PYTHONPATH": SRC}
    done = subprocess.run(line, capture_output=True, text=True, check=False, env=environment, timeout=20)
    assert done.returncode == 75
    assert "was taken over" in done.stderr


def test_a_process_whose_folder_was_deleted_says_so_and_has_failed(tmp_path: Path) -> None:
    code = (
        "import shutil, sys, time; from pathlib import Path; from variations.store.lease import hold\n"
        "with hold(Path(sys.argv[1]), seconds=0.6):\n"
        "    shutil.rmtree(sys.argv[1])\n"
        "    time.sleep(30)\n"
    )
    line = [sys.executable, "-c", code, str(tmp_path / "run")]
    environment = os.environ | {"PYTHONPATH": SRC}
    done = subprocess.run(line, capture_output=True, text=True, check=False, env=environment, timeout=20)
    assert done.stderr == f"error: {tmp_path / 'run'} was deleted while this process was using it.\n"
    assert done.returncode == 1


def test_a_damaged_lease_is_somebodys_until_it_has_been_silent(tmp_path: Path) -> None:
    (tmp_path / "lease-3.json").write_text("{")
    now = [0.0]
    watch = Watch(clock=lambda: now[0])
    record = read(tmp_path)
    assert record is not None
    assert watch.free(tmp_path, record) is None
    now[0] = 61.0
    assert watch.free(tmp_path, record) is True
    lease = Lease.claim(tmp_path, record, "running")
    assert lease is not None and lease.path.name == "lease-4.json"


def test_without_links_the_file_is_made_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*paths: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refused)
    lease = Lease.claim(tmp_path, None, "running")
    assert lease is not None
    assert json.loads(lease.path.read_text())["pid"] == os.getpid()
    assert Lease.claim(tmp_path, None, "running") is None


def test_beats_show_in_the_file(tmp_path: Path) -> None:
    with hold(tmp_path, seconds=0.3):
        deadline = time.monotonic() + 60
        while ((record := read(tmp_path)) is None or record.beat < 3) and time.monotonic() < deadline:
            time.sleep(0.01)
    assert record is not None and record.beat >= 3


def test_a_run_waits_in_a_queue_until_its_job_begins(tmp_path: Path) -> None:
    assert not waits(tmp_path)
    queued = Lease.claim(tmp_path, None, "queued", pool="slurm")
    assert queued is not None and waits(tmp_path)
    queued.record = replace(queued.record, pid=2**22 + 1)  # the sweep is killed before it submits the run
    queued.beat()
    assert not waits(tmp_path)
    queued.beat(key="17_3")
    assert waits(tmp_path)
    queued.record = replace(queued.record, place="another machine", host="far")
    queued.beat()
    assert waits(tmp_path)  # the sweep that submitted it may have ended
    with hold(tmp_path, key="17_3"):
        assert not waits(tmp_path)
    assert not waits(tmp_path)


@pytest.mark.parametrize("alive", [True, False])
def test_a_run_of_this_machine_waits_only_as_long_as_its_sweep_lives(alive: bool, tmp_path: Path) -> None:
    queued = Lease.claim(tmp_path, None, "queued", pool="local")
    assert queued is not None
    if not alive:
        queued.record = replace(queued.record, pid=2**22 + 1)
        queued.beat()
    assert waits(tmp_path) is alive
