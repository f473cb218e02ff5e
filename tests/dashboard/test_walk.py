"""Walks do not read unchanged files again, and detect every change."""

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from variations.dashboard import store as stores
from variations.dashboard import walk as walking
from variations.dashboard.store import Store
from variations.dashboard.walk import Found, Walk
from variations.store.run_folder import RunFolder
from variations.store.status import Status

Run = Callable[..., Path]


def aged(root: Path) -> None:
    """Make all folders old enough for their times to be reliable."""
    for folder, _, _ in os.walk(root):
        os.utime(folder, (time.time() - 60,) * 2)


@pytest.fixture
def walk(root: Path, run: Run) -> Walk:
    """A walk that has seen four runs: two finished, one failed, and one whose process is alive."""
    run("q", "base", 1)
    run("q", "base", 2)
    run("q", "other", 1, state="failed", reason="out of luck")
    run("q", "other", 2, state="running", step=10)
    aged(root)
    found = Walk(root)
    found.look(thorough=True)
    found.look(thorough=False)
    return found


def quick(walk: Walk) -> dict[str, Found]:
    return walk.look(thorough=False)[0]


def same(walk: Walk) -> None:
    """Assert that a quick look finds the same as a first walk."""
    first = Walk(walk.root).look(thorough=True)[0]
    assert {name: run.stamp for name, run in quick(walk).items()} == {name: run.stamp for name, run in first.items()}


def test_a_quick_look_opens_no_folder_and_asks_nothing_of_finished_runs(
    walk: Walk, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, stat, asked = quick(walk), os.stat, list[str]()

    def asks(path: str, **options: bool) -> os.stat_result:
        asked.append(str(path))
        return stat(path, **options)

    def opened(path: str) -> None:
        raise AssertionError(f"{path} was read again")

    monkeypatch.setattr(walking.os, "stat", asks)
    monkeypatch.setattr(walking.os, "scandir", opened)
    after = quick(walk)
    assert all(after[name] is found for name, found in before.items())
    assert not [path for path in asked if "base/seed" in path]
    assert any(path.endswith("other/seed1") for path in asked)  # it failed and may be continued


def test_new_and_removed_runs_are_seen(walk: Walk, run: Run, root: Path) -> None:
    run("q", "base", 3)
    run("q", "third", 1)
    assert {"q/base/seed3", "q/third/seed1"} < quick(walk).keys()
    shutil.rmtree(root / "q/base/seed1")
    assert "q/base/seed1" not in quick(walk)
    same(walk)


def test_a_run_that_goes_on_is_seen(walk: Walk, root: Path) -> None:
    before = quick(walk)
    RunFolder(root / "q/other/seed1").set_status("running", step=1)
    after = quick(walk)
    assert (before["q/other/seed1"].state, after["q/other/seed1"].state) == ("failed", "running")
    with (root / "q/other/seed2/metrics.jsonl").open("a") as file:
        file.write('{"step": 11}\n')
    assert quick(walk)["q/other/seed2"].stamp != after["q/other/seed2"].stamp
    same(walk)


def test_a_process_that_dies_is_seen(walk: Walk, monkeypatch: pytest.MonkeyPatch) -> None:
    assert quick(walk)["q/other/seed2"].state == "running"
    monkeypatch.setattr(Status, "process_alive", lambda self, folder: False)
    assert quick(walk)["q/other/seed2"].state == "interrupted"


def test_what_is_edited_by_hand_is_seen_by_a_thorough_look(walk: Walk, root: Path) -> None:
    before = quick(walk)
    path = root / "q/base/seed1/result.json"
    path.write_text(path.read_text() + "\n")
    assert quick(walk)["q/base/seed1"] is before["q/base/seed1"]
    assert walk.look(thorough=True)[0]["q/base/seed1"].stamp != before["q/base/seed1"].stamp


def test_a_folder_that_changed_just_now_is_read_again(walk: Walk, run: Run, root: Path) -> None:
    """On a file system with one-second timestamps, two runs created in the same second leave the same time."""
    run("q", "base", 3)
    changed = (root / "q/base").stat()
    assert "q/base/seed3" in quick(walk)
    run("q", "base", 4)
    os.utime(root / "q/base", ns=(changed.st_atime_ns, changed.st_mtime_ns))
    assert "q/base/seed4" in quick(walk)


def test_looks_become_rarer_the_more_they_cost(root: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    run("q", "base", 1)
    clock, spent, looks = [100.0], [0.0], list[bool]()
    monkeypatch.setattr(stores.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(stores.time, "thread_time", lambda: spent[0])
    store, look = Store(root), Walk.look

    def costly(walk: Walk, *, thorough: bool) -> tuple[dict[str, Found], list[tuple[str, str]]]:
        looks.append(thorough)
        spent[0] += 0.4 if thorough else 0.02
        return look(walk, thorough=thorough)

    monkeypatch.setattr(Walk, "look", costly)
    store.snapshot()
    before = spent[0]
    for _ in range(1000):  # as a page that follows the store does
        clock[0] += 1.0
        store.snapshot()
    assert (spent[0] - before) / 1000 < 0.01
    assert looks.count(True) >= 10 and looks.count(False) >= 200
