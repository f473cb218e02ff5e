"""The comparison of two runs that each report one of several restarts: computed by hand where exact, else simulated."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import t
from stored_runs import babi_configuration

from variations.configuration.schema import SweepConfig
from variations.store.atomic import write_json, write_yaml
from variations.store.ledger import RunFolder
from variations.store.rows import RowDefinition, define
from variations.tables import chance
from variations.tables.chance import RowTest, SignificanceConfig
from variations.tables.claims.claim import Contrast, Scale
from variations.tables.claims.evidence import Evidence
from variations.tables.collect import Row, SeedRun
from variations.tables.footnotes import star_text
from variations.tables.significance import _between_restarts, across_restarts, across_seeds, paired_bootstrap
from variations.tables.table import build
from variations.tasks.base import Restarts, TestedRun
from variations.tasks.question_answering import measures
from variations.tasks.question_answering.task import TASK

TASKS = list(range(1, 21))
QUESTIONS = 200


def mean(sums: NDArray[Any]) -> NDArray[np.float64]:
    return np.asarray(sums[..., 0] / sums[..., 1])


def one_group(wrong: NDArray[np.bool_], order: list[int]) -> Restarts:
    """Return restarts with mistakes (R, S), best in training first."""
    items = np.stack([wrong, np.ones_like(wrong)], -1).astype(float)
    return Restarts(items, np.zeros(wrong.shape[1], dtype=int), np.array([order]))


def test_equal_restarts_leave_the_chance_in_items_alone() -> None:
    rng = np.random.default_rng(1)
    ours, theirs = (np.repeat(rng.random((1, 400)) < share, 10, axis=0) for share in (0.3, 0.2))
    found = across_restarts(one_group(ours, list(range(10))), one_group(theirs, list(range(10))), mean)
    plain = paired_bootstrap(*(one_group(side, [0]).items[0] for side in (ours, theirs)), mean)
    assert found.difference == plain.difference == pytest.approx(ours[0].mean() - theirs[0].mean())
    assert (found.low, found.high) == pytest.approx((plain.low, plain.high), abs=0.012)  # the width is about 0.12
    assert (found.variance, found.seeds) == (("items", "restarts"), (10, 10))


def test_without_chance_in_items_it_is_students_t_of_one_restart_on_each_side() -> None:
    """Errors of 0, 10, … 90 % against errors of 0: s² = 0.0917 with 9 degrees of freedom, t_0.975 = 2.262."""
    wrong = np.zeros((10, 10), dtype=bool)
    wrong[np.tril_indices(10, -1)] = True
    copies = np.tile(wrong, (1, 500))  # enough items to make their sampling negligible
    base = one_group(np.zeros((10, 5000), dtype=bool), list(range(10)))
    found = across_restarts(one_group(copies, list(range(10))), base, mean)
    assert found.difference == 0
    assert found.high == pytest.approx(2.262 * np.sqrt(0.0917), rel=1e-3)
    assert found.low == -found.high


def test_a_comparison_has_one_interval_and_one_p_in_both_directions() -> None:
    rng = np.random.default_rng(2)
    ours, theirs = (one_group(rng.random((10, 300)) < share, list(range(10))) for share in (0.3, 0.2))
    found, other = across_restarts(ours, theirs, mean), across_restarts(theirs, ours, mean)
    assert (found.difference, found.low, found.high) == pytest.approx((-other.difference, -other.high, -other.low))
    assert found.p == other.p


def test_variances_of_groups_add_up() -> None:
    """Two groups of equal size: each restart of one group moves the mean by half of its own error."""
    one = np.zeros((4, 100), dtype=bool)
    one[1:, :40] = True
    items = np.stack([np.tile(one, (1, 2)), np.ones((4, 200), dtype=bool)], -1).astype(float)
    side = Restarts(items, np.repeat([0, 1], 100), np.tile(np.arange(4), (2, 1)))
    assert _between_restarts(side, mean) == pytest.approx([np.var([0, 0.2, 0.2, 0.2], ddof=1)] * 2)


def test_a_single_restart_has_no_spread() -> None:
    alone = one_group(np.zeros((1, 5), dtype=bool), [0])
    with pytest.raises(ValueError, match="no spread"):
        across_restarts(alone, alone, mean)


def test_chance_differences_are_found_no_more_often_than_the_level_says() -> None:
    rng, hits, trials = np.random.default_rng(3), 0, 200
    for trial in range(trials):
        sides = []
        for _ in range(2):
            hard = rng.random(300)  # same distribution on both sides, restarts of different skill
            skill = rng.normal(0.3, 0.05, (10, 1))
            learned = rng.permutation(10).tolist()  # training error does not predict test error
            sides.append(one_group(hard[None] * 0.5 + rng.random((10, 300)) * 0.5 < skill, learned))
        hits += across_restarts(*sides, mean, n=200, seed=trial).p < 0.05
    assert hits / trials < 0.1  # 0.05 plus three standard errors of 200 trials


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Two rows of ten restarts over twenty tasks: `bow` has about 30 % mistakes, `pe` about 20 %."""
    for row, share in (("pe", 0.2), ("bow", 0.3)):
        path = tmp_path / "babi_memn2n_1k" / row / "seed1"
        path.mkdir(parents=True)
        rng = np.random.default_rng(len(row))
        wrong = {task: rng.random((10, QUESTIONS)) < share for task in TASKS}
        measures.keep(
            RunFolder(path), {f"wrong_{task}": values for task, values in wrong.items()}, dict.fromkeys(TASKS, 4)
        )
        (path / "metrics.jsonl").write_text('{"step": 1}\n')
        errors, losses = [1.0] * 10, [0.5] * 10
        losses[4] = 0.1
        networks = {str(task): {"train_error": errors, "train_loss": losses, "chosen": 4} for task in TASKS}
        write_yaml(path / "config.yaml", babi_configuration(TASKS))
        write_json(path / "status.json", {"state": "finished", "step": 1})
        scores = measures.scores(wrong, dict.fromkeys(TASKS, 4))
        write_json(path / "environment.json", {})
        write_json(path / "result.json", {"scores": {"test": scores}, "loss": {}, "networks": networks})
    return tmp_path


def test_the_reported_restart_comes_first_in_every_group(store: Path) -> None:
    folder = RunFolder(store / "babi_memn2n_1k" / "pe" / "seed1")
    run = TestedRun(folder, folder.config(), folder.result() or {})
    found = TASK.restarts(run, TASK.measure("test.error"))
    assert found is not None
    assert found.items.shape == (10, 20 * QUESTIONS, 40)
    assert found.order[:, 0].tolist() == [4] * 20
    assert np.array_equal(found.items[4], TASK.items(run, TASK.measure("test.error")))
    places = [sorted(map(str, TASKS)).index(str(task)) for task in TASKS]  # the order of the JSON keys
    assert found.group.tolist() == np.repeat(places, QUESTIONS).tolist()


def test_a_table_marks_a_difference_of_one_seed_by_its_restarts(store: Path) -> None:
    sweep = define(SweepConfig(name="babi_memn2n_1k", table="babi_memn2n_1k", rows=["pe", "bow"], metric="error"))
    table = build(sweep, store, SignificanceConfig(n=200))
    test = table.lines[1].test
    assert test is not None
    assert (test.significant, test.across.variance) == (True, ("items", "restarts"))
    assert test.across.low < 10 < test.across.high
    assert any("chance in questions and between restarts together" in remark for remark in table.remarks)


def test_a_row_without_runs_and_without_a_file_is_not_said_to_be_of_another_task(store: Path) -> None:
    (store / "babi_memn2n_1k").rename(store / "own")
    (store / "own" / "bow" / "seed1").rename(store / "own" / "bow" / "seed2")
    table = build(define(SweepConfig(name="own", metric="error"), seeds=[1], store=store), store)
    absent, present = sorted(table.lines, key=lambda line: line.seeds)
    assert (absent.seeds, present.seeds) == ("0/1", "1/1")
    assert not any("task" in note for line in table.lines for note in line.notes)


def test_fewer_errors_are_an_advantage_in_a_claim(store: Path) -> None:
    contrast = Contrast("memn2n_1k", "better", "pe", "bow", measure="test.error", margin=0.5)
    outcome = Evidence(store, SignificanceConfig(n=200)).outcome(contrast, Scale("bAbI", "babi_"))
    assert outcome is not None
    assert outcome.finding is not None
    assert outcome.finding.low < outcome.finding.effect < outcome.finding.high
    assert outcome.finding.effect == pytest.approx(10, abs=2)
    assert (outcome.bearing, outcome.finding.seeds, outcome.finding.restarts) == ("supports", (10, 10), True)


def failing(folder: Path, seed: int, mistakes: dict[int, int]) -> SeedRun:
    """A run with so many mistakes in 1,000 questions of each task; a task with more than 50 has failed."""
    (run := RunFolder(folder / f"seed{seed}")).path.mkdir(parents=True)
    wrong = {task: np.arange(1000)[None] < count for task, count in mistakes.items()}
    measures.keep(run, {f"wrong_{task}": values for task, values in wrong.items()}, dict.fromkeys(mistakes, 0))
    scores = measures.scores(wrong, dict.fromkeys(mistakes, 0))
    config = {"task": "question_answering"}
    return SeedRun(seed, "finished", None, run.path, config, {"scores": {"test": scores}})


def test_a_seed_whose_questions_show_no_chance_leaves_the_test_over_seeds_as_it_is(tmp_path: Path) -> None:
    """Failed tasks 1, 2 and 0 against 3, 3 and 3: no draw of questions changes those counts, but seeds differ."""
    mistakes = ({1: 0, 2: 0, 3: 400}, {1: 0, 2: 300, 3: 400}, {1: 0, 2: 0, 3: 0})
    ours = Row(RowDefinition("ours", "ours"), [failing(tmp_path / "ours", k, each) for k, each in enumerate(mistakes)])
    all_fail = dict.fromkeys((1, 2, 3), 400)
    base = Row(RowDefinition("base", "base"), [failing(tmp_path / "base", k, all_fail) for k in range(3)])
    test = chance.Tester(SignificanceConfig(), TASK, TASK.measure("test.failed")).against(ours, base)
    assert isinstance(test, RowTest)
    # Differences -2, -1, -3: variance 1 of three seeds on one side and 0 on the other, pooled over 4 degrees of freedom
    half = t.ppf(0.975, 4) * np.sqrt(0.5 * (1 / 3 + 1 / 3))
    assert (test.across.low, test.across.high) == pytest.approx((-2 - half, -2 + half))
    assert [*test.seeds] == [0, 1, 2] and test.agreeing_seeds == 0
    assert test.document()["seeds"] == {"0": None, "1": None, "2": None}
    alone = chance.Tester(SignificanceConfig(), TASK, TASK.measure("test.failed"))
    told = alone.against(replace(ours, runs=ours.runs[:1]), base)
    assert told == (
        "not tested: chance in the questions cannot be estimated: all of them differ alike, which shows no spread"
    )


def test_a_mark_is_explained_by_the_chance_that_its_tests_cover() -> None:
    rng = np.random.default_rng(0)

    def side(share: float, count: int) -> Restarts:
        return one_group(rng.random((count, 500)) < share, list(range(count)))

    restarts = across_restarts(side(0.2, 5), side(0.5, 5), mean)
    seeds = across_seeds([*side(0.2, 3).items], [*side(0.5, 3).items], mean)
    told = {}
    for kinds in ((seeds,), (restarts,), (seeds, restarts)):
        tests = [SimpleNamespace(test=RowTest("error", across, {})) for across in kinds]
        assert all(line.test.significant for line in tests)
        table: Any = SimpleNamespace(
            significance=SignificanceConfig(), primary=SimpleNamespace(items="questions"), lines=tests
        )
        told[kinds] = star_text(table).partition(" in a test ")[2].partition(" (")[0]
    assert [*told.values()] == [
        "of the difference of means over seeds that covers chance in seeds and in questions",
        "that covers chance in restarts and in questions",
        "that covers chance in seeds, or of one seed in its restarts, and in questions",
    ]
