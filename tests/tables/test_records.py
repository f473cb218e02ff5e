"""Records: what is copied, what is removed, and that a table of records equals the table of the runs."""

import errno
import fcntl
import gzip
import json
import os
import random
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sacrebleu
import yaml

from variations.commands.record import RecordConfig, show
from variations.configuration.schema import SweepConfig
from variations.store.ledger import RunFolder
from variations.store.rows import RowDefinition, SweepDefinition, define
from variations.system.errors import UserError
from variations.tables.chance import SignificanceConfig
from variations.tables.formats import render
from variations.tables.records import published, record
from variations.tables.table import build

Put = Callable[..., RunFolder]
REFERENCES = [f"Der Hund sieht das {word} im alten Garten ." for word in ("Haus", "Tier", "Kind", "Buch", "Dach")] * 8
SOURCES = [f"The dog sees the {word} ." for word in ("house", "animal", "child", "book", "roof")] * 8


def wrong(every: int) -> list[str]:
    return [line.replace("alten", "neuen") if at % every == 0 else line for at, line in enumerate(REFERENCES)]


def bleu(hypotheses: list[str]) -> float:
    return sacrebleu.corpus_bleu(hypotheses, [REFERENCES]).score


@pytest.fixture
def sweep(tmp_path: Path) -> SweepDefinition:
    return define(SweepConfig(name="papers", rows=["base", "good"], seeds=[1, 2, 3]), conf=tmp_path / "conf")


@pytest.fixture
def put(make_run: Any, configuration: Callable[..., dict[str, Any]]) -> Put:
    def one(row: str, seed: int, every: int, **keys: Any) -> RunFolder:
        config = configuration(runs="/home/somebody/runs", data__root="/home/somebody/corpora/mine", **keys)
        metrics = [{"step": step, "dev/nll": 0.5} for step in (800, 1000)]
        folder: RunFolder = make_run(
            "papers",
            row,
            seed,
            bleu(wrong(every)),
            config=config,
            metrics=metrics,
            texts=(SOURCES, REFERENCES, wrong(every)),
        )
        folder.write_environment({"host": "tower", "git": {"remote": "ssh://me@h/x", "commit": "abc"}, "cpu": "EPYC"})
        return folder

    return one


def table(sweep: SweepDefinition, store: Path) -> str:
    return render(build(sweep, store, SignificanceConfig(n=100)), "markdown")


def fill(put: Put, **keys: Any) -> None:
    for seed in (1, 2, 3):
        put("base", seed, 2 + seed, **keys)
        put("good", seed, 7 + seed, **keys)


@pytest.mark.slow
def test_a_table_of_records_is_the_table_of_the_runs(
    put: Put, sweep: SweepDefinition, store: Path, tmp_path: Path
) -> None:
    fill(put)
    done = record(sweep, store, tmp_path / "records")
    assert sorted(done.written) == [f"papers/{row}/seed{seed}" for row in ("base", "good") for seed in (1, 2, 3)]
    assert max(done.written.values()) < 20_000
    assert table(sweep, tmp_path / "records") == table(sweep, store)


@pytest.mark.slow
def test_every_reader_takes_a_record_for_a_run(put: Put, sweep: SweepDefinition, store: Path, tmp_path: Path) -> None:
    from variations.dashboard.metrics import Metrics, glance
    from variations.dashboard.store import Store

    fill(put)
    records = tmp_path / "records"
    record(sweep, store, records)
    run, copy = (RunFolder(root / "papers/good/seed2") for root in (store, records))
    assert copy.measurements.read() == run.measurements.read() != []
    assert glance(copy.measurements.path) == glance(run.measurements.path)
    measured = Metrics(copy.measurements.path)
    for _ in range(2):
        measured.update()
        assert measured.scalars == {"dev/nll": ([0, 1], [0.5, 0.5])}
    seen = Store(records)
    found = seen.find("papers/good/seed2")
    assert seen.outputs(found, "test") == list(zip(SOURCES, REFERENCES, wrong(9), strict=True))
    assert seen.metrics(found).lines == 2


@pytest.mark.slow
def test_a_corpus_of_others_is_told_by_hash_and_sums_alone(
    put: Put, sweep: SweepDefinition, store: Path, tmp_path: Path
) -> None:
    fill(put, data__kind="multi30k", data__name="multi30k")
    records = tmp_path / "records"
    record(sweep, store, records)
    home = records / "papers/good/seed1"
    names = sorted(path.name for path in (home / "hypotheses").iterdir())
    assert names[:2] == ["test.bleu.counts.npy.gz", "test.bleu_lc.counts.npy.gz"]
    assert names[-2:] == ["test.hyp.gz", "test.ref.sha256"]
    everything = b"".join(path.read_bytes() for path in home.rglob("*") if path.suffix in {".json", ".yaml", ".jsonl"})
    assert b"animal" not in everything
    assert json.loads((home / "baselines.json").read_text()).keys() == {"test"}
    assert table(sweep, records) == table(sweep, store)


@pytest.mark.slow
def test_places_hosts_and_secrets_stay_away(put: Put, sweep: SweepDefinition, store: Path, tmp_path: Path) -> None:
    fill(put, logger__entity="api_key=abcdef1234567890")
    records = tmp_path / "records"
    record(sweep, store, records)
    home = records / "papers/base/seed1"
    text = "".join(path.read_text() for path in home.iterdir() if path.suffix in {".json", ".yaml"})
    for word in ("/home/somebody", "tower", "abcdef1234567890", "me@h", str(store)):
        assert word not in text, word
    found = RunFolder(home)
    assert (found.config()["runs"], found.config()["data"]["root"]) == ("runs", "mine")
    assert (found.environment() or {})["git"] == {"commit": "abc"}
    assert found.state() == "finished"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("runs=/home/me/runs", "runs=runs"),
        ("/home/me/x.yaml and ~/data/multi30k/", "x.yaml and "),
        ("https://example.org/a/b", "https://example.org/a/b"),
        ("../../learned/seed1", "../../learned/seed1"),
        ("model/h and 1/M", "model/h and 1/M"),
        ("dropout 50%/40%/30%", "dropout 50%/40%/30%"),
        ("(a)/b/c and x+/y/z", "(a)/b/c and x+/y/z"),
        ("PATH=/usr/bin:/home/me/bin", "PATH=bin:bin"),
        ("['/home/me/x', \"/home/me/y\"]", "['x', \"y\"]"),
    ],
)
def test_a_place_keeps_its_last_name(text: str, found: str) -> None:
    assert published({"key": [text]}) == {"key": [found]}


@pytest.mark.slow
@pytest.mark.parametrize(("lines", "figures"), [(2, 9), (60, 3)])
def test_many_branch_weights_are_recorded_with_fewer_figures(
    lines: int, figures: int, put: Put, sweep: SweepDefinition, store: Path, tmp_path: Path
) -> None:
    drawn = random.Random(1)
    weights = [[drawn.random() for _ in range(1000)] for _ in range(lines)]
    folder = put("base", 1, 3)
    metrics = [{"step": step, "dev/nll": 0.123456789, "branch/a": row} for step, row in enumerate(weights, 1)]
    folder.measurements.path.write_text("".join(f"{json.dumps(line)}\n" for line in metrics), encoding="utf-8")
    folder.write_result(folder.result() or {})
    record(sweep, store, tmp_path / "records")
    stored = tmp_path / "records/papers/base/seed1/metrics.jsonl.gz"
    found = [json.loads(line) for line in gzip.decompress(stored.read_bytes()).decode().splitlines()]
    assert [line["branch/a"] for line in found] == [[float(f"{x:.{figures}g}") for x in row] for row in weights]
    assert {line["dev/nll"] for line in found} == {0.123456789}


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
def test_a_row_whose_name_contains_a_secret_is_not_recorded(put: Put, store: Path, tmp_path: Path) -> None:
    put("callbacks.a.token=abc", 1, 3)
    sweep = SweepDefinition("papers", (RowDefinition("callbacks.a.token=abc", "mine"),))
    found = record(sweep, store, tmp_path / "records")
    assert list(found.refused.values()) == ["the row's name contains what looks like a secret or a path"]
    assert not (tmp_path / "records" / "papers").exists()


@pytest.mark.slow
def test_rows_that_would_be_equal_without_their_paths_are_not_recorded_as_equal(
    put: Put, sweep: SweepDefinition, store: Path, tmp_path: Path
) -> None:
    first, second = (row.row for row in sweep.rows[:2])
    for row, place in ((first, "/a/words.txt"), (second, "/b/words.txt")):
        put(row, 1, 3, callbacks__mine={"_target_": "mine.Callback", "words": place}, variation__row=row)
    found = record(sweep, store, tmp_path / "records")
    assert list(found.written) == [f"papers/{first}/seed1"]
    assert found.refused == {f"papers/{second}/seed1": f"without paths and secrets it would be equal to {first}"}


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
        "by trial runs."
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


def test_a_record_keeps_the_texts_that_it_has(put: Put, store: Path, tmp_path: Path) -> None:
    put("base", 1, 3)
    sweep = define(SweepConfig(name="papers", rows=["base"], seeds=[1]), conf=tmp_path, store=store)
    records = tmp_path / "records"
    record(sweep, store, records, texts=True)
    assert (records / "papers/base/seed1/hypotheses/test.ref.gz").is_file()
    assert record(sweep, store, records).unchanged == ["papers/base/seed1"]
    assert (records / "papers/base/seed1/hypotheses/test.ref.gz").is_file()


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


@pytest.fixture
def records(put: Put, sweep: SweepDefinition, store: Path, tmp_path: Path) -> Path:
    """Records of the sweep's runs."""
    fill(put)
    record(sweep, store, tmp_path / "records")
    return tmp_path / "records"


@pytest.fixture
def copied(records: Path, tmp_path: Path) -> Path:
    """A run store that has them."""
    return Path(shutil.copytree(records, tmp_path / "copied"))


@pytest.mark.slow
def test_a_record_in_a_run_store_is_recorded_as_it_is(sweep: SweepDefinition, records: Path, copied: Path) -> None:
    """Records copied into a run store let a sweep skip their rows; their hypotheses must survive the next recording."""
    contents = {path: path.read_bytes() for path in records.rglob("*") if path.is_file()}
    assert any("hypotheses" in path.parts for path in contents)
    found = record(sweep, copied, records)
    assert found.written == {} and found.unchanged
    assert {path: path.read_bytes() for path in records.rglob("*") if path.is_file()} == contents


@pytest.mark.slow
def test_a_record_that_a_sweep_has_copied_says_nothing_of_the_machine(
    sweep: SweepDefinition, copied: Path, tmp_path: Path
) -> None:
    """The copy has a configuration and a status of its own, and a lease."""
    for run in copied.glob("*/*/seed*"):
        config = yaml.safe_load((run / "config.yaml").read_text(encoding="utf-8"))
        config["data"]["cache"] = "/home/somebody/cache"
        (run / "config.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
        RunFolder(run).write_result(json.loads((run / "result.json").read_text(encoding="utf-8")))
        (run / "lease-1.json").write_text('{"state": "released", "host": "somebodys"}', encoding="utf-8")
    found = record(sweep, copied, tmp_path / "again")
    assert found.written and not found.broken
    files = [path for path in (tmp_path / "again").rglob("*") if path.is_file()]
    assert not [path for path in files if path.name.startswith("lease-")]
    assert not [path for path in files if path.suffix == ".yaml" and "somebody" in path.read_text(encoding="utf-8")]


@pytest.mark.slow
def test_texts_of_ones_own_are_recorded_if_that_is_asked(
    put: Put, sweep: SweepDefinition, store: Path, tmp_path: Path
) -> None:
    fill(put, data__kind="folder")
    record(sweep, store, tmp_path / "records")
    texts = tmp_path / "records" / "papers" / "base" / "seed1" / "hypotheses"
    assert [path.name for path in texts.glob("*.ref*")] == ["test.ref.sha256"] and not [*texts.glob("*.src*")]
    before = table(sweep, tmp_path / "records")
    record(sweep, store, tmp_path / "records", texts=True)
    for side, lines in (("ref", REFERENCES), ("src", SOURCES)):
        assert gzip.decompress((texts / f"test.{side}.gz").read_bytes()).decode().splitlines() == lines
    assert table(sweep, tmp_path / "records") == before
    record(sweep, tmp_path / "records", tmp_path / "without")  # of the records
    without = [path.name for path in (tmp_path / "without").rglob("test.*.gz")]
    assert "test.hyp.gz" in without and not {"test.src.gz", "test.ref.gz"} & set(without)
    assert table(sweep, tmp_path / "without") == before
