"""Sweeps on a real Ray: a local one that ends with the sweep, and a one-machine cluster that outlives it."""

import importlib.util
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster_sweeps import STEPS, Place, starts, steps, wait_for
from drill import Drill

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(280),
    pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray is not installed: pip install '.[ray]'"),
]


@pytest.fixture(scope="module", autouse=True)
def token() -> Iterator[None]:
    """Set the token that clusters require since Ray 2.60, without a file."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_AUTH_TOKEN", secrets.token_hex(32))
        patch.delenv("RAY_AUTH_MODE", raising=False)
        yield


@pytest.fixture(scope="module")
def cluster(token: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a Ray that other processes can join."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    # Ray's sockets are below its folder, so its path must be short.
    folder = Path(f"/tmp/ray-test-{os.getpid()}")
    command = f"start --head --block --port={port} --num-cpus=4 --node-ip-address=127.0.0.1".split()
    command += ["--include-dashboard=false", "--disable-usage-stats"]
    ray = Path(sys.executable).with_name("ray")
    with (tmp_path_factory.mktemp("ray") / "log").open("w+") as log:
        process = subprocess.Popen(
            [str(ray), *command, f"--temp-dir={folder}"],
            stdout=log,
            stderr=log,
            start_new_session=True,
            env=os.environ | {"RAY_AUTH_MODE": "token", "RAY_worker_niceness": "0"},
        )
        try:
            wait_for(lambda: "Ray runtime started" in (log.seek(0), log.read())[1], "Ray does not start", 90)
            yield f"127.0.0.1:{port}"
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def words() -> list[str]:
    return ["hydra/launcher=ray", "hydra.launcher.num_cpus=4"]


def test_rows_of_a_cluster_outlive_the_sweep_and_the_same_line_finds_them_again(cluster: str, place: Place) -> None:
    faults = f"hydra.launcher.environment={{VARIATIONS_TEST_FAULTS: '{place.folder / 'faults'}'}}"
    place.words = ["hydra/launcher=ray", f"hydra.launcher.address='{cluster}'", faults]
    holds = [place.fault(seed, "hold", 4) for seed in (1, 2)]
    killed = place.sweep("kept", "seed=1,2", "sweep.at_once=2")
    wait_for(lambda: all(4 in steps(place.run("kept", seed)) for seed in (1, 2)), "rows do not start")
    killed.send_signal(signal.SIGKILL)
    killed.wait()

    left = place.sweep("kept", "seed=1,2", "sweep.at_once=2")
    left.takes_up(2)
    left.send_signal(signal.SIGINT)
    text = place.end(left)
    assert left.returncode == 130, text
    assert "2 runs continue in the Ray cluster" in text, text

    last = place.sweep("kept", "seed=1,2", "sweep.at_once=2")
    last.takes_up(2)
    for hold in holds:
        hold.unlink()
    text = place.end(last)
    assert last.returncode == 0, text
    for seed in (1, 2):
        assert starts(place.run("kept", seed)) == 1, place.logs()
        assert steps(place.run("kept", seed)) == list(range(1, STEPS + 1))


def test_ctrl_c_lets_rows_of_this_machine_save_and_two_processes_make_a_row(place: Place) -> None:
    hold = place.fault(1, "hold", 5)
    words = ("seed=1", "trainer.strategy=ddp", "trainer.devices=2")
    first = place.sweep("stopped", *words)
    wait_for(lambda: 5 in steps(place.run("stopped", 1)), "the row does not start")
    first.send_signal(signal.SIGINT)
    time.sleep(1)
    hold.unlink()
    text = place.end(first)
    assert first.returncode == 130, text
    assert place.run("stopped", 1).state() == "interrupted"
    assert "Stopped at step 6" in place.run("stopped", 1).log.read_text(), place.logs()
    place.words = ["hydra/launcher=local"]
    second = place.sweep("stopped", *words)
    assert (place.end(second), second.returncode)[1] == 0
    assert steps(place.run("stopped", 1)) == list(range(1, STEPS + 1))


@pytest.mark.exhaustive  # another Ray, of which there are two above
def test_a_run_that_is_too_large_for_this_machine_is_told_in_one_sentence(place: Place) -> None:
    place.words = ["hydra/launcher=ray", "hydra.launcher.num_cpus=1", "hydra.launcher.cpus=64"]
    impossible = place.sweep("impossible", "seed=1")
    text = place.end(impossible)
    assert "a run requests 64 CPU, of 1 here" in text and "Traceback" not in text, text
    assert impossible.returncode == 1


@pytest.mark.exhaustive  # it takes Ray's client twenty seconds of a core
def test_a_ray_that_does_not_answer_is_told_in_one_sentence(place: Place) -> None:
    place.words = ["hydra/launcher=ray", "hydra.launcher.address='127.0.0.1:1'", "hydra.launcher.start_s=3"]
    nowhere = place.sweep("nowhere", "seed=1")
    text = place.end(nowhere)
    assert "Ray on 127.0.0.1:1 does not answer" in text and "Traceback" not in text, text
    assert nowhere.returncode == 2


@pytest.mark.exhaustive  # the drill itself runs locally
@pytest.mark.timeout(900)
def test_the_whole_drill(tmp_path: Path) -> None:
    drill = Drill(tmp_path, ["hydra/launcher=ray", "hydra.launcher.num_cpus=4"])
    try:
        drill.undisturbed()
        drill.disturbed()
        drill.check()
    finally:
        drill.close()
