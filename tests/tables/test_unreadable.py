"""A folder that another user has closed is told as such, and costs no other run its place."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from pages import ROOT

from variations.configuration.schema import SweepConfig
from variations.configuration.tasks import named
from variations.dashboard.api import Api
from variations.dashboard.store import Store
from variations.store.rows import define
from variations.system.errors import UserError
from variations.tables.collect import DISK, Reader
from variations.tables.table import build

LIKE_ANYBODY = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] if os.geteuid() == 0 else []
"""Root may read everything without this."""


@pytest.fixture
def closed(make_run: Callable[..., Any], store: Path, configuration: Callable[..., dict[str, Any]]) -> Path:
    """A store with an open row, a closed one, and one with a closed seed."""
    if LIKE_ANYBODY and shutil.which(LIKE_ANYBODY[0]) is None:
        pytest.skip("root may read everything")
    for row in ("open", "closed", "half"):
        for seed in (1, 2):
            texts = (["a b c d"] * 4, ["e f g h"] * 4, ["e f g h"] * 4)
            run = make_run("rights", row, seed, 100.0, config=configuration(variation__row=row), texts=texts)
            run.write_environment({"host": "tower"})
    for folder in (store / "rights" / "closed", store / "rights" / "half" / "seed2"):
        if os.geteuid() == 0:
            os.chown(folder, 65534, 65534)
        folder.chmod(0o700 if os.geteuid() == 0 else 0)
    return store


def command(verb: str, *arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    line: Sequence[str] = [*LIKE_ANYBODY, sys.executable, str(ROOT / "src" / f"{verb}.py"), *arguments]
    return subprocess.run(line, cwd=folder, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.slow
def test_a_table_names_what_may_not_be_read(closed: Path, tmp_path: Path) -> None:
    found = command("table", "sweep.name=rights", f"runs={closed}", "format=json", folder=tmp_path)
    assert (found.returncode, found.stderr) == (0, "")
    missing = json.loads(found.stdout)["missing"]
    assert [line.partition(":")[0] for line in missing] == ["closed, seed 1", "closed, seed 2", "half, seed 2"]
    assert all(line.endswith("status.json: Permission denied.)") for line in missing)


@pytest.mark.parametrize(
    ("task", "told"),
    [
        ("sine", "a stored run has task=sine, which no package here has"),
        (["sine"], "config.yaml: task is ['sine'], not a name"),
        (5, "config.yaml: task is 5, not a name"),
    ],
)
def test_a_run_of_a_task_that_no_package_has_costs_no_other_run_its_place(
    task: Any, told: str, make_run: Callable[..., Any], store: Path, configuration: Callable[..., dict[str, Any]]
) -> None:
    make_run("mixed", "b", 1, 30.0)
    run = make_run("mixed", "a", 1, 30.0, config=configuration(task="sine"))
    config = yaml.safe_load((run.path / "config.yaml").read_text())
    (run.path / "config.yaml").write_text(yaml.safe_dump(config | {"task": task}))
    reader = Store(store)
    for known in (DISK, Reader(read=lambda folder: reader.stored(reader.find(f"mixed/{folder.row}/seed1")))):
        table = build(define(SweepConfig(name="mixed"), store=store), store, reader=known)
        assert [len(line.row.finished) for line in table.lines] == [0, 1]
        assert told in table.lines[0].row.runs[0].describe()
    document = json.loads(Api(reader).answer("sweep/mixed"))
    assert document["fault"] is None and document["table"] is not None
    notes = json.loads(Api(reader).answer("compare", {"ids": "mixed/a/seed1,mixed/b/seed1"}))["notes"]
    assert any(told in note for note in notes)


@pytest.mark.slow
def test_a_seed_that_may_not_be_read_stops_no_table_of_a_sweep_file(closed: Path, tmp_path: Path) -> None:
    (closed / "rights").rename(closed / "quickstart")
    for row, name in (("half", "transformer"), ("open", "weighted"), ("closed", "uniform")):
        (closed / "quickstart" / row).rename(closed / "quickstart" / name)
    found = command("table", "sweep=quickstart", f"runs={closed}", "format=json", folder=tmp_path)
    assert (found.returncode, found.stderr) == (0, "")
    assert "Permission denied" in found.stdout


def test_a_finished_run_whose_result_may_not_be_read_is_not_tested_again(
    make_run: Callable[..., Any], store: Path, tmp_path: Path
) -> None:
    folder = make_run("rights", "row", 1, 30.0)
    assert folder.finished()
    path = folder.path / "result.json"
    path.rename(folder.path / "aside")
    path.symlink_to(path.name)  # a circle of links: reading it is an error of the system, even for root
    with pytest.raises(UserError, match=r"Cannot read .*result\.json: "):
        folder.finished()
    path.unlink()
    assert not folder.finished()


@pytest.mark.slow
def test_records_are_written_of_the_others(closed: Path, tmp_path: Path) -> None:
    found = command("record", "sweep.name=rights", f"runs={closed}", "records=records", folder=tmp_path)
    assert "Traceback" not in found.stderr
    assert found.stderr.count("Permission denied") == 3
    written = {str(path.parent.relative_to(tmp_path)) for path in tmp_path.glob("records/*/*/*/result.json")}
    assert written == {f"records/rights/{name}" for name in ("open/seed1", "open/seed2", "half/seed1")}


@pytest.mark.slow
@pytest.mark.parametrize("line", ["table sweep.name=rights", "dashboard export=page.html", "claims"])
def test_a_run_store_that_may_not_be_read_is_refused_by_its_name(closed: Path, tmp_path: Path, line: str) -> None:
    if os.geteuid() == 0:
        os.chown(closed, 65534, 65534)
    closed.chmod(0o700 if os.geteuid() == 0 else 0)
    try:
        found = command(*line.split(), f"runs={closed}", folder=tmp_path)
    finally:
        closed.chmod(0o755)  # for pytest, which removes it
    told = f"error: runs={closed} may not be read: change its permissions or its owner.\n"
    assert (found.returncode, found.stdout, found.stderr) == (2, "", told)
    assert not list(tmp_path.glob("page.html*"))


def test_a_row_is_judged_by_the_rule_of_its_own_task(
    make_run: Callable[..., Any], store: Path, configuration: Callable[..., dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    make_run("mixed", "a", 1, 30.0)
    make_run("mixed", "b", 1, 30.0, config=configuration(task="parsing"))
    monkeypatch.setattr(type(named("translation")), "untrained", lambda *_: "too early")
    table = build(define(SweepConfig(name="mixed"), store=store), store)
    assert [line.untrained for line in table.lines] == ["too early", None]
