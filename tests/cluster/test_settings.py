"""Checks without a cluster: invalid settings, squeue output, and messages for what is missing."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from hydra_plugins.variations_launcher.local import Local
from hydra_plugins.variations_launcher.ray import Ray
from variations.configuration.compose import compose_run
from variations.planning import at_once
from variations.store.process_identity import Process
from variations.sweeping import slurm_queue
from variations.sweeping.pool import Ended, PooledRun
from variations.sweeping.settings import RaySettings, SlurmSettings
from variations.sweeping.slurm import _setup
from variations.system.errors import ConfigError, UserError
from variations.tasks.question_answering import data as question_answering

TRAIN = Path(__file__).parents[2] / "src" / "train.py"


def test_all_faults_of_slurm_settings_are_told_at_once() -> None:
    settings = SlurmSettings(
        time_min=1,
        signal_delay_s=60,
        mem_gb=0,
        cpus=0,
        modules=["cuda/12.8", "x; rm -rf ~"],
        environment={"A B": "1"},
        additional={"constraint": "a100", "array": "0-3", "mail user": "x", "comment_": "a\nb"},
        partition="a\nb",
    )
    at = "hydra.launcher."
    assert settings.faults() == [
        f"{at}cpus=0: must be at least 1.",
        f"{at}mem_gb=0: must be greater than 0.",
        f"{at}signal_delay_s=60: must be less than the time limit, time_min=1 minutes.",
        f"{at}modules: 'x; rm -rf ~' cannot be the name of a module.",
        f"{at}environment: 'A B' cannot be the name of a variable.",
        f"{at}partition: must be a word, a number or true, on one line.",
        f"{at}additional: array: the launcher sets it; leave it out.",
        f"{at}additional: mail user: is not an option of sbatch; write it as in sbatch's manual, without the dashes.",
        f"{at}additional: comment_: must be a word, a number or true, on one line.",
    ]
    assert SlurmSettings(additional={"constraint": "a100", "exclusive": True}).faults() == []
    assert SlurmSettings(additional="constraint").faults() == [  # type: ignore[arg-type]
        f"{at}additional=constraint: write names and values, as {{name: value}}."
    ]


def test_all_faults_of_ray_settings_are_told_at_once() -> None:
    settings = RaySettings(address="auto", num_cpus=2, cpus=-1, gpus=1.5, resources={"a100": 0}, environment={"1": "x"})
    at = "hydra.launcher."
    assert settings.faults() == [
        f"{at}cpus=-1: must not be less than 0.",
        f"{at}gpus=1.5: only a single GPU can be shared: above 1, write a whole number.",
        f"{at}num_cpus and num_gpus: are for a Ray instance on this machine; a cluster has its own: leave them out.",
        f"{at}resources: a100 must be a number above 0.",
        f"{at}environment: '1' cannot be the name of a variable.",
    ]
    assert RaySettings(gpus=0.5).faults() == []


def test_a_run_on_several_devices_shares_no_gpu() -> None:
    configs = [compose_run(["trainer=ddp"])]
    with pytest.raises(ConfigError, match=r"hydra.launcher.gpus=0.5: a run with trainer.devices=2 takes whole GPUs"):
        Ray(gpus=0.5).pool(configs)


def test_gpus_that_no_run_can_see_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"hydra.launcher.gpus=\[3\]: these runs see no GPU"):
        Local(gpus=[3]).pool([compose_run([])])


def test_stories_are_downloaded_before_runs_at_once_are_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["task=question_answering", "data=babi", f"data.cache={tmp_path}", "sweep.at_once=auto"]
    done: list[str] = []
    monkeypatch.setattr(question_answering, "download", lambda *_: done.append("downloaded"))
    monkeypatch.setattr(at_once, "fastest", lambda *_: done.append("measured") or 2)
    assert Local().pool([compose_run(words)]).at_once == 2
    assert done == ["downloaded", "measured"]


def test_values_never_become_commands_of_the_batch_script() -> None:
    lines = _setup(SlurmSettings(modules=["gcc/13"], environment={"NAME": "a'b; $(rm -rf ~)"}))
    assert lines[0] == "module load gcc/13"
    assert lines[-1] == "export NAME='a'\"'\"'b; $(rm -rf ~)'"


def test_our_jobs_are_found_by_their_comment() -> None:
    def line(*cells: str) -> str:
        return "".join(cell.ljust(width) for cell, width in zip(cells, slurm_queue.WIDTHS, strict=True))

    printed = [
        line("17", "0", "RUNNING", "None", "variations:0123456789"),
        line("17", "1", "PENDING", "JobArrayTaskLimit", "variations:0123456789"),
        line("18", "N/A", "OUT_OF_MEMORY", "OutOfMemory", "variations:abcdef0123"),
        line("19", "N/A", "RUNNING", "None", "(null)"),
    ]
    found = slurm_queue.parse(printed)
    assert found == {
        ("0123456789", 0): slurm_queue.Seen("17_0", "RUNNING", "None"),
        ("0123456789", 1): slurm_queue.Seen("17_1", "PENDING", "JobArrayTaskLimit"),
        ("abcdef0123", 0): slurm_queue.Seen("18", "OUT_OF_MEMORY", "OutOfMemory"),
    }
    assert [seen.live for seen in found.values()] == [True, True, False]


def test_of_an_array_that_was_submitted_again_only_the_last_submission_counts() -> None:
    def line(job: str, state: str, comment: str) -> str:
        cells = (job, "0", state, "None", comment)
        return "".join(cell.ljust(width) for cell, width in zip(cells, slurm_queue.WIDTHS, strict=True))

    comments = [slurm_queue.comment_of("0a", attempt) for attempt in (0, 1)]
    assert comments == ["variations:0a", "variations:0a.1"]
    first, last = line("17", "FAILED", comments[0]), line("18", "RUNNING", comments[1])
    for printed in ([first, last], [last, first]):  # squeue sorts by state
        assert slurm_queue.parse(printed) == {("0a", 0): slurm_queue.Seen("18_0", "RUNNING", "None", 1)}


def test_a_question_that_slurm_does_not_answer_is_no_answer() -> None:
    def silent() -> dict[tuple[str, int], slurm_queue.Seen]:
        raise slurm_queue.NoAnswerError("Socket timed out")

    queue = slurm_queue.Queue(look=silent)
    assert not queue.refresh()
    assert queue.fault == "Socket timed out"


def test_without_slurm_the_sentence_says_where_to_go(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(
        UserError, match=r"sbatch, squeue, srun, scontrol not found on this machine: start .* login node"
    ):
        slurm_queue.cluster()


def test_without_ray_the_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    from variations.sweeping.ray import connected

    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UserError, match=r"needs ray, which is not installed here: pip install -e '\.\[ray\]'"):
        connected(RaySettings())


def test_two_sweeps_with_a_ray_each_do_not_wait_for_each_other(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from variations.sweeping import ray

    nothing = SimpleNamespace(util=SimpleNamespace(list_named_actors=list))
    monkeypatch.setattr(ray, "connected", lambda settings: nothing)
    pool = ray.RayPool(RaySettings(), tmp_path)
    run = PooledRun(tmp_path / "row", "row")
    living = f"{Process.of(os.getppid()).key}#0123"  # another process with its own Ray
    pool.adopt(run, living)
    assert pool.alive(living) is True
    assert pool.ended() == []
    (tmp_path / ".ray").mkdir()
    (tmp_path / ".ray" / "0123.json").write_text('{"code": 0, "reason": ""}')
    assert pool.ended() == [Ended(run, 0)]
    assert pool.alive(f"{Process.of().key}#4567") is False  # ours, and ended
    assert pool.alive("10.0.0.1:6379#4567") is None  # on a cluster that this process has not joined


@pytest.mark.slow
@pytest.mark.parametrize("word", ["hydra.launcher.partitoin=gpu", "hydra.launcher.cpus=many"])
def test_a_wrong_key_or_value_of_a_launcher_is_no_traceback(word: str) -> None:
    line = [sys.executable, str(TRAIN), "--multirun", "hydra/launcher=slurm", word, "seed=1,2"]
    done = subprocess.run(line, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert word.partition("=")[0] in done.stderr


def test_a_number_at_once_that_limits_a_cluster_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    from hydra_plugins.variations_launcher.slurm import Slurm

    def told(at_once: int | None, runs: int | None) -> str:
        Slurm().check_at_once([SimpleNamespace(sweep=SimpleNamespace(at_once=at_once))] * 6, runs)  # type: ignore[list-item]
        return capsys.readouterr().err

    assert told(2, None) == (
        "sweep.at_once=2: no more than 2 of the 6 runs are submitted at a time; sweep.at_once=null submits all.\n"
    )
    assert told(6, None) == told(None, None) == told(2, 2) == ""
