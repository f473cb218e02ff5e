"""What is recorded and what is left out; a table of records equals the table of the runs."""

import gzip
import json
import random
import shutil
from pathlib import Path

import pytest
import yaml
from recorded_runs import REFERENCES, SOURCES, Put, fill, table, wrong

from variations.configuration.schema import SweepConfig
from variations.store.ledger import RunFolder
from variations.store.rows import RowDefinition, SweepDefinition, define
from variations.tables.records import measured, published, record


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
    with seen.metrics(found) as read:
        assert read.lines == 2


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
    assert not {"host", "pid", "process"} & json.loads((home / "status.json").read_text()).keys()
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


def test_branch_weights_of_a_long_run_are_recorded_at_fewer_steps_and_nothing_else_is() -> None:
    drawn = random.Random(1)
    lines = [
        {"step": step, "train/loss": drawn.random(), "branch/kappa": [drawn.random() for _ in range(32)]}
        for step in range(1, 22)
    ]
    whole = measured(lines, 100_000)
    assert [json.loads(line) for line in whole.splitlines()] == [
        {**line, "branch/kappa": [float(f"{x:.9g}") for x in line["branch/kappa"]]} for line in lines
    ]
    largest = 1_000
    thinned = measured(lines, largest)
    assert len(gzip.compress(thinned, 9, mtime=0)) <= largest
    read = [json.loads(line) for line in thinned.splitlines()]
    with_weights = [line["step"] for line in read if "branch/kappa" in line]
    assert with_weights == [1, 5, 9, 13, 17, 21], "every fourth line, counted from the last"
    assert read[-1]["branch/kappa"] == [float(f"{x:.3g}") for x in lines[-1]["branch/kappa"]]
    without = [{key: value for key, value in line.items() if key != "branch/kappa"} for line in lines]
    assert [{key: value for key, value in line.items() if key != "branch/kappa"} for line in read] == without
    # what cannot be made small enough keeps all that is not a weight, and the last weights
    assert [json.loads(line) for line in measured(lines, 1).splitlines()] == [*without[:-1], read[-1]]


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


def test_a_record_keeps_the_texts_that_it_has(put: Put, store: Path, tmp_path: Path) -> None:
    put("base", 1, 3)
    sweep = define(SweepConfig(name="papers", rows=["base"], seeds=[1]), conf=tmp_path, store=store)
    records = tmp_path / "records"
    record(sweep, store, records, texts=True)
    assert (records / "papers/base/seed1/hypotheses/test.ref.gz").is_file()
    assert record(sweep, store, records).unchanged == ["papers/base/seed1"]
    assert (records / "papers/base/seed1/hypotheses/test.ref.gz").is_file()


@pytest.mark.slow
def test_a_record_of_the_built_in_corpus_does_not_let_texts_of_another_one_in(
    put: Put, store: Path, tmp_path: Path
) -> None:
    """Its own sentences may be published; those of the corpus that the row has since may not."""
    put("base", 1, 3)
    sweep = define(SweepConfig(name="papers", rows=["base"], seeds=[1]), conf=tmp_path, store=store)
    texts = tmp_path / "records" / "papers" / "base" / "seed1" / "hypotheses"
    record(sweep, store, tmp_path / "records")
    assert (texts / "test.ref.gz").is_file()
    shutil.rmtree(store / "papers")
    put("base", 1, 3, data__kind="folder", data__name="licensed")
    record(sweep, store, tmp_path / "records", replace=True)
    assert [path.name for path in texts.glob("*.ref*")] == ["test.ref.sha256"] and not [*texts.glob("*.src*")]


def test_a_record_keeps_only_the_texts_that_it_was_given(put: Put, store: Path, tmp_path: Path) -> None:
    """`texts=true` was typed for the former references, not for those that the run has since."""
    put("base", 1, 3, data__kind="folder")
    sweep = define(SweepConfig(name="papers", rows=["base"], seeds=[1]), conf=tmp_path, store=store)
    texts = tmp_path / "records" / "papers" / "base" / "seed1" / "hypotheses"
    record(sweep, store, tmp_path / "records", texts=True)
    assert record(sweep, store, tmp_path / "records").unchanged and (texts / "test.ref.gz").is_file()
    run = store / "papers" / "base" / "seed1" / "hypotheses"
    for side in ("src", "ref", "hyp"):
        shutil.copy(run / f"test.{side}", run / f"other.{side}")
    found = record(sweep, store, tmp_path / "records")
    assert not found.broken, found
    assert (texts / "test.ref.gz").is_file() and (texts / "other.ref.sha256").is_file()
    assert not (texts / "other.ref.gz").exists() and not (texts / "other.src.gz").exists()
    (run / "test.src").write_text("".join(f"{line} indeed\n" for line in SOURCES), encoding="utf-8")
    record(sweep, store, tmp_path / "records")
    assert not (texts / "test.src.gz").exists() and not (texts / "test.ref.gz").exists()


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
