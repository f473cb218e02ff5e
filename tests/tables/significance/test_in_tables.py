"""Differences in tables have tests, over seeds and sentences, and say what they leave out."""

import itertools
import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from spoiled_text import REFERENCES, SETTINGS, SOURCES, cells, score, sentences, spoiled

from variations.configuration.schema import SweepConfig
from variations.store.ledger import RunFolder
from variations.store.rows import define
from variations.system.errors import UserError
from variations.tables import significance
from variations.tables.chance import SignificanceConfig
from variations.tables.difference import compare
from variations.tables.grid import lay_out
from variations.tables.table import Table, build, document
from variations.tables.text import Grid, select
from variations.tasks.translation.scoring.bleu import as_dict
from variations.tasks.translation.scoring.counts import bleu, bleu_counts
from variations.tasks.translation.scoring.ladder import score_all
from variations.tasks.translation.scoring.stored_text import StoredText

paired_bootstrap = partial(significance.paired_bootstrap, aggregate=bleu)
paired_randomisation = partial(significance.paired_randomisation, aggregate=bleu)
across_seeds = partial(significance.across_seeds, aggregate=bleu)


@pytest.mark.slow
def test_a_row_is_tested_over_seeds_and_sentences_and_each_seed_by_two_tests(
    put: Callable[..., list[str]], read: Callable[..., Table]
) -> None:
    texts = {(row, seed): put(row, seed, share) for row, share in (("base", 0.3), ("good", 0.05)) for seed in (1, 2, 3)}
    test = read().lines[1].test
    assert test is not None
    counts = {key: bleu_counts(text, REFERENCES) for key, text in texts.items()}
    ours, theirs = ([counts[row, seed] for seed in (1, 2, 3)] for row in ("good", "base"))
    assert test.across == across_seeds(ours, theirs, n=200, seed=7, level=0.95)
    assert test.seeds[2] == (
        paired_bootstrap(ours[1], theirs[1], n=200, seed=7),
        paired_randomisation(ours[1], theirs[1], n=200, seed=7),
    )
    assert test.across.variance == ("items", "seeds")
    assert test.significant
    assert test.agreeing_seeds == 3
    opposite = tuple(replace(each, difference=-each.difference) for each in test.seeds[1])
    assert replace(test, seeds=test.seeds | {1: opposite}).agreeing_seeds == 2
    assert test.notes == ()


PAIRED = "; a row that tests the same networks as its base row is paired with it, seed by seed"


@pytest.mark.slow
def test_seeds_are_paired_exactly_if_both_rows_test_the_same_networks(
    put: Callable[..., list[str]], read: Callable[..., Table]
) -> None:
    texts = {(row, seed): put(row, seed, share) for row, share in (("base", 0.3), ("same", 0.25)) for seed in (1, 2, 3)}
    for seed in (1, 2, 3):
        texts["good", seed] = put("good", seed, 0.05, reused=f"../../base/seed{seed}")
    counts = {key: bleu_counts(text, REFERENCES) for key, text in texts.items()}
    table = read()
    for line, paired in zip(table.lines[1:], (True, False), strict=True):
        ours, theirs = ([counts[row, seed] for seed in (1, 2, 3)] for row in (line.row.definition.row, "base"))
        assert line.test is not None
        assert line.test.across == across_seeds(ours, theirs, n=200, seed=7, level=0.95, paired=paired)
    assert any(PAIRED in text for text in table.remarks)
    put("good", 4, 0.05)  # a network of its own: none are paired
    put("base", 4, 0.3)
    mixed = read(seeds=(1, 2, 3, 4))
    assert mixed.lines[1].test is not None
    assert not mixed.lines[1].test.across.paired
    assert not any(PAIRED in text for text in mixed.remarks)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("reused", "attempt", "started", "paired"),
    [
        ("seed{}-attempt2", 2, None, True),
        ("seed{}", 2, None, False),  # the base row has been trained again
        ("seed{}", 1, None, True),
        ("seed{}", 1, "9999-01-01T00:00:00+00:00", False),  # trained anew in its folder since
    ],
)
def test_in_records_seeds_are_paired_by_the_attempts_that_their_status_names(
    reused: str, attempt: int, started: str | None, paired: bool, put: Any, read: Callable[..., Table], store: Path
) -> None:
    """The folder of a record is seed<k>, whatever attempt it is of."""
    for seed in (1, 2):
        put("base", seed, 0.3)
        put("good", seed, 0.05, reused=f"../../base/{reused.format(seed)}")
        path = store / "papers" / "base" / f"seed{seed}" / "status.json"
        status = json.loads(path.read_text()) | {"attempt": attempt} | ({"started": started} if started else {})
        path.write_text(json.dumps(status))
    test = read(seeds=(1, 2)).lines[1].test
    assert test is not None
    assert test.across.paired is paired


@pytest.mark.slow
def test_a_seed_without_a_score_or_with_other_sentences_is_left_out_of_the_test(
    put: Callable[..., list[str]], read: Callable[..., Table], store: Path
) -> None:
    for seed in (1, 2, 3, 4):
        put("base", seed, 0.3)
        put("good", seed, 0.05)
    path = store / "papers/good/seed1/result.json"
    result = json.loads(path.read_text(encoding="utf-8"))
    result["scores"]["test"]["bleu"]["value"] = None
    RunFolder(path.parent).write_result(result)
    for row, side in itertools.product(("base", "good"), ("src", "hyp", "ref")):  # one sentence fewer
        text = store / f"papers/{row}/seed3/hypotheses/test.{side}"
        text.write_text("".join(text.read_text(encoding="utf-8").splitlines(keepends=True)[1:]), encoding="utf-8")
    table = read(seeds=(1, 2, 3, 4))
    line = table.lines[1]
    assert line.test is not None
    assert sorted(line.test.seeds) == [2, 4]
    scores = [[side.row.values(table.primary)[seed] for seed in (2, 4)] for side in (table.lines[0], line)]
    assert line.delta["test.bleu"].n == 2  # the difference has the seeds of its interval
    assert line.delta["test.bleu"].mean == pytest.approx(fmean(scores[1]) - fmean(scores[0]))
    sweep = SweepConfig(name="papers", rows=["base", "good"], seeds=[1, 2, 3, 4])
    assert "; 2 seeds\n" in compare(sweep, ["good"], store, significance=SETTINGS).text()
    assert line.test.notes[:2] == (
        f"seed 1 is not tested: result.json of {path.parent} has no test.bleu",
        "seed 3 is not tested: the row, its base row or their other seeds were tested on other sentences",
    )


@pytest.mark.slow
def test_the_marks_say_test_draws_and_seed(put: Callable[..., list[str]], read: Callable[..., Table]) -> None:
    for seed in (1, 2, 3):
        put("base", seed, 0.3)
        put("good", seed, 0.05)
    table = read()
    grid = lay_out(table)
    assert cells(grid, "Δ base")[1].marks == ("*",)
    low, high = table.lines[1].test.across.low, table.lines[1].test.across.high  # type: ignore[union-attr]
    assert cells(grid, "95 % CI")[1].text == f"[+{low:.2f}, +{high:.2f}]"
    assert [cell.text for cell in cells(grid, "p")] == ["", "< 0.001", ""]
    assert [cell.text for cell in cells(grid, "seeds with p < 0.05")] == ["", "3/3", ""]
    assert grid.notes[0] == (
        "*",
        "p < 0.05 in a test of the difference of means over seeds that covers chance in seeds and in sentences "
        "(200 resamples, seed 7)",
    )


@pytest.fixture
def two_seeds(put: Callable[..., list[str]], read: Callable[..., Table]) -> Grid:
    """A table of two rows with two seeds each."""
    for seed in (1, 2):
        put("base", seed, 0.3)
        put("good", seed, 0.05)
    return lay_out(read(seeds=(1, 2)))


def test_tests_are_explained_where_a_difference_is_shown(two_seeds: Grid) -> None:
    for keys, shown in ((["test.bleu"], False), (["test.bleu", "p"], True)):
        assert any(text.startswith("The 95 % interval and p") for text in select(two_seeds, keys).remarks) == shown


@pytest.mark.slow
def test_comparisons_are_counted_over_the_whole_sweep(put: Callable[..., list[str]], conf: Path, store: Path) -> None:
    for seed in (1, 2, 3):
        put("base", seed, 0.3)
        put("good", seed, 0.05)
        put("same", seed, 0.29)
    sweep = SweepConfig(name="papers", rows=["base", "good", "same"], seeds=[1, 2, 3])
    for rows, counted in (
        (None, "comparisons (there are 2):"),
        (["base", "good"], "comparisons (this is 1 of the sweep's 2):"),
    ):
        table = build(define(sweep, rows=rows, conf=conf), store, SETTINGS)
        [remark] = [remark for remark in table.remarks if remark.startswith("p is not corrected")]
        assert counted in remark


def test_a_title_speaks_of_published_figures_where_they_are_shown(
    put: Callable[..., list[str]], conf: Path, store: Path
) -> None:
    (conf / "variation" / "papers" / "good.yaml").write_text("variation: {base: base, published: {dev_bleu: 25.5}}\n")
    put("base", 1, 0.3)
    put("good", 1, 0.05)
    sweep = SweepConfig(name="papers", rows=["base", "good"], seeds=[1])
    grid = lay_out(build(define(sweep, conf=conf), store, SETTINGS))
    titles = [select(grid, keys).title for keys in (["published.dev_bleu", "test.bleu"], ["test.bleu", "delta"])]
    assert titles == ["papers: published and measured", "papers: measured"]


def test_differences_name_their_measure_unless_they_follow_it(two_seeds: Grid, read: Callable[..., Table]) -> None:
    def titles(*keys: str) -> list[str]:
        return [column.title for column in select(two_seeds, keys).columns if column.key in keys]

    told = r"no column 'p'\. It appears once .* over several seeds; differences in a loss are not tested\. Its"
    with pytest.raises(UserError, match=told):
        select(lay_out(read(seeds=(1,))), ["p"])
    assert titles("test.bleu", "delta", "p", "seeds") == ["test BLEU", "Δ base", "p", "seeds"]
    assert titles("seeds", "delta") == ["seeds", "Δ base (test BLEU)"]
    assert titles("test.bleu", "delta", "seeds", "p")[1::2] == ["Δ base", "p (test BLEU)"]


def test_one_seed_has_an_interval_that_says_what_it_leaves_out_and_no_mark(
    put: Callable[..., list[str]], read: Callable[..., Table]
) -> None:
    put("base", 1, 0.3)
    put("good", 1, 0.05)
    put("same", 1, 0.3, texts=(SOURCES, REFERENCES, spoiled(REFERENCES, 0.3, 104)), stated=0.0)
    table = read(seeds=(1,))
    grid = lay_out(table)
    assert cells(grid, "Δ base")[1].marks == ()
    test = table.lines[1].test
    assert test is not None
    assert test.across.method == "bootstrap"
    assert test.across.low > 0  # consistent across sentences, but no evidence on other seeds
    assert (test.significant, test.p) == (None, None)
    assert cells(grid, "95 % CI")[1].text
    assert "p" not in [column.title for column in grid.columns]
    assert any("ignores the chance between seeds, so no such difference is marked" in r for r in table.remarks)
    assert not any("not corrected" in remark for remark in table.remarks)


def test_two_perfect_rows_are_not_tested(put: Callable[..., list[str]], read: Callable[..., Table]) -> None:
    """A difference of 0 on a test set that both rows solve is no evidence of equality."""
    for seed in (1, 2, 3):
        put("base", seed, 0.0)
        put("good", seed, 0.0)
        put("same", seed, 0.2)
    _, perfect, worse = read().lines
    told = "not tested: both rows have the best possible test BLEU, so no difference can be seen"
    assert (perfect.test, perfect.untested) == (None, told)
    assert worse.test is not None and worse.test.significant


@pytest.mark.parametrize("seeds", [(1,), (1, 2)])
def test_an_interval_without_width_is_not_shown(
    put: Callable[..., list[str]], read: Callable[..., Table], seeds: tuple[int, ...]
) -> None:
    for seed in seeds:
        texts = SOURCES, REFERENCES, spoiled(REFERENCES, 0.3, 1)
        for row in ("base", "good"):
            put(row, seed, 0.3, texts=texts, stated=score(texts[2]))
    line = read(seeds=seeds, rows=["base", "good"]).lines[1]
    told = "not tested: chance in the sentences cannot be estimated: the difference does not vary at all"
    assert (line.test, line.untested) == (None, told)
    assert line.delta["test.bleu"].mean == 0


def test_rows_without_a_common_seed_say_so(
    put: Callable[..., list[str]], read: Callable[..., Table], store: Path
) -> None:
    put("base", 1, 0.3)
    put("good", 2, 0.05)
    for settings in (SETTINGS, SignificanceConfig(show=False)):
        table = read(rows=["base", "good"], settings=settings)
        assert (table.lines[1].untested, table.lines[1].delta) == ("no seed in common with its base row", {})
        cell, notes = cells(lay_out(table), "Δ base")[1], dict(lay_out(table).notes)
        assert (cell.text, [notes[mark] for mark in cell.marks]) == ("–", ["no seed in common with its base row"])
    sweep = SweepConfig(name="papers", rows=["base", "good"])
    assert "Note: no seed in common with base.\n" in compare(sweep, ["good"], store, significance=SETTINGS).text()


def test_rows_on_other_references_are_named_and_not_subtracted(
    put: Callable[..., list[str]], read: Callable[..., Table]
) -> None:
    put("base", 1, 0.3)
    others = sentences(2)
    put("good", 1, 0.1, texts=(SOURCES, others, others))
    line = read(seeds=(1,)).lines[1]
    assert line.delta == {}
    assert line.test is None
    assert line.notes[0] == "its test references differ from its base row's (seed 1): not compared"
    of_dev = read(seeds=(1,), metric="dev_ppl").lines[1]  # the dev sets do not differ
    assert "dev_ppl" in of_dev.delta
    assert not [key for key in of_dev.delta if key.startswith("test.")]


def test_rows_without_stored_text_say_why_they_are_not_tested(
    put: Callable[..., list[str]], make_run: Any, read: Callable[..., Table]
) -> None:
    put("base", 1, 0.3)
    make_run("papers", "good", 1, 90.0)
    table = read(seeds=(1,))
    assert table.lines[1].untested == "not tested: no stored hypotheses (test.hyp)"
    grid = lay_out(table)
    mark = cells(grid, "Δ base")[1].marks[0]
    assert (mark, "not tested: no stored hypotheses (test.hyp)") in grid.notes


@pytest.mark.slow
def test_a_result_that_is_not_that_of_its_text_is_told(
    put: Callable[..., list[str]], read: Callable[..., Table]
) -> None:
    put("base", 1, 0.3)
    put("good", 1, 0.05, stated=99.0)
    (note,) = read(seeds=(1,)).lines[1].notes
    assert note.startswith("seed 1: the score in result.json is 99.00, but that of its stored sentences, ")
    put("base", 2, 0.3, stated=98.0)
    put("good", 2, 0.05)
    (note,) = read(seeds=(2,)).lines[1].notes
    assert note.startswith("base row, seed 2: the score in result.json is 98.00, but that of its stored sentences, ")
    (note,) = read(seeds=(2,)).lines[0].notes  # also where nothing is compared
    assert note.startswith("seed 2: the score in result.json is 98.00")


def test_a_seed_that_the_base_row_lacks_is_verified_too(
    put: Callable[..., list[str]], read: Callable[..., Table]
) -> None:
    for seed in (1, 2):
        put("base", seed, 0.3)
        put("good", seed, 0.05)
    put("good", 3, 0.05, stated=99.0)
    line = read().lines[1]
    assert line.test is not None and [*line.test.seeds] == [1, 2]
    assert any(note.startswith("seed 3: the score in result.json is 99.00") for note in line.notes)


@pytest.mark.slow
def test_only_seeds_that_both_rows_have_are_compared(
    put: Callable[..., list[str]], make_run: Any, read: Callable[..., Table]
) -> None:
    put("base", 1, 0.3)
    put("base", 2, 0.3)
    for seed in (1, 2, 3):
        put("good", seed, 0.05)
    make_run("papers", "base", 3, None, state="failed", reason="boom")
    table = read()
    assert list(table.lines[1].test.seeds) == [1, 2]  # type: ignore[union-attr]
    grid = lay_out(table)
    notes = dict(grid.notes)
    assert [notes[mark] for mark in cells(grid, "test BLEU")[0].marks] == ["mean of 2 of 3 seeds"]
    assert notes[cells(grid, "Δ base")[1].marks[1]] == "over the 2 seeds in common with the base row"


def test_tests_can_be_left_out_and_metrics_without_a_test_say_so(
    put: Callable[..., list[str]], read: Callable[..., Table]
) -> None:
    put("base", 1, 0.3)
    put("good", 1, 0.05)
    table = read(seeds=(1,), settings=SignificanceConfig(show=False))
    assert table.lines[1].test is None
    assert "Differences are not tested (significance.show=false)." in table.remarks
    table = read(seeds=(1,), metric="dev_ppl")
    assert table.lines[1].test is None
    assert any("dev PPL are not tested" in remark for remark in table.remarks)


@pytest.mark.slow
def test_bleu_without_smoothing_is_tested_without_it(put: Callable[..., list[str]], read: Callable[..., Table]) -> None:
    every_other = [" ".join(word if i % 2 else "falsch" for i, word in enumerate(line.split())) for line in REFERENCES]
    values = {}
    for row, hypotheses in (("base", every_other), ("good", spoiled(REFERENCES, 0.05, 3))):
        scores = as_dict(score_all(hypotheses, REFERENCES, "de"))
        values[row] = scores["bleu_tok"]["value"]
        put(row, 1, 0.0, texts=(SOURCES, REFERENCES, hypotheses), scores={"test": scores})
    line = read(seeds=(1,), metric="bleu_tok").lines[1]
    assert values["base"] == 0 and line.test is not None
    assert line.test.across.difference == pytest.approx(values["good"], abs=1e-9)
    assert line.test.across.low < values["good"] < line.test.across.high
    assert not [note for note in line.notes if "result.json" in note]


def test_exact_match_is_tested_over_sentences(put: Callable[..., list[str]], read: Callable[..., Table]) -> None:
    base, good = put("base", 1, 0.3), put("good", 1, 0.05)
    hits = [sum(ours == theirs for ours, theirs in zip(lines, REFERENCES, strict=True)) for lines in (base, good)]
    test = read(seeds=(1,), metric="exact_match").lines[1].test
    assert test is not None
    assert test.across.difference == pytest.approx(100 * (hits[1] - hits[0]) / len(REFERENCES), abs=1e-12)


def test_an_exact_match_that_is_not_that_of_its_text_is_told(
    put: Callable[..., list[str]], read: Callable[..., Table], store: Path
) -> None:
    lines = put("base", 1, 0.3)
    folder = RunFolder(store / "papers" / "base" / "seed1")
    result = folder.result()
    assert result is not None
    result["scores"]["test"]["exact_match"]["value"] = 99.0
    folder.write_result(result)
    exact = 100 * sum(ours == theirs for ours, theirs in zip(lines, REFERENCES, strict=True)) / len(REFERENCES)
    (note,) = read(seeds=(1,)).lines[0].notes
    assert note == (
        "seed 1: test exact match %: the score in result.json is 99.00, but that of its stored sentences, which are "
        f"tested, is {exact:.2f}"
    )


@pytest.mark.parametrize("name", ["bleu_lc", "bleu_tok", "bleu_tok_lc", "bleu_split"])
def test_each_form_of_bleu_is_counted_as_the_ladder_scores_it(tmp_path: Path, name: str) -> None:
    from variations.tasks.translation.scoring.ladder import score_all

    hypotheses = spoiled(REFERENCES, 0.2, 5)
    for side, lines in (("hyp", hypotheses), ("ref", REFERENCES)):
        (tmp_path / f"test.{side}").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    expected = {item.name: item.value for item in score_all(hypotheses, REFERENCES, "de")}[name]
    assert float(bleu(StoredText(tmp_path, "test").counts(name, "de").sum(0))) == pytest.approx(expected, abs=1e-9)


def test_counts_are_kept_beside_the_text_and_read_again(tmp_path: Path) -> None:
    for side in ("hyp", "ref"):
        (tmp_path / f"test.{side}").write_text("ein Haus im Garten .\n", encoding="utf-8")
    text = StoredText(tmp_path, "test")
    counts = text.counts("bleu", "de")
    (kept,) = tmp_path.glob("*.npy")
    assert counts.tolist() == [[5, 5, 5, 4, 3, 2, 5, 4, 3, 2]]
    assert text.counts("bleu", "de").tolist() == counts.tolist()
    kept.write_bytes(b"damaged")
    assert text.counts("bleu", "de").tolist() == counts.tolist()
    (tmp_path / "test.hyp").write_text("ein Haus\n", encoding="utf-8")
    assert text.counts("bleu", "de")[0, 0] == 2  # another text, another file
    assert len(list(tmp_path.glob("*.npy"))) == 2


def test_a_store_that_cannot_be_written_is_read_without_a_word(
    put: Callable[..., list[str]], read: Callable[..., Table], store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put("base", 1, 0.3)
    put("good", 1, 0.05)
    opened = Path.open

    def refuse(self: Path, mode: str = "r", *arguments: Any, **keys: Any) -> Any:
        if set(mode) & set("wxa"):
            raise OSError(30, "Read-only file system")
        return opened(self, mode, *arguments, **keys)

    monkeypatch.setattr(Path, "open", refuse)
    assert read(seeds=(1,)).lines[1].test is not None
    assert list(store.rglob("*.npy")) == []


@pytest.mark.slow
def test_a_row_that_was_not_trained_is_compared_with_nothing(
    put: Callable[..., list[str]], read: Callable[..., Table]
) -> None:
    flat = [{"step": step, "dev/nll": 0.5} for step in (800, 1000)]
    steep = [{"step": step, "dev/nll": loss} for step, loss in ((800, 0.8), (1000, 0.5))]
    for seed in (1, 2, 3):
        put("base", seed, 0.3, metrics=flat)
        put("good", seed, 0.05, metrics=steep)
        put("same", seed, 0.25, metrics=flat)
    table = read()
    good, same = table.lines[1:]
    reason = "dev perplexity fell by 25.9 % in the last fifth of its steps"
    assert (good.untrained, same.untrained) == (reason, None)
    assert (good.delta, good.test) == ({}, None)
    assert same.test is not None
    grid = lay_out(table)
    assert [cell.text for cell in cells(grid, "Δ base")][:2] == ["base", "not trained"]
    assert f"not trained: {reason}" in [text for _, text in grid.notes]
    assert document(table)["rows"][1]["not_trained"] == reason


@pytest.mark.slow
def test_nothing_is_compared_with_a_base_row_that_was_not_trained(
    put: Callable[..., list[str]], read: Callable[..., Table]
) -> None:
    for seed in (1, 2, 3):
        put("base", seed, 0.3, metrics=[{"step": 800, "dev/nll": 0.8}, {"step": 1000, "dev/nll": 0.5}])
        put("good", seed, 0.05)
    table = read()
    assert table.lines[1].test is None
    assert cells(lay_out(table), "Δ base")[1].text == "its base row is not trained"
    assert table.agreements == []
