"""Runs that another sweep has finished are copied instead of trained again (`sweep.shares`)."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from variations.configuration.compose import compose_run, to_dict
from variations.planning.rows import launch
from variations.store import atomic
from variations.store.atomic import read_json, write_json, write_yaml
from variations.store.checksums import file_sha256, sidecar
from variations.store.contents import sealed
from variations.store.identity import changed_keys
from variations.store.lease import Record, read
from variations.store.ledger import RunFolder
from variations.sweeping import copies
from variations.sweeping.job import Job
from variations.sweeping.jobs import composed_jobs, expand
from variations.sweeping.outcomes import Outcome
from variations.system.errors import ConfigError

pytestmark = pytest.mark.slow
Row = Callable[..., Outcome]


@pytest.fixture
def row(tmp_path: Path) -> Row:
    """Make an outcome: `row("mine", "b", "seed=2", shares=["other"])`."""

    def make(sweep: str, name: str, *changes: str, shares: tuple[str, ...] = ("other",)) -> Outcome:
        config = compose_run([f"runs={tmp_path}", "sweep=quickstart", *changes])
        own = replace(config.sweep, name=sweep, shares=list(shares))
        config = replace(config, sweep=own, variation=replace(config.variation, table=sweep, row=name, label=name))
        return Outcome.of(Job(name, config.seed, (), config, tmp_path / sweep / name / f"seed{config.seed}"))

    return make


@pytest.fixture
def source(row: Row) -> RunFolder:
    """A finished run of the sweep `other` with one of each kind of file."""
    outcome = row("other", "a")
    folder = outcome.folder.create(to_dict(outcome.job.config))
    folder.measurements.append({"step": 1, "loss": 2.5})
    for part in ("src", "ref", "hyp"):
        (folder.hypotheses / f"test.{part}").write_text("eins zwei drei vier\n", encoding="utf-8")
    folder.write_environment({"cpu": "EPYC"})
    (folder.checkpoints / "step1.ckpt").write_bytes(b"weights")
    sidecar(folder.checkpoints / "step1.ckpt").write_text(
        f"{file_sha256(folder.checkpoints / 'step1.ckpt')}  step1.ckpt"
    )
    (folder.path / "subwords.model").write_text("pieces", encoding="utf-8")
    (folder.path / "log.txt").write_text("the other's\n", encoding="utf-8")
    (folder.path / "lease-1.json").write_text("{}", encoding="utf-8")
    write_json(
        folder.path / "inputs.json", {"notes.txt": "12", "subwords.model": file_sha256(folder.path / "subwords.model")}
    )
    folder.write_result({"schema": 1, "scores": {"test": {"bleu": 100.0}}})
    folder.set_status("finished", step=1, checkpoint=1)
    return folder


def files(folder: RunFolder) -> dict[str, bytes]:
    found = (path for path in folder.path.rglob("*") if path.is_file())
    return {path.relative_to(folder.path).as_posix(): path.read_bytes() for path in found}


def test_a_run_that_another_sweep_has_finished_is_copied(
    row: Row,
    source: RunFolder,
    control: Any,
    pool: Any,
    capsys: pytest.CaptureFixture[str],
) -> None:
    before, outcome = files(source), row("mine", "b")
    outcome.job.config.variation.sha256 = "of b"
    control([outcome]).step()
    assert (pool.submitted, outcome.state) == ([], "finished")
    assert (
        "b, seed 1: finished, test BLEU 100.00: copied from other/a/seed1, which is the same run"
        in capsys.readouterr().err
    )
    copied = files(outcome.folder)
    for name in ("metrics.jsonl", "hypotheses/test.hyp", "checkpoints/step1.ckpt", "inputs.json"):
        assert copied[name] == before[name]
    assert "log.txt" not in copied
    result = {"copied": "other/a/seed1", "row_file": "of b", "schema": 1, "scores": {"test": {"bleu": 100.0}}}
    assert outcome.folder.result() == sealed(result, outcome.folder.config(), copied["metrics.jsonl"])
    assert outcome.folder.config()["variation"]["row"] == "b"
    assert outcome.folder.finished()
    lease = read(outcome.folder.path)
    assert lease is not None and lease.state == "released"
    assert (source.checkpoints / "step1.ckpt").samefile(outcome.folder.checkpoints / "step1.ckpt")
    assert files(source) == before
    assert Outcome.of(outcome.job).state == "skipped"


def test_the_copy_of_a_copy_names_the_run_that_was_trained(row: Row, source: RunFolder, control: Any) -> None:
    control([row("mine", "b")]).step()
    third = row("third", "c", shares=("mine",))
    control([third]).step()
    assert third.folder.result()["copied"] == "other/a/seed1"  # type: ignore[index]


@pytest.mark.parametrize(
    "changes", [("model.d_ff=64",), ("seed=2",), ("force=true",)], ids=["other keys", "other seed", "forced"]
)
def test_only_the_same_run_is_copied(
    row: Row, source: RunFolder, control: Any, pool: Any, changes: tuple[str, ...]
) -> None:
    control([row("mine", "b", *changes)]).step()
    assert len(pool.submitted) == 1


def test_a_run_that_is_unfinished_tested_only_or_damaged_is_not_copied(row: Row, source: RunFolder) -> None:
    config = row("mine", "b").job.config
    assert copies.same_run(config) is not None
    result = source.result() or {}
    source.write_result({**result, "reused": "../../learned/seed1"})
    assert copies.same_run(config) is None
    source.write_result(result)
    source.set_status("interrupted")
    assert copies.same_run(config) is None
    source.set_status("finished")
    for name, text in (
        ("inputs.json", "{}"),  # not known, as those of a record
        ("inputs.json", "{"),
        ("result.json", '{"scores": {"test": {"bleu": {"value": 250.0}}}}'),
        ("result.json", '{"scores": 5}'),
        ("status.json", "{"),
        ("metrics.jsonl", "garbage\n"),
        ("metrics.jsonl", ""),
        ("hypotheses/test.hyp", "eins zwei drei fünf\n"),
        ("hypotheses/test.hyp", ""),
        ("checkpoints/step1.ckpt", "heights"),
        ("subwords.model", "other pieces"),
    ):
        path = source.path / name
        before = path.read_text(encoding="utf-8")
        path.write_text(text, encoding="utf-8")
        assert copies.same_run(config) is None, text
        path.write_text(before, encoding="utf-8")
    assert copies.same_run(config) is not None


def test_a_record_is_not_copied_although_its_environment_names_its_inputs(row: Row, source: RunFolder) -> None:
    config = row("mine", "b").job.config
    source.write_environment({"data": read_json(source.path / "inputs.json")})
    assert copies.same_run(config) is not None
    (source.path / "inputs.json").unlink()
    assert copies.same_run(config) is None


@pytest.mark.parametrize("name", ["metrics.jsonl", "checkpoints/step1.ckpt", "subwords.model"])
def test_the_sweep_says_why_it_trains_what_is_damaged_elsewhere(
    row: Row, source: RunFolder, control: Any, pool: Any, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    (source.path / name).write_text("garbage\n", encoding="utf-8")
    control([row("mine", "b")]).step()
    told = capsys.readouterr().err
    assert "other/a/seed1, the same run, is not copied, because it is damaged: " in told
    assert Path(name).name in told
    assert pool.submitted == ["b-seed1"]


def test_a_run_of_other_inputs_is_not_copied(row: Row, source: RunFolder, control: Any, pool: Any) -> None:
    write_json(source.path / "inputs.json", {"train.en": "the hash of another text"})
    control([row("mine", "b")]).step()
    assert pool.submitted == ["b-seed1"]


def test_a_run_that_has_begun_by_itself_goes_on_so(row: Row, source: RunFolder, control: Any, pool: Any) -> None:
    outcome = row("mine", "b")
    outcome.folder.create(to_dict(outcome.job.config))
    outcome.folder.set_status("interrupted")
    control([outcome]).step()
    assert pool.submitted == ["b-seed1"]


def test_a_copy_that_was_killed_is_made_again(
    row: Row, source: RunFolder, control: Any, pool: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever file was the last one, what is left is no finished run, and the next sweep completes it."""

    class Killed(BaseException):
        pass

    real, total = atomic.replaced, len(files(source)) - 5  # config, status, result, lease and log are not copied

    def killed_at(number: int) -> Callable[[Path], Any]:
        seen: Iterator[int] = iter(range(100))

        def replaced(path: Path) -> Any:
            if next(seen) == number:
                raise Killed
            return real(path)

        return replaced

    for number in range(total):
        outcome = row("mine", f"b{number}")
        monkeypatch.setattr(copies, "replaced", killed_at(number))
        with pytest.raises(Killed):
            control([outcome]).step()
        assert not outcome.folder.finished()
        outcome.lease.release()  # type: ignore[union-attr]  # as it expires
        monkeypatch.setattr(copies, "replaced", real)
        again = Outcome.of(outcome.job)
        control([again]).step()
        assert (again.state, again.folder.finished()) == ("finished", True)
        assert files(again.folder)["metrics.jsonl"] == files(source)["metrics.jsonl"]
    assert pool.submitted == []


TAKE_OVER = (
    "import sys; from pathlib import Path; from variations.store.lease import Lease, read\n"
    "folder = Path(sys.argv[1])\n"
    "assert Lease.claim(folder, read(folder), 'running') is not None\n"
)


def take_over(folder: Path) -> None:
    """Take a run over as another process does that has judged its lease free."""
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2] / "src")}
    subprocess.run([sys.executable, "-c", TAKE_OVER, str(folder)], check=True, env=environment)


def test_the_lease_is_renewed_while_a_run_is_copied(
    row: Row, source: RunFolder, control: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome, found = row("mine", "b"), list[Record]()
    outcome.job.config.sweep.lease_seconds = 0.6
    copyfile = shutil.copyfile

    def slow(*files: Path) -> None:
        while (record := read(outcome.folder.path)) is None or record.beat < 2:
            assert record is not None and record.state == "running"
            time.sleep(0.05)
        found.append(record)
        copyfile(*files)

    monkeypatch.setattr(copies.shutil, "copyfile", slow)
    control([outcome]).step()
    assert found and outcome.state == "finished"
    lease = read(outcome.folder.path)
    assert lease is not None and lease.state == "released"


def test_a_sweep_that_loses_a_run_while_it_copies_it_writes_nothing_more(
    row: Row, source: RunFolder, control: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome, before = row("mine", "b"), list[dict[str, bytes]]()
    outcome.job.config.sweep.lease_seconds = 600.0  # no renewal notices it first
    copyfile = shutil.copyfile

    def slow(*files_: Path) -> None:
        copyfile(*files_)
        if not before:
            take_over(outcome.folder.path)
            before.append(files(outcome.folder))

    monkeypatch.setattr(copies.shutil, "copyfile", slow)
    control([outcome]).step()
    assert outcome.state == "elsewhere"
    assert [files(outcome.folder)] == before
    assert not outcome.folder.finished()


def test_a_sweep_that_loses_a_run_while_it_compares_files_copies_nothing(
    row: Row, source: RunFolder, control: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome = row("mine", "b")

    def slow(folder: RunFolder) -> None:
        take_over(outcome.folder.path)

    monkeypatch.setattr(copies, "_fault", slow)
    control([outcome]).step()
    assert outcome.state == "elsewhere"
    assert sorted(files(outcome.folder)) == ["lease-2.json"]


def test_the_remnants_of_a_killed_copy_are_removed(row: Row, source: RunFolder, control: Any) -> None:
    (source.path / "wandb").mkdir()
    (source.path / "wandb" / "notes.txt").write_text("theirs", encoding="utf-8")
    outcome = row("mine", "b")
    outcome.folder.create(to_dict(outcome.job.config))
    for name in (
        ".metrics.jsonl.77-0a.tmp",
        "hypotheses/.test.hyp.77-0a.tmp",
        "checkpoints/.step1.ckpt.77-0a.tmp",
        "wandb/.notes.txt.77-0a.tmp",
        "checkpoints/weights1.pt.sha256",
    ):
        path = outcome.folder.path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("half", encoding="utf-8")
    control([outcome]).step()
    assert outcome.folder.finished()
    own = {"config.yaml", "status.json", "result.json", "log.txt", "lease-1.json", "lease-2.json"}
    assert {*files(outcome.folder)} - own == {*files(source)} - own


def test_checkpoints_of_training_come_last(row: Row, source: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a kill leaves may be continued as a run; then the weights that are averaged at its end must be there."""
    (source.checkpoints / "weights1.pt").write_bytes(b"weights")
    (source.checkpoints / "best1.pt").write_bytes(b"weights")
    order: list[str] = []

    def noted(path: Path) -> Any:
        order.append(path.name)
        return atomic.replaced(path)

    monkeypatch.setattr(copies, "replaced", noted)
    made = row("mine", "b").folder.create({})
    copies.copy(source, made)
    assert (order[0], order[-1]) == ("metrics.jsonl", "step1.ckpt")
    assert {"weights1.pt", "best1.pt"} < set(order)
    copies.copy(source, made)  # after a kill of the first one
    assert not list(made.path.rglob(".*.tmp"))


def test_checkpoints_are_copied_where_they_cannot_be_linked(
    row: Row, source: RunFolder, control: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome = row("mine", "b")

    def refused(*_: Any) -> None:
        raise PermissionError("no links here")

    monkeypatch.setattr(os, "link", refused)
    copies.copy(source, outcome.folder.create(to_dict(outcome.job.config)))
    assert (outcome.folder.checkpoints / "step1.ckpt").read_bytes() == b"weights"


def test_a_plan_counts_the_run_as_finished(row: Row, source: RunFolder) -> None:
    outcome = row("mine", "b")
    found = launch(outcome.job.config)
    assert (found.state, found.source) == ("finished", "other/a")
    assert launch(replace(outcome.job.config, seed=2)).state == "absent"
    assert launch(replace(outcome.job.config, force=True)).state == "absent"  # the sweep trains it


def test_the_rows_that_papers_share_are_the_same_runs() -> None:
    """The Transformers of the Weighted paper's Table 2 are rows of the other paper's Table 3."""
    pairs = {"C_transformer": "C_N2", "N4_transformer": "C_N4", "N8_transformer": "C_N8", "B_transformer": "big"}
    weighted = {job.row: job for job in expand(["sweep=toy_weighted_table2", "seeds=[1]"])}
    plain = {job.row: job for job in expand(["sweep=toy_attention_table3", "seeds=[1]"])}
    for row, other in pairs.items():
        assert changed_keys(to_dict(weighted[row].config), to_dict(plain[other].config)) == {}
    assert weighted["A_transformer"].config.sweep.shares == ["toy_attention_table3", "toy_weighted_claims"]


def test_a_sweep_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"sweep\.shares: there is no sweep 'atention_table3'\. Did you mean"):
        composed_jobs(("sweep=quickstart", "sweep.shares=[atention_table3]"))


def test_a_run_with_the_result_of_another_configuration_is_not_copied(
    row: Row, source: RunFolder, control: Any
) -> None:
    config = source.config()
    config["model"]["h"] = 1
    write_yaml(source.path / "config.yaml", config)
    outcome = row("mine", "b")
    outcome.job.config.model.h = 1
    assert copies.same_run(outcome.job.config) is None
