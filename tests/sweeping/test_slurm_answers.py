"""Slurm commands that do not answer, or refuse: the user is told, and the sweep waits where that helps."""

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from submitit.core.utils import FailedJobError

from variations.store import lease
from variations.store.atomic import read_json, write_json
from variations.store.run_folder import RunFolder
from variations.sweeping import slurm, slurm_job, slurm_queue
from variations.sweeping.control import Control
from variations.sweeping.overview import Overview
from variations.sweeping.pool import Ended, PooledRun
from variations.sweeping.settings import SlurmSettings
from variations.sweeping.slurm import SlurmPool
from variations.sweeping.slurm_queue import Seen
from variations.system.errors import ExitCode, Interrupted, UserError


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Replace Slurm commands with shell scripts."""
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setattr(slurm_queue, "SECONDS", 0.2)

    def command(name: str, text: str) -> None:
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)

    for name in ("sbatch", "srun", "squeue"):
        command(name, "exit 0")
    command("scontrol", "echo 'ClusterName = toy'")
    return command


@pytest.mark.slow
def test_a_silent_squeue_is_told_of_once_and_so_is_its_return(commands: Any, tmp_path: Path) -> None:
    said: list[str] = []
    pool = SlurmPool(SlurmSettings(gpus_per_node=0, poll_s=0.1), tmp_path, say=said.append)
    pool._queue.seconds = 0.0
    pool.adopt(PooledRun(tmp_path, "a-seed1"), "toy/abc_0")
    commands("squeue", "exec sleep 5")
    assert pool.ended() == [] and pool.ended() == []
    assert said == [
        "Slurm does not answer (squeue gave no answer for 0.2 s): its jobs continue, and the sweep keeps trying."
    ]
    commands("squeue", "echo 'slurm_load_jobs error: Unable to contact slurm controller' >&2; exit 1")
    assert pool.ended() == [] and len(said) == 1
    commands("squeue", "exit 0")
    assert [ended.run.name for ended in pool.ended()] == ["a-seed1"]
    assert said[1:] == ["Slurm answers again."]


def test_a_silent_sbatch_is_told_of_while_it_is_silent(
    commands: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    pool = SlurmPool(SlurmSettings(gpus_per_node=0), tmp_path, say=said.append)
    before: list[list[str]] = []

    def map_array(work: Any, orders: Any) -> list[SimpleNamespace]:
        deadline = time.monotonic() + 5
        while not said and time.monotonic() < deadline:
            time.sleep(0.01)
        before.append(list(said))
        return [SimpleNamespace(job_id="17_0")]

    executor = SimpleNamespace(update_parameters=lambda **named: None, map_array=map_array)
    monkeypatch.setattr("submitit.SlurmExecutor", lambda folder: executor)
    (tmp_path / ".slurm").mkdir()
    pool.submit(PooledRun(tmp_path, "a-seed1"))
    pool.ended()
    assert before == [["Slurm does not answer: no answer from sbatch for 0.2 s; the sweep keeps waiting."]]
    assert said[1] == "1 run in Slurm's queue as job 17."


BEYOND = "Requested time limit is invalid (missing or exceeds some limit)"
FULL = "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)"
SILENT = "Unable to contact slurm controller (connect failure)"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("message", "runs", "others", "waits"),
    [
        (BEYOND, 1, 0, False),
        (BEYOND, 3, 0, False),
        (BEYOND, 3, 1, False),
        (FULL, 1, 0, False),
        (FULL, 3, 0, False),
        (FULL, 3, 1, True),  # there is room when the other run has ended
        (SILENT, 3, 0, True),
    ],
)
def test_a_refusal_is_waited_for_only_if_it_can_pass(
    commands: Any, tmp_path: Path, message: str, runs: int, others: int, waits: bool
) -> None:
    commands("sbatch", f'echo "sbatch: error: Batch job submission failed: {message}" >&2; exit 1')
    commands("squeue", "echo 'slurm_load_jobs error' >&2; exit 1")
    said: list[str] = []
    pool = SlurmPool(SlurmSettings(gpus_per_node=0), tmp_path, say=said.append)
    for number in range(others):
        pool.adopt(PooledRun(tmp_path, f"other-seed{number}"), f"toy/abc_{number}")
    for number in range(runs):
        pool.submit(PooledRun(tmp_path, f"a-seed{number}"))
    if waits:
        pool.ended()
        assert said[0].startswith(f"Slurm refuses {runs} runs for now (") and message in said[0]
        return
    with pytest.raises(UserError) as error:
        pool.ended()
    assert message in str(error.value)
    assert ("sweep.at_once=N keeps at most N runs in the queue" in str(error.value)) == (message == FULL and runs > 1)


LOST = "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation"


class Sbatch:
    """A stand-in for submitit whose first arrays Slurm accepts, though the answer is lost, and for squeue."""

    def __init__(self, *losses: BaseException) -> None:
        self.losses, self.arrays, self.cancelled = [*losses], 0, list[str]()
        self.jobs: dict[tuple[str, int], tuple[str, str]] = {}
        """Comment and state, by array and element."""

    def __call__(self, folder: Path) -> Any:
        chosen: dict[str, Any] = {}
        return SimpleNamespace(
            update_parameters=lambda **named: chosen.update(named),
            map_array=lambda work, orders: self.submit(str(chosen["comment"]), len(orders)),
        )

    def submit(self, comment: str, count: int) -> list[SimpleNamespace]:
        number, self.arrays = str(17 + self.arrays), self.arrays + 1
        self.jobs |= {(number, element): (comment, "PENDING") for element in range(count)}
        if self.losses:
            raise self.losses.pop(0)
        return [SimpleNamespace(job_id=f"{number}_{element}") for element in range(count)]

    def look(self) -> dict[tuple[str, int], Seen]:
        order = ["PENDING", "RUNNING", "CANCELLED", "FAILED", "NODE_FAIL"]  # squeue sorts by state
        lines = [
            "".join(str(cell).ljust(width) for cell, width in zip(cells, slurm_queue.WIDTHS, strict=True))
            for (number, element), (comment, state) in sorted(self.jobs.items(), key=lambda job: order.index(job[1][1]))
            for cells in [(number, element, state, "None", comment)]
        ]
        return slurm_queue.parse(lines)

    def set(self, number: str, state: str) -> None:
        self.jobs |= {job: (comment, state) for job, (comment, _) in self.jobs.items() if job[0] == number}

    def ask(self, *command: str) -> str:
        assert command[0] == "scancel"
        for number in command[1:]:
            self.cancelled.append(number)
            self.set(number, "CANCELLED")
        return ""


@pytest.fixture
def sbatch(commands: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Sbatch]:
    """Make a stand-in that raises these in turn after it has accepted an array."""

    def make(*losses: BaseException) -> Sbatch:
        found = Sbatch(*losses)
        monkeypatch.setattr("submitit.SlurmExecutor", found)
        monkeypatch.setattr(slurm, "ask", found.ask)
        monkeypatch.setattr(slurm, "PATIENCE", 0.0)
        return found

    return make


def pool_of(sbatch: Sbatch, runs: Path, said: list[str]) -> SlurmPool:
    pool = SlurmPool(SlurmSettings(gpus_per_node=0), runs, say=said.append)
    pool._queue.look, pool._queue.seconds = sbatch.look, 0.0
    return pool


def lost_array(sbatch: Callable[..., Sbatch], runs: Path) -> tuple[Sbatch, SlurmPool, list[str]]:
    """A pool whose array of two runs Slurm has taken, while the answer of sbatch was lost."""
    slurm_ = sbatch(FailedJobError(LOST))
    pool = pool_of(slurm_, runs, [])
    keys = [pool.submit(PooledRun(runs / name, name)) for name in ("a-seed1", "b-seed1")]
    assert pool.ended() == []
    return slurm_, pool, keys


def test_an_array_whose_number_was_lost_is_cancelled_and_the_next_one_is_followed(
    sbatch: Callable[..., Sbatch], tmp_path: Path
) -> None:
    slurm_, pool, keys = lost_array(sbatch, tmp_path)
    assert pool.ended() == []
    assert slurm_.cancelled == ["17"]
    slurm_.set("17", "FAILED")
    slurm_.set("18", "RUNNING")
    assert pool.ended() == []
    assert [pool.alive(key) for key in keys] == [True, True]
    assert [pool._job(key) for key in keys] == ["18_0", "18_1"]
    slurm_.set("18", "NODE_FAIL")
    assert [ended.reason for ended in pool.ended()] == [f"its machine failed (Slurm job 18_{n})" for n in (0, 1)]


def test_an_array_that_slurm_accepts_after_the_next_one_is_no_run(
    sbatch: Callable[..., Sbatch], tmp_path: Path
) -> None:
    """Its controller was so slow that squeue did not list it yet; its jobs have no orders, and fail."""
    slurm_, pool, keys = lost_array(sbatch, tmp_path)
    late, slurm_.jobs = slurm_.jobs, {}
    assert pool.ended() == []
    slurm_.set("18", "RUNNING")
    for state in ("PENDING", "FAILED"):
        slurm_.jobs |= late
        slurm_.set("17", state)
        assert pool.ended() == []
        assert [pool._job(key) for key in keys] == ["18_0", "18_1"]


def test_files_of_slurm_are_the_users_own(
    sbatch: Callable[..., Sbatch], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a store of several users the folder of the first would refuse the others."""
    for name in ("ada", "bob"):
        monkeypatch.setenv("LOGNAME", name)
        pool = pool_of(sbatch(), tmp_path, [])
        key = pool.submit(PooledRun(tmp_path / "run", "a-seed1"))
        assert pool.ended() == [] and pool.alive(key) is True
        assert len(list(tmp_path.glob(f".slurm-{name}/*/job.json"))) == 1


def test_arrays_that_an_older_version_has_submitted_are_followed(sbatch: Callable[..., Sbatch], tmp_path: Path) -> None:
    slurm_ = sbatch()
    pool = pool_of(slurm_, tmp_path, [])
    pool.adopt(PooledRun(tmp_path / "run", "a-seed1"), "toy/abc_0")
    write_json(tmp_path / ".slurm/abc/job.json", {"job": "17", "runs": []})
    assert pool._job("toy/abc_0") == "17_0"
    write_json(tmp_path / ".slurm/abc/0.json", {"code": 0, "reason": "", "job": "17_0"})
    assert [ended.code for ended in pool.ended()] == [0]


def test_a_store_in_which_slurms_files_cannot_be_written_is_told_in_one_sentence(
    sbatch: Callable[..., Sbatch], tmp_path: Path
) -> None:
    """The queue has taken the array, and is told to forget it."""
    slurm_ = sbatch()
    pool = pool_of(slurm_, tmp_path, [])
    key = pool.submit(PooledRun(tmp_path / "run", "a-seed1"))
    (tmp_path / f".slurm-{slurm_queue.user()}").write_text("not a folder")
    with pytest.raises(UserError, match=r"^Cannot write .*slurm-.*; choose another place with runs=DIR\.$"):
        pool.ended()
    assert slurm_.cancelled == ["17"]
    assert pool._watched == {} and pool.alive(key) is None


def test_an_sbatch_that_cannot_be_started_is_not_called_a_full_store(
    sbatch: Callable[..., Sbatch], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = pool_of(sbatch(), tmp_path, [])
    pool.submit(PooledRun(tmp_path / "run", "a-seed1"))

    def gone(batch: Any) -> None:
        raise FileNotFoundError(2, "No such file or directory", "sbatch")

    monkeypatch.setattr(pool, "_sbatch", gone)
    with pytest.raises(UserError, match=r"^sbatch cannot be started: No such file or directory\.$"):
        pool.ended()


@pytest.mark.slow
def test_ctrl_c_during_sbatch_leaves_no_job_behind(sbatch: Callable[..., Sbatch], rows: Any, tmp_path: Path) -> None:
    slurm_, said = sbatch(KeyboardInterrupt()), list[str]()
    outcomes = rows("a", "b")
    sweep = Control(pool_of(slurm_, tmp_path, said), outcomes, Overview())
    with pytest.raises(KeyboardInterrupt):
        sweep.run()
    assert slurm_.cancelled == ["17"]
    assert said == ["Not yet submitted to Slurm: 2 runs; the same command submits them."]
    assert [outcome.state for outcome in outcomes] == ["pending", "pending"]
    assert [record.state for o in outcomes if (record := lease.read(o.folder.path))] == ["released", "released"]


def test_ctrl_c_while_slurm_is_silent_claims_nothing(sbatch: Callable[..., Sbatch], tmp_path: Path) -> None:
    slurm_, said = sbatch(FailedJobError(LOST)), list[str]()
    pool = pool_of(slurm_, tmp_path, said)
    for name in ("a-seed1", "b-seed1"):
        pool.submit(PooledRun(tmp_path / name, name))
    assert pool.ended() == []

    def silent() -> Any:
        raise slurm_queue.NoAnswerError("Unable to contact slurm controller")

    pool._queue.look = silent
    pool.stop()
    assert said[1:] == ["It is unknown whether Slurm has 2 runs more: see squeue --me."]


def test_another_users_job_is_not_known_to_have_ended(
    sbatch: Callable[..., Sbatch], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """squeue is asked about the jobs of one user, so a missing job of another may wait or run."""
    slurm_ = sbatch()
    monkeypatch.setenv("LOGNAME", "ada")
    pool = pool_of(slurm_, tmp_path, [])
    key = pool.submit(PooledRun(tmp_path / "run", "a-seed1"))
    assert pool.ended() == [] and pool.alive(key) is True
    slurm_.jobs = {}  # as squeue lists them to the other
    folder = tmp_path / "run"
    folder.mkdir()
    monkeypatch.setenv("LOGNAME", "bob")
    other = pool_of(slurm_, tmp_path, [])
    assert other.alive(key) is None
    for state in ("queued", "running"):
        watch = lease.Watch(lambda name, key: other.alive(key))
        far = {"pid": 99, "host": "node7", "place": "elsewhere", "born": 1}
        record = lease.Record(1, state, state, **far, pool="slurm", key=key, beat=5)  # type: ignore[arg-type]
        assert watch.free(folder, record) is None  # only its silence will tell
        assert watch.free(folder, replace(record, beat=6)) is False
    write_json(tmp_path / ".slurm-ada" / key.rpartition("/")[2].partition("_")[0] / "0.json", {"code": 0})
    assert other.alive(key) is False  # it has left its note
    monkeypatch.setenv("LOGNAME", "ada")
    assert pool_of(slurm_, tmp_path, []).alive(key) is False


def test_a_second_ctrl_c_still_tells_how_to_end_the_jobs(
    commands: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    pool = SlurmPool(SlurmSettings(gpus_per_node=0), tmp_path, say=said.append)
    for number in (0, 1):
        pool.adopt(PooledRun(tmp_path, f"a-seed{number}"), f"toy/abc_{number}")
    write_json(tmp_path / ".slurm" / "abc" / "job.json", {"job": "17", "runs": []})

    def interrupted() -> Any:
        raise Interrupted

    monkeypatch.setattr(pool._queue, "look", interrupted)
    pool.stop()
    assert said == [
        "2 runs stay in Slurm's queue and continue. The same command follows them again. To end them: scancel 17_0 17_1"
    ]


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (143, "stopped by SIGTERM before it began, as scancel does (Slurm job 3_0)"),
        (-11, "ended by SIGSEGV (Slurm job 3_0)"),
        (1, "Slurm job 3_0"),
        (0, ""),
    ],
)
def test_a_job_that_ended_without_a_reason_names_its_signal(code: int, told: str) -> None:
    assert slurm._by_signal(code, "3_0") == told


def test_a_silent_controller_at_the_start_is_named(commands: Any, tmp_path: Path) -> None:
    commands("scontrol", "exec sleep 5")
    with pytest.raises(UserError, match=r"Slurm does not answer \(scontrol gave no answer for 0.2 s\): try again when"):
        slurm.cluster()


def test_jobs_that_will_not_start_are_told_of_once_for_each_reason(
    commands: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    pool = SlurmPool(SlurmSettings(gpus_per_node=0), tmp_path, say=said.append)
    jobs = {
        "a": ("17_0", "JobHeldUser"),
        "b": ("17_1", "Priority"),
        "c": ("18", "PartitionTimeLimit"),
        "d": ("17_2", "JobHeldUser"),
        "e": ("19", "JobHeldAdmin"),
        "f": ("20", "None"),
    }
    queue = {name: Seen(job, "PENDING", reason) for name, (job, reason) in jobs.items()}
    queue["f"] = replace(queue["f"], state="REQUEUE_HOLD")
    monkeypatch.setattr(pool, "_parts", lambda key: key)
    monkeypatch.setattr(pool, "_seen", lambda part: queue[part])
    pool._tell_of_held([*queue])
    pool._tell_of_held([*queue])
    assert said == [
        "Slurm jobs 17_0, 17_2 will not start by themselves (JobHeldUser): see scontrol show job 17_0; "
        "scontrol release 17_0 17_2 lets held jobs start",
        "Slurm job 18 will not start by itself (PartitionTimeLimit): see scontrol show job 18",
        "Slurm job 19 will not start by itself (JobHeldAdmin): see scontrol show job 19",
        "Slurm job 20 will not start by itself (None): see scontrol show job 20; "
        "scontrol release 20 lets held jobs start",
    ]


@pytest.mark.parametrize(
    ("described", "code"),
    [
        ("JobState=RUNNING Reason=None", ExitCode.PREEMPTED),
        ("JobState=COMPLETING Reason=TimeLimit", ExitCode.PREEMPTED),
        ("JobState=COMPLETING Reason=None", ExitCode.TERMINATED),  # what Slurm 22.05 says after scancel
        ("JobState=CANCELLED Reason=None PreemptTime=None", ExitCode.TERMINATED),
        ("JobState=COMPLETING Reason=None PreemptTime=2026-11-28T12:00:00", ExitCode.PREEMPTED),
        ("", ExitCode.PREEMPTED),  # no answer
    ],
)
def test_a_job_that_is_cancelled_while_it_saves_does_not_come_back(
    described: str, code: ExitCode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands: list[str] = []

    def scontrol(line: list[str], **_: object) -> SimpleNamespace:
        commands.append(line[1])
        return SimpleNamespace(returncode=0, stdout=described, stderr="")

    monkeypatch.setattr(slurm_job, "subprocess", SimpleNamespace(run=scontrol))
    monkeypatch.setattr(slurm_job, "time", SimpleNamespace(sleep=lambda _: None))
    monkeypatch.setattr(slurm_job.supervise, "run", lambda *_, **__: ExitCode.PREEMPTED)
    monkeypatch.setenv("SLURM_JOB_ID", "17")
    with pytest.raises(SystemExit) as ended:
        slurm_job.work(slurm_job.Order(str(tmp_path), str(tmp_path / "0.json"), "onehost/abc_0", "a-seed1"))
    assert (ended.value.code, "requeue" in commands) == (code, code == ExitCode.PREEMPTED)


@pytest.mark.parametrize("itself", [True, False])
def test_the_failure_of_another_machine_of_a_job_counts_once(itself: bool, tmp_path: Path) -> None:
    """Whether the first machine's process has recorded it too, or could not."""
    folder, note = RunFolder(tmp_path / "run").create({"seed": 1}), tmp_path / "0.node1.json"
    folder.set_status("failed", "of an earlier job")
    before = folder.failures()
    if itself:
        folder.set_status("running")
        folder.set_status("failed", "its peer is gone")
    write_json(note, {"code": 1, "reason": "CUDA out of memory"})
    told = "on another machine of the job: CUDA out of memory"
    assert slurm_job._with_others(folder, "toy/abc_0", 1, note, before) == (1, told)
    status = folder.status()
    assert status is not None and (status.reason, before, status.failures) == (told, 1, 2)


@pytest.mark.parametrize("scontrol", ["exec sleep 5", None])
def test_a_job_that_cannot_be_renamed_goes_on(
    scontrol: str | None, commands: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Slurm's controller may be silent; a machine may lack the command."""
    monkeypatch.setenv("SLURM_JOB_ID", "17")
    monkeypatch.setattr(slurm_job, "RENAMING_SECONDS", 0.2)
    if scontrol is None:
        monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    else:
        commands("scontrol", f"touch {tmp_path / 'asked'}; {scontrol}")
    slurm_job._rename_job("a-seed1")
    assert (tmp_path / "asked").exists() == (scontrol is not None)


@pytest.fixture
def preempted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Make a job whose run is preempted each time; `work()` executes the job and returns its note."""
    folder, note = RunFolder(tmp_path / "run").create({"seed": 1}), tmp_path / ".slurm" / "abc" / "0.json"
    note.parent.mkdir(parents=True)
    job = SimpleNamespace(folder=folder, asked=[], slept=[], refusal="", steps=iter(()))

    def scontrol(line: list[str], **_: object) -> SimpleNamespace:
        job.asked += [line] if line[1] == "requeue" else []
        refused = bool(job.refusal) and line[1] == "requeue"
        return SimpleNamespace(returncode=int(refused), stdout="JobState=RUNNING", stderr=job.refusal)

    def saved(*_: object, **__: object) -> ExitCode:
        if (step := next(job.steps, None)) is not None:
            (folder.checkpoints / f"step{step}.ckpt").touch()
        folder.set_status("interrupted", "stopped; the same command continues the run")
        return ExitCode.PREEMPTED

    def work() -> dict[str, Any]:
        order = slurm_job.Order(str(folder.path), str(note), "toy/abc_0", "a-seed1")
        with pytest.raises(SystemExit) as ended:
            slurm_job.work(order)
        found: dict[str, Any] = read_json(note)
        assert ended.value.code == found["code"]
        return found

    monkeypatch.setattr(slurm_job, "subprocess", SimpleNamespace(run=scontrol))
    monkeypatch.setattr(slurm_job, "time", SimpleNamespace(sleep=job.slept.append))
    monkeypatch.setattr(slurm_job.supervise, "run", saved)
    monkeypatch.setenv("SLURM_JOB_ID", "17")
    job.work = work
    return job


@pytest.mark.parametrize(
    ("refusal", "reason", "slept"),
    [
        (
            "slurm_requeue error:\n Job is pending\n",
            "Slurm did not requeue job 17: slurm_requeue error: Job is pending",
            [],
        ),
        ("", "Slurm did not end job 17, which it was asked to requeue", [600]),
    ],
)
def test_a_job_that_slurm_does_not_requeue_says_so_and_the_sweep_starts_its_row_again(
    refusal: str, reason: str, slept: list[int], preempted: Any, commands: Any, tmp_path: Path
) -> None:
    preempted.refusal = refusal
    assert preempted.work() == {"code": ExitCode.PREEMPTED, "reason": reason, "job": "17"}
    assert (preempted.asked, preempted.slept) == ([["scontrol", "requeue", "17"]], slept)
    assert preempted.folder.state() == "interrupted"
    held = lease.read(preempted.folder.path)
    assert held is not None and (held.state, held.key) == ("queued", "toy/abc_0")
    pool, one = SlurmPool(SlurmSettings(gpus_per_node=0), tmp_path), PooledRun(preempted.folder.path, "a-seed1")
    pool.adopt(one, "toy/abc_0")
    assert pool.ended() == [Ended(one, ExitCode.PREEMPTED, reason)]  # which is no failure: see test_control
    assert pool.alive("toy/abc_0") is False  # so the lease in its name is free


def test_a_row_that_is_preempted_in_vain_fails_at_the_third_time_in_a_row(preempted: Any) -> None:
    preempted.steps = iter([None, None, 4])
    for _ in range(5):  # a new checkpoint at the third time: counted anew
        assert preempted.work()["code"] == ExitCode.PREEMPTED
        assert preempted.folder.state() == "interrupted"
    reason = (
        "was preempted 3 times without reaching a new checkpoint: raise hydra.launcher.time_min, or "
        "hydra.launcher.signal_delay_s if there is not enough time to save."
    )
    assert preempted.work() == {"code": ExitCode.FAILED, "reason": reason, "job": "17"}
    assert len(preempted.asked) == 5
    status = preempted.folder.status()
    assert (status.state, status.reason, status.failures) == ("failed", reason, 1)


@pytest.mark.parametrize(
    ("state", "code", "reason"),
    [
        ("TIMEOUT", None, "it reached its time limit before it could save ({}): raise hydra.launcher.signal_delay_s"),
        ("DEADLINE", None, "it reached its time limit before it could save ({}): raise hydra.launcher.signal_delay_s"),
        ("OUT_OF_MEMORY", None, "out of memory ({}): raise hydra.launcher.mem_gb"),
        ("NODE_FAIL", None, "its machine failed ({})"),
        ("BOOT_FAIL", None, "its machine failed ({})"),
        ("PREEMPTED", ExitCode.PREEMPTED, "preempted ({})"),
        ("CANCELLED", ExitCode.TERMINATED, "cancelled ({})"),
        ("FAILED", None, "ended as FAILED ({})"),
    ],
)
def test_a_job_that_left_no_note_is_described_by_its_state(
    state: str, code: ExitCode | None, reason: str, tmp_path: Path
) -> None:
    run = PooledRun(tmp_path, "a-seed1")
    told = slurm._without_note(run, Seen("17_0", state, "None"))
    assert told == Ended(run, code, reason.format("Slurm job 17_0"))


@pytest.mark.slow
@pytest.mark.parametrize("state", ["TIMEOUT", "DEADLINE"])
def test_a_row_beyond_its_time_limit_is_started_again_as_often_as_one_that_fails(
    state: str, commands: Any, rows: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = SlurmPool(SlurmSettings(gpus_per_node=0, poll_s=0.1), tmp_path, say=lambda text: None)
    queue: dict[tuple[str, int], Seen] = {}
    pool._queue.look, pool._queue.seconds = lambda: dict(queue), 0.0

    def started(batch: Any) -> None:
        queue[batch.word, 0] = Seen(str(17 + len(queue)), "RUNNING", "None")
        write_json(pool._folder(batch.word) / slurm.JOB, {"job": str(16 + len(queue)), "runs": []})

    monkeypatch.setattr(pool, "_sbatch", started)
    (row,) = rows("a", retries=1)
    sweep = Control(pool, [row], Overview())
    for launch in (1, 2):
        sweep.step()
        sweep.step()  # hands it over
        assert (row.state, len(queue)) == ("submitted", launch)
        RunFolder(row.folder.path).set_status("running", step=5)
        word, number = list(queue)[-1]
        queue[word, number] = Seen(queue[word, number].job, state, "TimeLimit")
        monkeypatch.setattr(pool, "room", lambda: 0)  # look at the row before it is started again
        sweep.step()
        monkeypatch.setattr(pool, "room", lambda: 1)
        status = RunFolder(row.folder.path).status()
        assert status is not None and (status.state, status.step, status.failures) == ("failed", 5, launch)
        assert row.state == ("pending" if launch == 1 else "failed")
    assert row.reason == (
        "it reached its time limit before it could save (Slurm job 18): raise hydra.launcher.signal_delay_s"
    )
    sweep.step()
    assert len(queue) == 2
