"""Rows that test another row's weights: when they wait, when they train, and that the result is the same."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from variations.commands import run
from variations.configuration.compose import compose_run, to_dict
from variations.store.ledger import RunFolder
from variations.store.naming import run_folder
from variations.store.reuse import hindrances
from variations.sweeping.job import Job
from variations.sweeping.jobs import expand
from variations.sweeping.outcomes import Outcome
from variations.sweeping.sources import Sources
from variations.system.errors import UserError
from variations.tasks.translation.config import TranslationConfig
from variations.training.weights import load_network

Changes = Callable[..., list[str]]


@pytest.fixture
def table(tmp_path: Path) -> list[Outcome]:
    """Table 3 of the Weighted Transformer on the built-in corpus, with two seeds; no run has been started."""
    return [Outcome.of(job) for job in expand(["sweep=toy_weighted_table3", "seeds=[1,2]", f"runs={tmp_path}"])]


def one(outcomes: list[Outcome], row: str, seed: int) -> Outcome:
    return next(o for o in outcomes if (o.job.row, o.job.seed) == (row, seed))


def source(outcomes: list[Outcome], row: str, seed: int) -> Any:
    outcome = one(outcomes, row, seed)
    return Sources(outcomes).configuration(outcome)["variation"]["source"]


def finish(outcome: Outcome) -> None:
    outcome.folder.create(to_dict(outcome.job.config)).write_result({"schema": 1})
    outcome.folder.set_status("finished")
    outcome.state = "finished"


@pytest.mark.slow
def test_rows_wait_for_the_row_of_the_same_seed(table: list[Outcome]) -> None:
    sources = Sources(table)
    assert sources.ready(one(table, "learned", 1))
    assert not sources.ready(one(table, "random", 1))
    finish(one(table, "learned", 1))
    assert sources.ready(one(table, "random", 1))
    assert not sources.ready(one(table, "random", 2))
    assert source(table, "random", 1) == "../../learned/seed1"
    assert source(table, "uniform", 1) == "../../learned/seed1"


@pytest.mark.slow
def test_a_row_whose_source_failed_trains_by_itself(table: list[Outcome]) -> None:
    one(table, "learned", 1).state = "failed"
    assert Sources(table).ready(one(table, "uniform", 1))
    assert source(table, "uniform", 1) is None


@pytest.mark.slow
def test_a_row_whose_source_was_interrupted_waits_for_the_same_command(table: list[Outcome]) -> None:
    """Else the row would train a network of its own, and the table would have three instead of one."""
    one(table, "learned", 1).state = "interrupted"
    sources, waiting = Sources(table), one(table, "uniform", 1)
    assert not sources.ready(waiting)
    assert sources.stopped(waiting) == "learned, seed 1, whose weights it tests, was interrupted"
    assert sources.stopped(one(table, "uniform", 2)) is None and sources.stopped(one(table, "learned", 2)) is None


@pytest.mark.slow
def test_a_source_outside_the_sweep_is_found_in_the_store(table: list[Outcome]) -> None:
    alone = [one(table, "uniform", 1)]
    assert Sources(alone).ready(alone[0])
    assert source(alone, "uniform", 1) is None
    assert str(Sources(alone).refusal(alone[0])).endswith("that run is missing or not finished.")
    assert Sources(alone).refusal(one(table, "learned", 1)) is None
    finish(one(table, "learned", 1))
    assert source(alone, "uniform", 1) == "../../learned/seed1"
    assert Sources(alone).refusal(alone[0]) is None


@pytest.mark.slow
def test_a_source_that_tests_another_rows_weights_leads_to_that_row(table: list[Outcome]) -> None:
    first, second, third = (one(table, row, 1) for row in ("learned", "random", "uniform"))
    third.job.config.variation.reuse = "random"
    finish(first)
    finish(second)
    second.folder.write_result({"schema": 1, "reused": "../../learned/seed1"})
    assert source([third], "uniform", 1) == "../../learned/seed1"
    first.folder.set_status("failed")
    assert source([third], "uniform", 1) is None


@pytest.mark.slow
def test_a_row_that_has_trained_by_itself_goes_on_so(table: list[Outcome]) -> None:
    finish(one(table, "learned", 1))
    row = one(table, "uniform", 1)
    row.folder.create(to_dict(row.job.config))
    (row.folder.checkpoints / "step10.ckpt").touch()
    assert source(table, "uniform", 1) is None


@pytest.mark.slow
def test_reuse_can_be_switched_off(tmp_path: Path) -> None:
    words = ["sweep=toy_weighted_table3", f"runs={tmp_path}", "sweep.reuse=false"]
    outcomes = [Outcome.of(job) for job in expand(words)]
    assert Sources(outcomes).ready(one(outcomes, "random", 1))


@pytest.mark.slow
def test_what_was_trained_otherwise_is_not_reused(table: list[Outcome]) -> None:
    row = one(table, "random", 1)
    longer = replace(row.job.config, trainer=replace(row.job.config.trainer, max_steps=1000))
    assert hindrances(to_dict(longer), to_dict(one(table, "learned", 1).job.config)) == ["trainer.max_steps"]
    finish(one(table, "learned", 1))
    row.job = Job(row.job.row, 1, (), longer, row.job.folder)
    assert Sources(table).ready(row)
    assert source(table, "random", 1) is None
    assert str(Sources(table).refusal(row)).endswith("their trainings differ (trainer.max_steps).")


@pytest.fixture
def weighted(corpus: Path, tmp_path: Path) -> Callable[..., TranslationConfig]:
    def make(name: str, *changes: str) -> TranslationConfig:
        words = [
            "model=weighted", "data=files", f"data.root={corpus}", "data.vocabulary=48", "data.max_length=64",
            "model.d_model=16", "model.d_ff=32", "model.h=2", "model.N=1", "recipe.batch_tokens=512",
            "recipe.warmup=10", "trainer.max_steps=12", "trainer.val_bleu=0", "trainer.progress=false",
            "trainer.threads=1", "trainer.limit_test=3", "decode.beam=1", "logger=none", f"name={name}",
            "branch.warmup=2", "branch.freeze_last=2", f"runs={tmp_path / 'runs'}",
        ]  # fmt: skip
        return compose_run([*words, *changes])

    return make


@pytest.mark.slow
@pytest.mark.parametrize("branch", ["random", "uniform_at_test"])
def test_testing_the_others_weights_gives_the_result_of_training_anew(
    branch: str, weighted: Callable[..., TranslationConfig], tmp_path: Path
) -> None:
    learned = run.execute(weighted("learned"))
    alone = run.execute(weighted("alone", f"branch={branch}"))
    reused = run.execute(weighted("reused", f"branch={branch}", "variation.source=../../learned/seed1"))
    one, other = RunFolder(alone).result(), RunFolder(reused).result()
    assert one is not None and other is not None
    assert (one["reused"], other["reused"]) == (None, "../../learned/seed1")
    for key in ("scores", "loss", "steps", "parameters", "source_tokens", "target_tokens", "flops", "averaged_steps"):
        assert one[key] == other[key], key
    trained = RunFolder(learned).result()
    assert trained is not None and one["loss"] != trained["loss"]
    assert other["seconds"] == trained["seconds"]  # those of its last checkpoint are fewer
    assert not list(RunFolder(reused).checkpoints.glob("*.ckpt"))
    assert load_network(reused)[0].state_dict().keys() == load_network(learned)[0].state_dict().keys()

    (learned / "status.json").unlink()
    (reused / "status.json").unlink()
    with pytest.raises(UserError, match="missing or not finished"):
        run.run(reused)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("average", "lost", "told"),
    [
        (1, "step12.ckpt", r"whose last checkpoint \(step12\.ckpt\) is missing or damaged: restore it"),
        (2, "weights10.pt", "the weights of step 10 are missing or damaged, but are part of the average"),
    ],
)
@pytest.mark.parametrize("damaged", [True, False])
def test_older_weights_of_the_other_run_are_not_tested_in_place_of_lost_ones(
    damaged: bool, average: int, lost: str, told: str, weighted: Callable[..., TranslationConfig]
) -> None:
    words = (f"recipe.average={average}", "recipe.average_every=2", "trainer.val_every=3")
    path = run.execute(weighted("learned", *words)) / "checkpoints" / lost
    path.write_bytes(path.read_bytes()[:-9]) if damaged else path.unlink()
    config = weighted("reused", "branch=random", "variation.source=../../learned/seed1", *words)
    with pytest.raises(UserError, match=told):
        run.execute(config)
    row = RunFolder(run_folder(config))
    assert row.result() is None and not list(row.path.rglob("*.ckpt"))
