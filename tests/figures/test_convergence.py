"""How fast a row reaches its base row's best score, against values computed by hand."""

import json
from dataclasses import replace

import pytest

from variations.figures.convergence import convergence, document, markdown, percent
from variations.figures.traces import TracedRow
from variations.system.rounding import whole


def traced(*given, **named):
    """A row all of whose seeds have finished."""
    row = TracedRow(*given, **named)
    return replace(row, results={seed: {} for seed in row.metrics})


def lines(*points):
    return [{"step": s, "tokens": 10 * s, "seconds": sec, "flops": 100.0 * s, "dev/bleu": b} for s, sec, b in points]


BASE = traced("base", "Base", metrics={1: lines((100, 10, 20.0), (200, 20, 30.0), (300, 30, 29.0), (400, 40, 30.0))})
FAST = traced("fast", "Fast | one", "base", {1: lines((100, 15, 25.0), (150, 24, 30.0), (200, 30, 40.0)), 9: lines()})
SLOW = traced("slow", "Slow", "base", {1: lines((100, 10, 20.0), (400, 50, 29.9))})


def test_the_aim_is_the_first_time_the_base_row_was_at_its_best():
    (fast, slow) = convergence([BASE, FAST, SLOW], "dev/bleu")
    assert [item.target for item in fast.arrivals] == [30.0]
    assert fast.arrivals[0].base == {"step": 200, "tokens": 2000, "seconds": 20, "flops": 20_000}
    assert fast.arrivals[0].reached == {"step": 150, "tokens": 1500, "seconds": 24, "flops": 15_000}
    assert fast.change("step") == pytest.approx(-0.25)
    assert fast.change("seconds") == pytest.approx(0.2)  # fewer steps, but more time
    assert slow.arrivals[0].reached is None and slow.cost("step") is None and slow.change("flops") is None


def test_lower_is_better_for_losses():
    base = traced("base", "Base", metrics={1: [{"step": 1, "dev/nll": 3.0}, {"step": 2, "dev/nll": 2.0}]})
    row = traced("row", "Row", "base", {1: [{"step": 1, "dev/nll": 1.9}]})
    (found,) = convergence([base, row], "dev/nll")
    assert found.arrivals[0].target == 2.0 and found.arrivals[0].reached == {"step": 1.0}
    assert found.change("step") == -0.5 and found.change("seconds") is None


def test_seeds_are_paired_and_means_are_over_those_that_arrived():
    base = traced("b", "B", metrics={1: lines((100, 1, 10.0)), 2: lines((200, 1, 10.0)), 3: lines((100, 1, 99.0))})
    row = traced("r", "R", "b", {1: lines((50, 1, 10.0)), 2: lines((50, 1, 11.0)), 3: lines((50, 1, 1.0))})
    (found,) = convergence([base, row], "dev/bleu")
    assert len(found.arrived) == 2 and found.cost("step") == 50
    assert found.change("step") == pytest.approx((-0.5 - 0.75) / 2)


def test_the_table_and_its_document_hold_the_numbers():
    found = convergence([BASE, FAST, SLOW], "dev/bleu")
    text = markdown(found, "dev/bleu")
    assert (
        r"| Fast \| one | 30.00 | 40.00 | 1 of 1 | 150 (−25 %) | 1,500 (−25 %) | 24 (+20 %) | 1.5e+04 (−25 %) |" in text
    )
    assert "| Slow | 30.00 | 29.90 | 0 of 1 | – | – | – | – |" in text
    stored = json.loads(json.dumps(document(found, "dev/bleu")))
    assert stored["rows"][0]["change"]["step"] == pytest.approx(-0.25)
    assert stored["rows"][1]["seeds"][0]["reached"] is None


def test_rows_that_the_table_does_not_compare_are_left_out_and_caveats_are_told():
    other = traced("other", "Other", "base", FAST.metrics, uncompared="its inputs differ: not compared")
    early = traced("early", "Early", "base", FAST.metrics, caveats=("not trained: why",))
    found = convergence([BASE, other, early], "dev/bleu")
    assert [item.label for item in found] == ["Early"]
    assert "- Early: not trained: why." in markdown(found, "dev/bleu")
    assert document(found, "dev/bleu")["rows"][0]["caveats"] == ["not trained: why"]


def test_a_row_whose_moving_average_is_tested_is_told_that_its_current_weights_were_measured():
    told = "Scores are those of the current weights, also where their moving average (recipe.ema) is tested."
    assert told in markdown(convergence([BASE, replace(FAST, averaged=True)], "dev/bleu"), "dev/bleu")
    assert told in markdown(convergence([replace(BASE, averaged=True), FAST], "dev/bleu"), "dev/bleu")
    assert told not in markdown(convergence([BASE, FAST], "dev/bleu"), "dev/bleu")


def test_caveats_of_a_base_row_are_told_once():
    base = replace(BASE, caveats=("its training was ended early",))
    chained = replace(SLOW, base="fast", caveats=("edited",))
    found = convergence([base, replace(FAST, caveats=("fast indeed",)), SLOW, chained], "dev/bleu")
    text = markdown(found, "dev/a_b")
    assert r"best dev/a\_b" in text
    for note in ("- Base: its training was ended early.", r"- Fast \| one: fast indeed.", "- Slow: edited."):
        assert text.count(note) == 1, note
    rows = document(found, "dev/bleu")["rows"]
    assert [row["base_caveats"] for row in rows] == [["its training was ended early"]] * 2 + [["fast indeed"]]


def test_a_seed_that_either_row_has_not_finished_is_left_out():
    begun = replace(BASE, results={})
    assert (
        convergence([begun, FAST], "dev/bleu") == convergence([BASE, replace(FAST, results={9: {}})], "dev/bleu") == []
    )


def test_losses_in_other_units_are_left_out_and_scores_are_not():
    lines_ = [line | {"dev/nll": 1.0} for line in FAST.metrics[1]]
    base, other = traced("base", "Base", metrics={1: lines_}), traced("o", "O", "base", {1: lines_})
    units = replace(other, other_losses="its losses depend on data.form, which its base row does not share")
    for row, metric, compared in ((other, "dev/nll", 1), (units, "dev/nll", 0), (units, "dev/bleu", 1)):
        assert len(convergence([base, row], metric)) == compared


def test_training_losses_with_another_smoothing_are_left_out():
    other = traced("o", "O", "base", FAST.metrics, other_objective="its training loss has another label smoothing")
    for metric, compared in (("train/loss", 0), ("train/nll", 1), ("dev/bleu", 1)):
        rows = [
            replace(row, metrics={1: [line | {metric: line["dev/bleu"]} for line in row.metrics[1]]})
            for row in (BASE, other)
        ]
        assert len(convergence(rows, metric)) == compared


def test_percentages_have_signs():
    assert [percent(x) for x in (-0.254, 0.2, 0.001)] == ["−25 %", "+20 %", "±0 %"]
    assert [percent(x) for x in (-0.125, 0.125)] == ["−13 %", "+13 %"]  # ties, as elsewhere, away from zero
    assert [whole(x) for x in (8_729_742.5, 1_200.4, -0.5)] == ["8,729,743", "1,200", "-1"]
