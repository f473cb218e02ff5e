"""Which records may be replaced, and what is left of them after kills and faults of the disk."""

import errno
import fcntl
import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from recorded_runs import Put, fill

from variations.commands.record import RecordConfig, show
from variations.configuration.schema import SweepConfig
from variations.store.ledger import RunFolder
from variations.store.rows import SweepDefinition, define
from variations.system.errors import UserError
from variations.tables.records import record


@pytest.mark.slow
def test_records_are_replaced_only_where_the_run_has_changed(
    put: Put, sweep: SweepDefinition, store: Path, tmp_path: Path
) -> None:
    records = tmp_path / "records"
    put("base", 1, 3)
    first = record(sweep, store, records)
    assert (list(first.written), len(first.missing)) == (["papers/base/seed1"], 5)
    again = record(sweep, store, records)
    assert (again.written, again.unchanged) == ({}, ["papers/base/seed1"])
    put("base", 1, 5)
    found = record(sweep, store, records)
    assert (found.written, list(found.replaced)) == ({}, ["papers/base/seed1"])
    assert sorted(path.name for path in (records / "papers/base").iterdir()) == ["seed1"]


def test_files_that_a_user_has_put_into_a_record_stay_and_do_not_count_as_a_change(
    put: Put, store: Path, tmp_path: Path
) -> None:
    put("base", 1, 3)
    sweep = define(SweepConfig(name="papers", rows=["base"], seeds=[1]), conf=tmp_path, store=store)
    records = tmp_path / "records"
    home = records / "papers/base/seed1"
    record(sweep, store, records)
    mine = {home / ".DS_Store": "icons", home / "hypotheses/.DS_Store": "more", home / "notes/why.md": "because"}
    mine |= {home / "plot.py": "a drawing", home / "hypotheses/notes.md": "of sentences"}
    for path, text in mine.items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    (home / "notes/link").symlink_to("why.md")
    assert record(sweep, store, records).unchanged == ["papers/base/seed1"]
    former = home / "hypotheses/older.hyp.gz"  # of a set that the run no longer has
    former.write_bytes(b"")
    put("base", 1, 5)
    assert list(record(sweep, store, records).replaced) == ["papers/base/seed1"]
    assert {path: path.read_text() for path in mine} == mine
    assert (home / "notes/link").readlink() == Path("why.md") and not former.exists()
    assert record(sweep, store, records).unchanged == ["papers/base/seed1"]


@pytest.mark.slow
def test_a_record_of_another_configuration_is_left_unless_it_is_to_be_replaced(
    put: Put, sweep: SweepDefinition, store: Path, tmp_path: Path
) -> None:
    records = tmp_path / "records"
    for seed in (1, 2):
        put("base", seed, 3)
    record(sweep, store, records)
    before = (records / "papers/base/seed1/result.json").read_bytes()
    shutil.rmtree(store / "papers/base/seed1")
    put("base", 1, 5, decode__beam=7, trainer__max_steps=9)
    found = record(sweep, store, records)
    assert found.refused == {"papers/base/seed1": "decode.beam 4 → 7, trainer.max_steps 100000 → 9"}
    assert (found.written, found.replaced, found.unchanged) == ({}, {}, ["papers/base/seed2"])
    assert (records / "papers/base/seed1/result.json").read_bytes() == before
    found = record(sweep, store, records, replace=True)
    assert (list(found.replaced), found.refused) == (["papers/base/seed1"], {})
    assert RunFolder(records / "papers/base/seed1").config()["decode"]["beam"] == 7


@pytest.mark.slow
def test_what_a_record_leaves_out_makes_no_other_configuration(
    put: Put, sweep: SweepDefinition, store: Path, tmp_path: Path
) -> None:
    records = tmp_path / "records"
    put("base", 1, 3, data__kind="folder")
    record(sweep, store, records)
    shutil.rmtree(store / "papers/base/seed1")
    put("base", 1, 5, data__kind="folder")
    config = store / "papers/base/seed1/config.yaml"
    config.write_text(config.read_text().replace("/home/somebody", "/home/another"))
    moved = RunFolder(config.parent)
    moved.write_result(moved.result() or {})
    found = record(sweep, store, records)
    assert (list(found.replaced), found.refused) == (["papers/base/seed1"], {})


@pytest.mark.slow
@pytest.mark.parametrize("setting", ["/home/somebody/a/steps.csv", {"token": "first"}])
def test_another_training_is_not_taken_for_the_recorded_one_if_their_differences_are_left_out(
    setting: Any, put: Put, sweep: SweepDefinition, store: Path, tmp_path: Path
) -> None:
    records, home = tmp_path / "records", store / "papers/base/seed1"
    put("base", 1, 3, callbacks__mine={"_target_": "mine.Callback", "given": setting})
    record(sweep, store, records)
    assert record(sweep, store, records).unchanged == ["papers/base/seed1"]
    before = (records / "papers/base/seed1/result.json").read_bytes()
    shutil.rmtree(home)
    other = "/home/somebody/b/steps.csv" if isinstance(setting, str) else {"token": "second"}
    put("base", 1, 5, callbacks__mine={"_target_": "mine.Callback", "given": other})
    status = json.loads((home / "status.json").read_text())
    (home / "status.json").write_text(json.dumps(status | {"started": "2031-01-01T00:00:00+00:00"}))
    found = record(sweep, store, records)
    (reason,) = found.refused.values()
    key = "callbacks.mine.given" + ("" if isinstance(setting, str) else ".token")
    assert reason == f"it is of another training, whose {key} may differ (records have no paths and secrets)"
    assert (records / "papers/base/seed1/result.json").read_bytes() == before
    assert list(record(sweep, store, records, replace=True).replaced) == ["papers/base/seed1"]


@pytest.mark.slow
@pytest.mark.parametrize("replace", [False, True])
def test_a_trial_run_never_replaces_the_record_of_an_ordinary_one(
    replace: bool, put: Put, sweep: SweepDefinition, store: Path, tmp_path: Path
) -> None:
    records = tmp_path / "records"
    put("base", 1, 3)
    record(sweep, store, records)
    shutil.rmtree(store / "papers/base/seed1")
    put("base", 1, 5, debug__name="limit")
    found = record(sweep, store, records, replace=replace)
    told = "debug=limit is a quick check, which never replaces an ordinary one"
    assert (found.refused, found.replaced) == ({"papers/base/seed1": told}, {})
    shutil.rmtree(records)
    record(sweep, store, records)
    shutil.rmtree(store / "papers/base/seed1")
    put("base", 1, 3)
    found = record(sweep, store, records, replace=replace)
    assert list(found.replaced if replace else found.refused) == ["papers/base/seed1"]


@pytest.mark.slow
@pytest.mark.parametrize("text", ["<<<<<<< HEAD\ntask: translation\n", None])
def test_a_record_whose_configuration_cannot_be_read_is_replaced_only_if_that_is_asked(
    text: str | None, put: Put, sweep: SweepDefinition, store: Path, tmp_path: Path
) -> None:
    records, name = tmp_path / "records", "papers/base/seed1"
    put("base", 1, 3)
    record(sweep, store, records)
    config, result = records / name / "config.yaml", (records / name / "result.json").read_bytes()
    config.unlink() if text is None else config.write_text(text)
    shutil.rmtree(store / name)
    put("base", 1, 5, debug__name="limit")
    for replace in (False, True):
        found = record(sweep, store, records, replace=replace)
        assert found.refused == {name: "debug=limit is a quick check, which never replaces an ordinary one"}
    shutil.rmtree(store / name)
    put("base", 1, 5)
    refused = record(sweep, store, records).refused
    assert refused[name].startswith("it cannot be read (") and (records / name / "result.json").read_bytes() == result
    assert list(record(sweep, store, records, replace=True).replaced) == [name]


@pytest.mark.slow
def test_a_run_of_changed_configurations_does_not_replace_the_record_of_one(
    put: Put, sweep: SweepDefinition, store: Path, tmp_path: Path
) -> None:
    records, name = tmp_path / "records", "papers/base/seed1"
    put("base", 1, 3)
    record(sweep, store, records)
    shutil.rmtree(store / name)
    folder = put("base", 1, 5)
    changed = ["trainer.max_steps 400 → 1000 at step 13"]
    folder.write_result({**(folder.result() or {}), "changed": changed})
    told = f"not the result of one configuration (resume.allow): {changed[0]}"
    assert record(sweep, store, records).refused == {name: told}
    assert list(record(sweep, store, records, replace=True).replaced) == [name]
    assert record(sweep, store, records).unchanged == [name]


@pytest.mark.slow
def test_the_command_counts_what_it_replaces_and_fails_where_it_refuses(
    put: Put, store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sweep = SweepConfig(name="papers", rows=["base", "good"], seeds=[1])
    config = RecordConfig(sweep=sweep, runs=str(store), records=str(tmp_path / "records"))
    (tmp_path / "conf/variation").mkdir(parents=True)
    put("base", 1, 3)
    show(config)
    assert capsys.readouterr().out.endswith("1 recorded, 0 replaced, 0 unchanged, 1 not finished\n")
    put("base", 1, 5)
    show(config)
    home = tmp_path / "records/papers/base/seed1"
    assert re.search(rf"^{home}: \d+ kB, replaced$", said := capsys.readouterr().out, re.M)
    assert said.endswith("0 recorded, 1 replaced, 0 unchanged, 1 not finished\n")
    shutil.rmtree(store / "papers/base/seed1")
    put("base", 1, 5, decode__beam=7)
    put("good", 1, 5)
    with pytest.raises(UserError) as told:
        show(config)
    assert str(told.value) == (
        "1 run is not recorded, because it must not replace what is there:\n"
        f"  - {home}: decode.beam 4 → 7\n"
        "Record them elsewhere (records=FOLDER). replace=true replaces records, but no runs, and no ordinary records "
        "by quick checks."
    )
    assert capsys.readouterr().out.endswith("1 recorded, 0 replaced, 0 unchanged, 0 not finished\n")


@pytest.mark.parametrize("own", ["checkpoints", "metrics.jsonl", "lease-3.json"])
def test_a_run_is_never_replaced_by_a_record(own: str, put: Put, store: Path, tmp_path: Path) -> None:
    put("base", 1, 3)
    sweep = define(SweepConfig(name="papers", rows=["base"], seeds=[1]), conf=tmp_path, store=store)
    others = tmp_path / "others"
    home = others / "papers" / "base" / "seed1"
    record(sweep, store, others)
    (home / own).write_text("of a run")
    for replace in (False, True):
        found = record(sweep, store, others, replace=replace)
        assert found.refused == {"papers/base/seed1": f"it is a run, not a record: it has {own}"}
    assert (home / own).read_text() == "of a run"


@pytest.mark.slow
def test_a_damaged_run_does_not_replace_its_record(
    put: Put,
    sweep: SweepDefinition,
    store: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    fill(put)
    records = tmp_path / "records"
    record(sweep, store, records)
    kept = (records / "papers" / "base" / "seed1" / "result.json").read_bytes()
    folder = RunFolder(store / "papers" / "base" / "seed1")
    config = RecordConfig(SweepConfig(name="papers", rows=["base", "good"]), runs=str(store), records=str(records))
    for damaged in ({"scores": 5}, {"scores": {"test": {"bleu": {"value": 250.0}}}}):
        folder.write_result(damaged)
        found = record(sweep, store, records)
        assert list(found.broken) == [str(folder.path)]
        assert (found.written, len(found.unchanged), found.missing) == ({}, 5, [])
        assert (records / "papers" / "base" / "seed1" / "result.json").read_bytes() == kept
        with pytest.raises(UserError, match=f"^1 run is damaged, so it is not recorded:\n  - {folder.path}: "):
            show(config)
    assert capsys.readouterr().out.endswith("unchanged, 0 not finished, 1 damaged\n")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("hypotheses/test.hyp", None, "no stored hypotheses (test.hyp)"),
        ("hypotheses/test.hyp", "Der Hund\n", "there are 1 and 40"),
        ("hypotheses/test.hyp", "Der Hund\n" * 40, "but that of its stored sentences, which are tested, is"),
        ("metrics.jsonl", "", "metrics.jsonl is empty"),
        ("metrics.jsonl", "garbage\n{}\n", "not JSON"),
        ("environment.json", None, "environment.json is missing"),
    ],
)
def test_a_run_that_has_lost_what_its_score_was_computed_from_is_not_recorded(
    name: str, text: str | None, told: str, put: Put, sweep: SweepDefinition, store: Path, tmp_path: Path
) -> None:
    fill(put)
    path = store / "papers" / "base" / "seed1" / name
    path.unlink()
    if text is not None:
        path.write_text(text, encoding="utf-8")
    found = record(sweep, store, tmp_path / "records")
    ((folder, fault),) = found.broken.items()
    assert folder == str(store / "papers" / "base" / "seed1")
    assert told in fault
    assert len(found.written) == 5
    assert not (tmp_path / "records" / "papers" / "base" / "seed1").exists()


@pytest.mark.parametrize("renamed", [1, 2])
def test_a_kill_while_a_record_is_replaced_loses_nothing(
    renamed: int, put: Put, sweep: SweepDefinition, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(put)
    records = tmp_path / "records"
    record(sweep, store, records)
    before = (records / "papers" / "base" / "seed1" / "result.json").read_bytes()
    folder = RunFolder(store / "papers" / "base" / "seed1")
    folder.write_result({**(folder.result() or {}), "seconds": 77.0})
    rename, count = Path.rename, [0]

    def killed(path: Path, target: Path) -> Path:
        count[0] += 1
        if count[0] == renamed:
            raise SystemExit(137)
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", killed)
    monkeypatch.setattr(shutil, "rmtree", lambda *_, **__: None)  # a killed process removes nothing
    with pytest.raises(SystemExit):
        record(sweep, store, records)
    monkeypatch.undo()
    shutil.rmtree(folder.path)  # the former record is all that is left
    found = record(sweep, store, records)
    assert (found.written, found.missing) == ({}, ["papers/base/seed1"])
    assert (records / "papers" / "base" / "seed1" / "result.json").read_bytes() == before
    assert not list(records.rglob(".*"))


@pytest.mark.slow
def test_two_processes_do_not_write_the_same_records(
    put: Put, sweep: SweepDefinition, store: Path, tmp_path: Path
) -> None:
    fill(put)
    folder = tmp_path / "records" / "papers"
    folder.mkdir(parents=True)
    descriptor = os.open(folder, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    with pytest.raises(UserError, match=r"Another process is writing to .*papers: wait for its end"):
        record(sweep, store, tmp_path / "records")
    os.close(descriptor)
    assert len(record(sweep, store, tmp_path / "records").written) == 6


@pytest.mark.slow
@pytest.mark.parametrize("calls", ["os.mkdir", "pathlib.Path.rename", "pathlib.Path.write_bytes", "fcntl.flock"])
def test_records_that_cannot_be_written_are_told_in_a_sentence(
    calls: str, put: Put, sweep: SweepDefinition, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    fill(put)
    records = tmp_path / "records"
    monkeypatch.setattr(calls, refuse)
    with pytest.raises(UserError, match=r"Cannot write .*records/papers.*: Read-only.*; choose .* records=DIR\.$"):
        record(sweep, store, records)
    monkeypatch.undo()
    assert not list(tmp_path.rglob("records/**/.*"))
    assert len(record(sweep, store, records).written) == 6
