"""The fault drill: a sweep of six tiny rows with every kind of fault, under any launcher.

One row fails by itself (its loss is not finite), one is killed, the sweep's process is killed twice, and two sweeps
compete for the rows. In the end, every good row must be finished exactly once, with the result of an undisturbed run.

    drill = Drill(tmp_path, ["hydra/launcher=local"])
    drill.undisturbed()
    drill.disturbed()
    drill.check()

Configuration and signals cause the faults: nothing in the code under test knows about the drill.
"""

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from variations.store.lease import read
from variations.store.ledger import RunFolder

TRAIN = Path(__file__).parents[2] / "src" / "train.py"
STEPS = 30
ROWS = {
    "base": {},
    "broken": {"recipe": {"lr": 1e30, "schedule": "inverse_sqrt", "warmup": 1}},
    "killed": {"model": {"d_ff": 24}},
    "deep": {"model": {"N": 2}},
    "one_head": {"model": {"h": 1}},
    "dry": {"model": {"dropout": 0.0}},
}
SHARED = {
    "model": {"d_model": 16, "d_ff": 32, "h": 2, "N": 1},
    "recipe": {"batch_tokens": 512, "warmup": 10},
    "trainer": {
        "max_steps": STEPS,
        "val_every": 10,
        "val_bleu": 0,
        "log_every": 1,
        "checkpoint_every": 1,
        "threads": 1,
        "limit_test": 3,
    },
    "decode": {"beam": 1},
}
GOOD = tuple(row for row in ROWS if row != "broken")
TIMED = ("seconds", "decoding_seconds", "speed", "flops_paper_rule", "hardware", "sha256", "metrics_sha256", "row_file")
"""Parts of a result that depend on the clock, the machine, or on whether the process knows the folder of the rows."""
WAIT = 600.0
ALONE = """
import sys
from variations.commands.run import execute
from variations.configuration.doors import open_given
from variations.sweeping.jobs import expand
open_given(sys.argv[1])
for job in expand(sys.argv[2:]):
    execute(job.config)
"""


@dataclass
class Drill:
    """Two stores with the same sweep: one undisturbed, one not.

    Args:
        place: An empty folder.
        launcher: Overrides that select the launcher.
        at_once: Number of rows that run at the same time.
        cut_off: Minimum number of interrupted rows: the killed one, and those that end with their sweep.
    """

    place: Path
    launcher: Sequence[str] = ("hydra/launcher=local",)
    at_once: int = 2
    environment: dict[str, str] = field(default_factory=dict)
    cut_off: int = 3
    controllers: list["subprocess.Popen[str]"] = field(default_factory=list)

    def __post_init__(self) -> None:
        corpus(self.place / "corpus")
        _configuration(self.place / "conf")

    # Actions --------------------------------------------------------------------------------------------------------

    def undisturbed(self) -> None:
        """Run the good rows one after another in one process, as if each had been started alone."""
        words = [*self.words("whole"), f"rows=[{','.join(GOOD)}]"]
        line = [sys.executable, "-c", ALONE, str(self.place / "conf"), *words]
        variables = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(TRAIN.parent)}
        subprocess.run(line, cwd=self.place, env=variables, check=True, timeout=WAIT, stdout=subprocess.DEVNULL)

    def disturbed(self) -> None:
        """Run all rows, with a killed row, two killed controllers and two that compete."""
        first = self.start("drill")
        os.kill(self.stop_one(["killed"], 5, first), signal.SIGKILL)
        self.wait(lambda: self.status("killed").get("state") != "running", first)
        self.kill_sweep(first, [row for row in GOOD if row != "killed"], 8)
        second = self.start("drill")
        self.kill_sweep(second, GOOD, 12)
        third, fourth = self.start("drill"), self.start("drill")
        self.texts = [process.communicate(timeout=WAIT)[0] for process in (third, fourth)]
        self.codes = [third.returncode, fourth.returncode]

    def kill_sweep(self, controller: "subprocess.Popen[str]", rows: Sequence[str], step: int) -> None:
        """Kill a sweep's process while one of these rows is certainly in its training, from this step on."""
        row = self.stop_one(rows, step, controller)
        kill(controller)
        os.kill(row, signal.SIGCONT)

    def stop_one(self, rows: Sequence[str], step: int, controller: "subprocess.Popen[str]") -> int:
        """Stop (SIGSTOP) one of these rows in its training, from this step on, and return its process id.

        On a busy machine, a row that only looked unfinished could end before the signal that follows arrives.
        """
        found: list[int] = []

        def stopped() -> bool:
            for row in rows:
                record = read(self.folder(row).path)
                if record is None or not self.in_training(row, step):
                    continue
                with suppress(ProcessLookupError):  # it has ended meanwhile
                    os.kill(record.pid, signal.SIGSTOP)
                    if self.in_training(row, step):
                        found.append(record.pid)
                        return True
                    os.kill(record.pid, signal.SIGCONT)
            return False

        self.wait(stopped, controller)
        return found[0]

    def start(self, store: str, *further: str) -> "subprocess.Popen[str]":
        """Start a sweep as a user would."""
        line = [sys.executable, str(TRAIN), "--multirun", "--config-dir", str(self.place / "conf")]
        process = subprocess.Popen(
            [*line, *self.words(store), f"sweep.at_once={self.at_once}", *self.launcher, *further],
            cwd=self.place,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "COLUMNS": "200", "OMP_NUM_THREADS": "1", **self.environment},
        )
        self.controllers.append(process)
        return process

    def words(self, store: str) -> list[str]:
        return ["sweep=drill", f"runs={self.place / store}", f"data.root={self.place / 'corpus'}"]

    def close(self) -> None:
        """End the processes that a failed drill has left."""
        for process in self.controllers:
            if process.poll() is None:
                process.terminate()
                try:
                    process.wait(timeout=30)
                except subprocess.TimeoutExpired:
                    kill(process)
            if process.stdout is not None:
                process.stdout.close()

    # Observations ---------------------------------------------------------------------------------------------------

    def folder(self, row: str, store: str = "drill") -> RunFolder:
        return RunFolder(self.place / store / "drill" / row / "seed1")

    def status(self, row: str) -> dict[str, Any]:
        try:
            found: dict[str, Any] = json.loads((self.folder(row).path / "status.json").read_text())
        except FileNotFoundError:
            return {}
        return found

    def in_training(self, row: str, step: int) -> bool:
        """Return whether a row is being trained, has done this many steps, and has some left."""
        status = self.status(row)
        return status.get("state") == "running" and step <= (status.get("step") or 0) <= STEPS - 4

    def wait(self, until: Callable[[], bool], controller: "subprocess.Popen[str]") -> None:
        deadline = time.monotonic() + WAIT
        while not until():
            if controller.poll() is not None:
                raise AssertionError(f"the sweep ended too early:\n{controller.communicate()[0]}")
            assert time.monotonic() < deadline, "waited too long"
            time.sleep(0.05)

    # Checks ---------------------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Check that good rows finished once, with undisturbed results, and the broken one failed and was reported."""
        assert self.codes == [1, 1], self.texts
        for text in self.texts:
            assert re.search(r"failed broken, seed 1.*not finite", text), text
            assert f"{len(GOOD)} " in text or "skipped" in text, text
        assert self.folder("broken").state() == "failed"
        for row in GOOD:
            found, expected = self.folder(row), self.folder(row, "whole")
            assert found.state() == "finished", row
            assert [line["step"] for line in found.measurements.read()] == list(range(1, STEPS + 1)), row
            pairs = zip(_timeless(found.measurements.read()), _timeless(expected.measurements.read()), strict=True)
            assert [(row, ours, theirs) for ours, theirs in pairs if ours != theirs] == []
            one, other = found.result(), expected.result()
            assert one is not None and other is not None
            assert _timeless([one]) == _timeless([other]), row
            assert (found.hypotheses / "test.hyp").read_text() == (expected.hypotheses / "test.hyp").read_text()
            assert len(ends(found)) == 1, row
        assert self.folder("killed").status().failures == 1  # type: ignore[union-attr]
        assert len(starts(self.folder("killed"))) >= 2
        assert sum(len(starts(self.folder(row))) for row in GOOD) >= len(GOOD) + self.cut_off

        homes = sorted(str(path.relative_to(self.place)) for path in self.place.glob("drill/drill/*/*"))
        assert homes == sorted(f"drill/drill/{row}/seed1" for row in ROWS)  # no second attempt


def starts(folder: RunFolder) -> list[str]:
    """Return the process ids of a row's starts, from its log."""
    return re.findall(r"^== \S+ process (\d+) on ", folder.log.read_text(), flags=re.MULTILINE)


def ends(folder: RunFolder) -> list[str]:
    """Return the times at which a row was finished, from its log."""
    return re.findall(r"^== (\S+): finished$", folder.log.read_text(), flags=re.MULTILINE)


def kill(process: "subprocess.Popen[str]") -> None:
    process.send_signal(signal.SIGKILL)
    process.wait()


def _timeless(lines: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{key: value for key, value in line.items() if key not in TIMED} for line in lines]


def corpus(folder: Path) -> None:
    folder.mkdir(parents=True)
    rng = random.Random(5)
    for name, size in {"train": 203, "valid": 21, "test": 11}.items():
        lines = [[f"w{rng.randrange(40)}" for _ in range(rng.randint(3, 9))] for _ in range(size)]
        (folder / f"{name}.en").write_text("".join(f"{' '.join(line)}\n" for line in lines))
        (folder / f"{name}.de").write_text("".join(f"{' '.join(reversed(line))} .\n" for line in lines))


def _configuration(folder: Path) -> None:
    (folder / "sweep").mkdir(parents=True)
    (folder / "variation" / "drill").mkdir(parents=True)
    overrides = ["data=files", "data.vocabulary=48", "data.max_length=64", "logger=none"]
    sweep = {"name": "drill", "table": "drill", "rows": list(ROWS), "lease_seconds": 6.0, "overrides": overrides}
    (folder / "sweep" / "drill.yaml").write_text(yaml.safe_dump(sweep))
    for row, changes in ROWS.items():
        words = {"table": "drill", "row": row, "label": row, "base": "base"}
        start: dict[str, Any] = SHARED if row == "base" else {"defaults": ["drill/base"]}
        text = "# @package _global_\n" + yaml.safe_dump({**start, **changes, "variation": words}, sort_keys=False)
        (folder / "variation" / "drill" / f"{row}.yaml").write_text(text)
