"""A process that loses a run's lease can no longer write to its folder, at any point of any operation."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from variations.store import fence
from variations.store.atomic import replaced, write_text
from variations.store.lease import Lease, hold, read
from variations.store.ledger import RunFolder
from variations.system.errors import RunFailedError, TakenOverError
from variations.training import checkpoints

SRC = str(Path(__file__).parents[2] / "src")


def python(code: str, *arguments: str) -> str:
    environment = os.environ | {"PYTHONPATH": SRC}
    line = [sys.executable, "-c", code, *arguments]
    return subprocess.run(line, capture_output=True, text=True, check=True, env=environment).stdout


TAKE_OVER = (
    "import sys; from pathlib import Path; from variations.store.lease import Lease, read\n"
    "folder = Path(sys.argv[1])\n"
    "assert Lease.claim(folder, read(folder), 'running') is not None\n"
)


@pytest.fixture
def paused(tmp_path: Path) -> Iterator[RunFolder]:
    """A run that another process has taken over while this process held it and slept."""
    folder = RunFolder(tmp_path / "run").create({})
    with hold(folder.path, seconds=600):
        checkpoints.save(folder.checkpoints / "step1.ckpt", 1)
        folder.measurements.truncate(0)
        folder.measurements.append({"step": 1})
        folder.set_status("running", step=1)
        python(TAKE_OVER, str(folder.path))
        yield folder


def contents(folder: RunFolder) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.path.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    "write",
    [
        lambda folder: folder.measurements.append({"step": 2}),
        lambda folder: folder.measurements.truncate(0),
        lambda folder: folder.set_status("finished"),
        lambda folder: folder.write_result({"scores": {}}),
        lambda folder: folder.write_environment({}),
        lambda folder: checkpoints.save(folder.checkpoints / "step2.ckpt", 2),
        lambda folder: checkpoints.drop_after(folder.checkpoints, 0),
        lambda folder: write_text(folder.hypotheses / "test.hyp", "late\n"),
    ],
    ids=["metrics", "new metrics", "status", "result", "environment", "checkpoint", "deleting", "hypotheses"],
)
def test_whoever_lost_the_lease_writes_nothing_more(write: Callable[[RunFolder], None], paused: RunFolder) -> None:
    before = contents(paused)
    with pytest.raises(TakenOverError, match="was taken over by another process"):
        write(paused)
    assert contents(paused) == before


def test_a_takeover_in_the_midst_of_a_write_stops_it(tmp_path: Path) -> None:
    """Take over between the last lease check and the rename: no check is late enough, so the system must refuse."""
    folder = RunFolder(tmp_path / "run").create({})
    with hold(folder.path, seconds=600):
        folder.set_status("running", step=1)
        before = (folder.path / "status.json").read_bytes()
        with pytest.raises(TakenOverError), replaced(folder.path / "status.json") as temporary:
            temporary.write_text("late")
            python(TAKE_OVER, str(folder.path))
        assert (folder.path / "status.json").read_bytes() == before


def test_a_line_of_metrics_on_its_way_does_not_reach_the_next_holders_file(tmp_path: Path) -> None:
    """The line is written after the lease check, by a process that kept the file open."""
    folder = RunFolder(tmp_path / "run").create({})
    with hold(folder.path, seconds=600):
        folder.measurements.truncate(0)
        folder.measurements.append({"step": 1})
        folder.measurements.append({"step": 2})
        code = TAKE_OVER + "from variations.store.ledger import RunFolder\nRunFolder(folder).measurements.truncate(1)\n"
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(fence, "check", lambda path: python(code, str(path)))
            folder.measurements.append({"step": 3})
    assert [line["step"] for line in folder.measurements.read()] == [1]


def test_a_deleted_folder_is_said_to_be_deleted(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run").create({})
    with hold(folder.path, seconds=600):
        shutil.rmtree(folder.path)
        for write in (
            lambda: folder.set_status("finished"),
            lambda: checkpoints.save(folder.checkpoints / "step1.ckpt", 1),
            lambda: folder.measurements.append({"step": 2}),
        ):
            with pytest.raises(RunFailedError, match="was deleted while the run was writing to it"):
                write()
        assert not folder.path.exists()


def test_a_folder_that_was_deleted_can_be_made_again_by_the_same_process(tmp_path: Path) -> None:
    """As in a notebook, where a run that found a fault in its data is started again."""
    for number in (1, 2):
        folder = RunFolder(tmp_path / "run").create({"seed": number})
        with hold(folder.path, seconds=600):
            folder.set_status("running")
            assert (folder.config()["seed"], folder.state()) == (number, "running")
            shutil.rmtree(folder.path)


@pytest.mark.slow
def test_a_rank_writes_under_the_lease_of_the_process_that_started_it(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run").create({})
    code = (
        "import sys; from pathlib import Path; from variations.store import fence\n"
        "from variations.store.ledger import RunFolder\n"
        "fence.join(Path(sys.argv[1]), sys.argv[2]); RunFolder(sys.argv[1]).set_status('running', step=7)\n"
    )
    with hold(folder.path) as lease:
        python(code, str(folder.path), lease.record.name)
        status = folder.status()
        assert status is not None and status.step == 7
        with pytest.raises(subprocess.CalledProcessError):
            python(code, str(folder.path), f"{lease.record.number}-{'0' * 16}")


def test_what_a_holder_that_was_killed_has_left_is_cleared_away(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run").create({})
    code = (
        "import os, sys; from pathlib import Path; from variations.store.lease import Lease\n"
        "from variations.store.atomic import replaced\n"
        "Lease.claim(Path(sys.argv[1]), None, 'running')\n"
        "with replaced(Path(sys.argv[1], 'checkpoints', 'step1.ckpt')) as path: path.write_text('half'); os._exit(0)\n"
    )
    python(code, str(folder.path))
    assert any(folder.checkpoints.glob(".lease-1-*/*"))
    with hold(folder.path):
        folder.set_status("running")
    assert sorted(path.name for path in folder.path.rglob(".*")) == []


def test_a_fence_whose_lease_a_power_cut_has_taken_is_in_nobodys_way(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run").create({})
    left = folder.path / ".lease-1"
    left.mkdir()
    (left / ".status.json.1-abcd.tmp").touch()
    with hold(folder.path) as lease:
        assert lease.record.number == 1
        folder.set_status("running")
        assert not left.exists()
    assert folder.status() is not None
    assert sorted(path.name for path in folder.path.rglob(".*")) == []


def test_what_a_sweep_that_was_killed_in_a_beat_has_left_is_in_nobodys_way(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run").create({})
    (folder.path / ".lease-1.json.123-abcd.tmp").touch()  # the temporary name that `write_json` uses
    with hold(folder.path):
        folder.set_status("running")
    status = folder.status()
    assert status is not None and status.state == "running"


def test_a_failure_is_not_declared_of_a_run_that_another_process_has_finished_meanwhile(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run").create({})
    with hold(folder.path):
        folder.write_result({"scores": {}})
        folder.set_status("finished")
    before = (folder.path / "status.json").read_bytes()
    assert not folder.declare_failed("its process is gone", read(folder.path), before=0)
    assert (folder.path / "status.json").read_bytes() == before


def test_a_failure_is_declared_under_a_lease_of_its_own(tmp_path: Path) -> None:
    """A sweep declares its killed row failed; a sweep that slept after its check writes nothing."""
    folder = RunFolder(tmp_path / "run").create({})
    assert folder.declare_failed("killed", None, before=0)
    status, record = folder.status(), read(folder.path)
    assert status is not None and (status.state, status.reason) == ("failed", "killed")
    assert record is not None and record.state == "released"
    python(TAKE_OVER, str(folder.path))
    before = contents(folder)
    assert not folder.declare_failed("said too late", record, before=0)
    assert contents(folder) == before

    set_status = RunFolder.set_status
    with pytest.MonkeyPatch.context() as patch:

        def slept(self: RunFolder, state: str, reason: str | None = None, **extra: int) -> None:
            python(TAKE_OVER, str(self.path))
            set_status(self, state, reason, **extra)

        patch.setattr(RunFolder, "set_status", slept)
        assert not folder.declare_failed("said too late", read(folder.path), before=0)
    status = folder.status()
    assert status is not None and status.reason == "killed"


@pytest.mark.slow
def test_what_a_former_holder_still_prints_does_not_reach_the_log(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run").create({})
    code = (
        "import sys; from pathlib import Path; from variations.store.lease import hold\n"
        "from variations.store.ledger import RunFolder\n"
        "print('starts')\n"
        "with hold(Path(sys.argv[1])): RunFolder(sys.argv[1]).take_log(); print('holds')\n"
        "print('ends', file=sys.stderr)\n"
    )
    with folder.log.open("ab", buffering=0) as former:
        former.write(b"before\n")
        with folder.log.open("ab") as log:
            line = [sys.executable, "-c", code, str(folder.path)]
            subprocess.run(line, stdout=log, stderr=log, check=True, env=os.environ | {"PYTHONPATH": SRC})
        former.write(b"late\n")
    assert folder.log.read_text() == "before\nstarts\nholds\nends\n"


def test_a_holder_of_a_deleted_folder_cannot_write_into_the_one_made_in_its_place(tmp_path: Path) -> None:
    """Numbers of leases begin at 1 again there, and a suspended process may wake up at any later time."""
    path = tmp_path / "run"
    folder = RunFolder(path).create({})
    old = Lease.claim(path, None, "running")
    assert old is not None
    fences = dict(fence._own)
    shutil.rmtree(path)
    fence._own.clear()  # the new holder is another process
    RunFolder(path).create({})
    new = Lease.claim(path, None, "running")
    assert new is not None and new.record.number == old.record.number
    own = dict(fence._own)
    fence._own.clear()
    fence._own.update(fences)
    for write in (
        lambda: folder.set_status("failed"),
        lambda: folder.measurements.append({"step": 1}),
        lambda: checkpoints.save(folder.checkpoints / "step1.ckpt", 1),
    ):
        with pytest.raises(TakenOverError):
            write()
    assert not old.held() and not old.beat()
    fence._own.clear()
    fence._own.update(own)
    RunFolder(path).set_status("running", step=3)
    assert new.beat()
    new.release()
