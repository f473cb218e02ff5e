"""Data cached between starts never affects the page: it equals that of a freshly read store."""

import io
import json
import os
import shutil
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from variations.dashboard import memory as memories
from variations.dashboard.api import Api
from variations.dashboard.memory import Memory
from variations.dashboard.store import Store
from variations.dashboard.walk import WATCHED
from variations.store.run_folder import RunFolder
from variations.store.status import Status
from variations.system import file_times

Run = Callable[..., Path]


@pytest.fixture(autouse=True)
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Treat new files as old: these tests write no file twice within a clock tick."""
    monkeypatch.setattr(file_times, "RECENT", -1_000_000_000)


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def runs(root: Path, run: Run) -> Path:
    """Three finished runs, a failed run, and a run whose process is alive."""
    run("q", "base", 1, rows=["base", "other"])
    run("q", "base", 2, score=81.0, rows=["base", "other"])
    run("q", "other", 1, score=84.0, base="base", branches=4, rows=["base", "other"])
    run("q", "other", 2, state="failed", reason="out of luck")
    run("q", "other", 3, state="running", step=600)
    return root


def shown(root: Path, cache: Path | None) -> list[Any]:
    """Return what a newly opened page shows."""
    api = Api(Store(root, cache))
    return [json.loads(api.answer(path)) for path in ("index", "sweep/q")]


def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that collects the paths of watched files opened from now on."""
    found: list[str] = []
    for module in (io, os):
        plain: Any = module.open  # type: ignore[attr-defined]

        def counting(path: Any, *arguments: Any, plain: Any = plain, **options: Any) -> Any:
            if Path(os.fsdecode(path)).name in WATCHED if isinstance(path, str | bytes | os.PathLike) else False:
                found.append(os.fspath(path))
            return plain(path, *arguments, **options)

        monkeypatch.setattr(module, "open", counting)
    return found


def test_a_second_start_opens_no_file_of_a_run_that_has_ended(
    runs: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = opened(monkeypatch)
    before = shown(runs, cache)
    files = {Path(path).name for path in first if "base/seed1" in path}
    assert files == {"config.yaml", "status.json", "result.json", "environment.json", "metrics.jsonl"}
    second = opened(monkeypatch)
    assert shown(runs, cache) == before
    assert {Path(path).parent.name for path in second} == {"seed3"}  # the run whose process is alive


def edited(root: Path) -> None:
    path = root / "q/base/seed1/result.json"
    path.write_text(path.read_text().replace('"value": 80.0', '"value": 70.5'))


def edited_unseen(root: Path) -> None:
    """Edit a file but keep its size and modification time."""
    path = root / "q/base/seed1/result.json"
    before = path.stat()
    path.write_text(path.read_text().replace('"value": 80.0', '"value": 70.0'))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)


def replaced(root: Path) -> None:
    path = root / "q/base/seed1/config.yaml"
    path.with_name("new").write_text(path.read_text().replace("max_steps: 1200", "max_steps: 2400"))
    path.with_name("new").replace(path)


def went_on(root: Path) -> None:
    RunFolder(root / "q/other/seed2").set_status("running", step=7)


def measured(root: Path) -> None:
    with (root / "q/other/seed2/metrics.jsonl").open("a") as file:
        file.write('{"step": 1300, "dev/bleu": 1.5, "new/metric": 2.0}\n')


def deleted(root: Path) -> None:
    shutil.rmtree(root / "q/base/seed2")


def added(root: Path) -> None:
    shutil.copytree(root / "q/base/seed2", root / "q/base/seed2-attempt2")


def lost(root: Path) -> None:
    (root / "q/base/seed1/result.json").unlink()


def damaged(root: Path) -> None:
    (root / "q/base/seed1/status.json").write_text("{")
    (root / "q/other/seed1/config.yaml").write_text("model: [")


def linked(root: Path) -> None:
    (root / "q/base/seed2").rename(root / "q/elsewhere")
    (root / "q/base/seed2").symlink_to(root / "q/elsewhere", target_is_directory=True)
    (root / "q/base/seed1-attempt2").symlink_to(root / "q/elsewhere", target_is_directory=True)


def moved(root: Path) -> None:
    """Swap the folders of two runs."""
    one, two = root / "q/base/seed1", root / "q/base/seed2"
    one.rename(root / "q/base/aside")
    two.rename(one)
    (root / "q/base/aside").rename(two)


CHANGES = (edited, edited_unseen, replaced, went_on, measured, deleted, added, lost, damaged, linked, moved)


@pytest.mark.slow
def test_what_has_changed_between_two_starts_is_seen(
    runs: Path, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for change in CHANGES:
        root, own = tmp_path / change.__name__ / "runs", tmp_path / change.__name__ / "cache"
        shutil.copytree(runs, root)
        before = shown(root, own)
        assert shown(root, own) == before == shown(root, None)
        change(root)
        after = shown(root, own)
        assert after != before, change.__name__
        assert after == shown(root, None), change.__name__
        assert after == shown(root, own), change.__name__


def test_a_process_that_died_between_two_starts_is_not_shown_as_running(
    runs: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert shown(runs, cache)[0]["sweeps"][0]["states"]["running"] == 1
    monkeypatch.setattr(Status, "process_alive", lambda self, folder: False)
    states = shown(runs, cache)[0]["sweeps"][0]["states"]
    assert states == {"finished": 3, "failed": 1, "interrupted": 1}


def test_files_that_changed_just_now_are_not_kept(runs: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_times, "RECENT", 3_600_000_000_000)
    shown(runs, cache)
    memory = Memory.of(runs, cache)
    assert memory.load("seen") == {} == memory.load("run/")


def test_runs_that_are_gone_are_forgotten(runs: Path, cache: Path) -> None:
    shown(runs, cache)
    memory = Memory.of(runs, cache)
    assert set(memory.load("run/q/")) == {"q/base/seed1", "q/base/seed2", "q/other/seed1", "q/other/seed2"}
    deleted(runs)
    shown(runs, cache)
    assert set(memory.load("run/q/")) == {"q/base/seed1", "q/other/seed1", "q/other/seed2"}


def test_what_json_would_change_is_read_again(run: Run, root: Path, cache: Path) -> None:
    folder = run("q", "base", 1)
    (folder / "result.json").unlink()  # by which the change would be noticed
    for line in ("day: 2026-01-01", "1: one"):
        (folder / "config.yaml").write_text(f"{line}\nsweep: {{name: q, rows: [base]}}\ntrainer: {{devices: 1}}\n")
        store = Store(root, cache)
        (found,) = store.sweep("q")
        read = store.summary(found).config
        store.keep()
        assert Store(root, cache).summary(found).config == read
        assert Memory.of(root, cache).load("run/") == {}


def test_names_that_are_no_text_are_kept(cache: Path) -> None:
    memory, name = Memory.of(Path("/runs"), cache), os.fsdecode(b"run/q/b\xe4se/seed1")
    memory.save({name: [name, 1]})
    assert memory.load("run/q/") == {name.removeprefix("run/q/"): [name, 1]}
    memory.save({}, [name])
    assert memory.load("") == {}


# File -------------------------------------------------------------------------------------------------------------


def index_of(root: Path, cache: Path) -> Path:
    path = Memory.of(root, cache).path
    assert path is not None
    return path


def test_nobody_else_may_read_it(runs: Path, cache: Path) -> None:
    shown(runs, cache)
    assert index_of(runs, cache).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("damage", ["text", "empty", "cut", "page", "table"])
def test_a_damaged_file_is_replaced(damage: str, runs: Path, cache: Path) -> None:
    before, path = shown(runs, cache), index_of(runs, cache)
    data = path.read_bytes()
    if damage == "table":
        with sqlite3.connect(path) as file:
            file.execute("DROP TABLE known")
            file.execute("CREATE TABLE known (something INTEGER)")
        file.close()
    else:
        page = data[:4096] + b"\x7f" * 4096 + data[8192:]
        path.write_bytes({"text": b"no index at all" * 99, "empty": b"", "cut": data[:-5000], "page": page}[damage])
    for _ in range(2):
        assert shown(runs, cache) == before
    assert len(Memory.of(runs, cache).load("run/q/")) == 4


def test_a_damaged_value_is_not_believed(runs: Path, cache: Path) -> None:
    before, path = shown(runs, cache), index_of(runs, cache)
    with sqlite3.connect(path) as file:
        for name, value in file.execute("SELECT name, value FROM known").fetchall():
            middle = len(value) // 2
            other = value[:middle] + bytes([value[middle] ^ 1]) + value[middle + 1 :]
            file.execute("UPDATE known SET value = ? WHERE name = ?", (other, name))
    file.close()
    assert Memory.of(runs, cache).load("") == {}
    assert shown(runs, cache) == before


def test_a_value_under_another_name_is_not_believed(cache: Path) -> None:
    memory = Memory.of(Path("/runs"), cache)
    memory.save({"a": 1, "b": 2})
    assert memory.path is not None
    with sqlite3.connect(memory.path) as file:
        file.execute("UPDATE known SET value = (SELECT value FROM known WHERE name = ?)", (b"a",))
    file.close()
    assert memory.load("") == {"a": 1}


def test_what_other_code_has_read_is_not_believed(runs: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown(runs, cache)
    monkeypatch.setattr(memories, "code", lambda: "of another day")
    assert Memory.of(runs, cache).load("") == {}


@pytest.mark.slow
def test_where_nothing_can_be_kept_all_is_read(runs: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = shown(runs, None)
    cache.write_text("a file in the folder's place")
    assert shown(runs, cache) == before
    cache.unlink()
    index_of(runs, cache).mkdir(parents=True)
    assert shown(runs, cache) == before
    shutil.rmtree(cache)
    shown(runs, cache)
    monkeypatch.setattr(memories, "PATIENCE", 0.01)
    other = sqlite3.connect(index_of(runs, cache))
    other.execute("BEGIN EXCLUSIVE")
    assert shown(runs, cache) == before
    other.close()
    assert len(Memory.of(runs, cache).load("run/q/")) == 4  # a locked file is not damaged


def test_several_may_write_at_once(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memories, "PATIENCE", 60.0)
    memory = Memory.of(Path("/runs"), cache)

    def write(number: int) -> None:
        for count in range(20):
            memory.save({f"run/{number}/{count}": count, "seen": [number, count]})

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [len(memory.load(f"run/{number}/")) for number in range(4)] == [20] * 4
    assert memory.load("seen")[""][1] == 19
