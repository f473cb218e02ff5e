"""Importance of keys against scipy's ANOVA, an exact permutation test and sums of squares by hand."""

import json
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from variations.dashboard.importance import PERMUTATIONS, _notes, analysis, grouped
from variations.dashboard.payload.sweeps import Importance
from variations.store.differences import varied

from .test_payload import fits

Maker = Callable[..., Path]
SCORES = np.array([70.1, 71.3, 69.8, 74.9, 75.2, 73.1, 72.0, 71.1, 76.4])
GROUPS = [8, 8, 8, 16, 16, 16, 4, 4, 4]


def test_one_key_is_a_one_way_analysis_of_variance() -> None:
    stats = pytest.importorskip("scipy.stats")
    samples = [SCORES[np.array(GROUPS) == group] for group in (4, 8, 16)]
    f = stats.f_oneway(*samples).statistic
    found = analysis(SCORES, grouped({"model.h": GROUPS}))
    [effect] = found.effects
    assert effect["share"] == pytest.approx(2 * (f - 1) / (2 * (f - 1) + 9))  # ω² of one factor from its F
    assert (found.shared, found.rest) == (pytest.approx(0), pytest.approx(1 - effect["share"]))
    assert (effect["groups"], found.residual) == (3, 6)


def test_p_is_that_of_all_permutations() -> None:
    stats = pytest.importorskip("scipy.stats")
    left, right = [1.0, 2.5, 3.1, 2.2], [2.9, 4.0, 5.3, 3.3]
    exact = stats.permutation_test((left, right), lambda a, b: abs(np.mean(a) - np.mean(b)), alternative="greater")
    [effect] = analysis(np.array(left + right), grouped({"k": [0] * 4 + [1] * 4})).effects
    error = (exact.pvalue * (1 - exact.pvalue) / PERMUTATIONS) ** 0.5
    assert abs(effect["p"] - exact.pvalue) < 4 * error + 1 / PERMUTATIONS


def test_p_of_a_few_runs_is_exact() -> None:
    """Of the 24 permutations of two runs against two, eight keep the pairs together."""
    [effect] = analysis(np.array([1.0, 2.0, 5.0, 6.5]), grouped({"k": [0, 0, 1, 1]})).effects
    assert effect["p"] == 8 / 24


def test_keys_of_a_grid_are_told_apart_by_hand() -> None:
    """y = 2a + b + noise with a, b in ±1 and noise ±0.5 on the interaction: SS_a = 16, SS_b = 4, SS_rest = 1."""
    cells = list(product((-1, 1), (-1, 1)))
    y = np.array([2 * a + b + 0.5 * a * b for a, b in cells])
    effects, shared, rest, _, residual = analysis(y, grouped({"b": [b for _, b in cells], "a": [a for a, _ in cells]}))
    assert residual == 1
    assert [effect["keys"] for effect in effects] == [["a"], ["b"]]
    assert effects[0]["share"] == pytest.approx((16 - 1) / (21 + 1))
    assert effects[1]["share"] == pytest.approx((4 - 1) / (21 + 1))
    assert shared == pytest.approx(0)  # in a grid, the sums of squares add up
    assert rest == pytest.approx(1 - 18 / 22)


def test_what_keys_explain_in_common_is_neither_a_share_nor_unexplained() -> None:
    """y = 3a + 3b + e; a and b in ±1 with a·b = 2 in 6 runs, e is orthogonal to both: SS_full = 9 · 16, SS_rest = 4.

    Without either key the fit loses 9 · (6 - 2²/6) = 48, so 48 of the 144 belong to both.
    """
    a, b = np.array([-1, -1, 1, 1, 1, -1]), np.array([-1, -1, 1, 1, -1, 1])
    found = analysis(3.0 * (a + b) + [1, -1, 1, -1, 0, 0], grouped({"a": a.tolist(), "b": b.tolist()}))
    total, noise = 148, 4 / 3
    assert [effect["share"] for effect in found.effects] == [pytest.approx((48 - noise) / (total + noise))] * 2
    assert found.shared == pytest.approx(48 / (total + noise))
    assert found.rest == pytest.approx(1 - (144 - 2 * noise) / (total + noise))


def test_keys_that_explain_each_other_share_everything() -> None:
    """Of three keys, each follows from the other two, so none has a share of its own."""
    factors = grouped({"a": [0, 0, 1] * 3, "b": [0, 1, 0] * 3, "c": [0, 1, 1] * 3})
    found = analysis(np.array([1.0, 2.0, 5.0, 1.1, 2.1, 4.9, 0.9, 2.1, 5.1]), factors)
    assert [effect["share"] for effect in found.effects] == [None, None, None]
    assert found.shared > 0.99 and found.shared + found.rest == pytest.approx(1)
    assert found.p < 0.05


def test_a_key_is_adjusted_for_one_that_changed_along_with_it() -> None:
    """Scores depend only on `a`; `b` mostly follows `a`, so its raw mean difference is large."""
    a = [0, 0, 0, 0, 1, 1, 1, 1]
    b = [0, 0, 0, 1, 1, 1, 1, 0]
    noise = np.array([0.1, -0.1, 0.0, 0.0, 0.1, -0.1, 0.0, 0.0])
    effects = analysis(10.0 * np.array(a) + noise, grouped({"a": a, "b": b})).effects
    assert effects[0]["keys"] == ["a"] and effects[0]["share"] > 0.4
    assert effects[1]["share"] < 0.01 and effects[1]["p"] > 0.2


def test_all_parts_of_the_variance_are_all_of_it_or_more() -> None:
    rng, negative = np.random.default_rng(3), 0
    for _ in range(50):
        factors = grouped({"a": [0, 0, 1, 1, 2, 2, 2], "b": [0, 1, 0, 1, 0, 1, 1]})
        effects, shared, rest, _, _ = analysis(rng.normal(size=7), factors)
        parts = [effect["share"] or 0.0 for effect in effects] + [shared, rest]
        assert all(0 <= part <= 1 for part in parts) and sum(parts) >= 1 - 1e-12
        negative += 0.0 in parts[:-2]
    assert negative > 5  # an ω² below zero is shown as 0


def test_keys_whose_effects_cancel_out_explain_more_each_than_together() -> None:
    """y = 5a - 5b + e; a and b in ±1 with a·b = 1 in 10 of 12 runs; e, which sums to 0 in each cell, is orthogonal.

    The fit is ±10 in the two runs where a ≠ b, else 0, so SS_full = 200, and SS_rest = 8. Without one key, the other
    explains (Σ y·a)²/12 = 20²/12, so the fit loses 200 - 400/12 for each.
    """
    a = np.array([-1] * 6 + [1] * 6)
    b = np.array([-1] * 5 + [1, -1] + [1] * 5)
    e = np.array([1, -1, 1, -1, 0, 0, 0, 0, 1, -1, 1, -1])
    found = analysis(5.0 * (a - b) + e, grouped({"a": a.tolist(), "b": b.tolist()}))
    total, noise = 208, 8 / 9
    share = (200 - 400 / 12 - noise) / (total + noise)
    assert [effect["share"] for effect in found.effects] == [pytest.approx(share)] * 2
    assert found.shared == 0
    assert found.rest == pytest.approx(1 - (200 - 2 * noise) / (total + noise))
    runs: Any = {"runs": []}
    assert any(note.startswith("The lines add up to more than 100 %") for note in _notes(runs, [], found))
    assert not any("100 %" in note for note in _notes(runs, [], found._replace(rest=0.0, effects=found.effects[:1])))


def test_keys_that_always_change_together_are_one_and_one_that_others_decide_has_no_share() -> None:
    h, d_k, kind = (
        [2, 2, 4, 4, 8, 8, 8],
        [64, 64, 32, 32, 16, 16, 16],
        ["few", "few", "many", "many", "many", "many", "many"],
    )
    scores = np.array([1.0, 1.2, 2.0, 2.1, 3.0, 3.3, 3.1])
    effects = analysis(scores, grouped({"model.h": h, "model.d_k": d_k, "kind": kind})).effects
    assert [effect["keys"] for effect in effects] == [["model.h", "model.d_k"], ["kind"]]
    assert effects[1]["share"] is None and effects[1]["p"] is None


@pytest.mark.slow
def test_a_key_without_effect_is_found_by_chance_as_often_as_p_says() -> None:
    rng = np.random.default_rng(7)
    factors = grouped({"a": [0, 0, 1, 1, 2, 2] * 2, "b": [0, 1] * 6})
    found = [effect["p"] for _ in range(200) for effect in analysis(rng.normal(size=12), factors).effects]
    share = np.mean(np.array(found) <= 0.05)  # of 400 values: standard error 0.011
    assert 0.05 - 4 * 0.011 <= share <= 0.05 + 4 * 0.011


def test_many_numbers_are_compared_in_thirds_and_missing_ones_apart() -> None:
    [factor] = grouped({"lr": [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, None]})
    assert factor.groups.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2, 3]
    of_ablation = [8] * 20 + [1, 1, 2, 2, 4, 4, 16, 16, 32, 32]  # most runs have the base row's value
    assert grouped({"h": of_ablation})[0].groups.max() == 5
    of_search = [16] * 14 + [*range(17, 43)]  # whose sampler prefers one value
    assert np.bincount(grouped({"h": of_search})[0].groups).tolist() == [14, 9, 8, 9]
    assert grouped({"gate": [None, "None", "none", None]})[0].groups.tolist() == [0, 1, 2, 0]
    assert grouped({"same": [1, 1, 1], "list": [["a"], ["b"], ["a"]]})[0].groups.tolist() == [0, 1, 0]


def test_a_grid_of_stored_runs_is_explained_by_the_key_that_moved_its_score(client: Any, run: Maker) -> None:
    names = [f"h{h}_d{dropout}" for h in (4, 8) for dropout in (0, 1, 2)]
    for (h, dropout), name in zip(product((4, 8), (0, 1, 2)), names, strict=True):
        config = {"recipe": {"name": "r"}}
        run("g", name, 1, score=70 + 2 * h + 0.1 * (dropout == 1), h=h, steps=100 + dropout, rows=names, config=config)
    sweep = client.json("/api/sweep/g")
    keys = {key["key"]: key for key in sweep["table"]["keys"]}
    assert keys["model.h"]["values"] == [4, 4, 4, 8, 8, 8] and keys["model.h"]["symbol"] == "heads"
    assert "seed" not in keys and not any(key.startswith("variation") for key in keys)
    found = client.json("/api/importance/g")
    assert fits(found, Importance) == []
    assert found["effects"][0]["keys"] == ["model.h"] and found["effects"][0]["share"] > 0.99
    assert found["runs"] == 6 and found["label"] == "test BLEU" and "interactions" in found["method"].lower()


def test_copies_of_a_run_count_once(client: Any, run: Maker) -> None:
    """A search in a small space copies trials: fourteen runs of three trainings are no fourteen measurements."""
    tried = [
        (4, 70.0, None),
        (8, 75.0, None),
        (4, 70.0, "s/t0"),
        (8, 75.0, "s/t1"),
        (8, 76.0, "other/x"),
        (4, 71.0, None),
    ]
    names = [f"t{number}" for number in range(len(tried))]
    for name, (h, score, copied) in zip(names, tried, strict=True):
        folder = run("s", name, 1, score=score, h=h, rows=names)
        if copied:
            result = json.loads((folder / "result.json").read_text())
            (folder / "result.json").write_text(json.dumps({**result, "copied": f"{copied}/seed1"}))
    found = client.json("/api/importance/s")
    assert found["runs"] == 4
    assert "2 runs are copies and do not count again." in found["notes"]


def test_a_run_that_was_trained_twice_under_two_names_counts_once(client: Any, run: Maker) -> None:
    """As where the same values were typed in another order."""
    tried = [(4, 70.0), (4, 70.0), (8, 75.0), (4, 71.0), (8, 76.0)]
    names = [f"t{number}" for number in range(len(tried))]
    for name, (h, score) in zip(names, tried, strict=True):
        run("s", name, 1, score=score, h=h, rows=names)
    found = client.json("/api/importance/s")
    assert found["runs"] == 4
    assert "1 run is of the configuration, seed and score of another one and does not count again." in found["notes"]


def test_rows_that_the_table_does_not_compare_are_left_out(client: Any, run: Maker) -> None:
    names = [f"h{h}_{k}" for h in (4, 8) for k in range(3)]
    for name in names:
        h = int(name[1])
        folder = run("g", name, 1, score=70 + 2 * h + 0.1 * int(name[-1]), h=h, rows=names)
        environment = json.loads((folder / "environment.json").read_text())
        data = {"data": {"train.de": "2" if name == "h8_2" else "1"}}
        (folder / "environment.json").write_text(json.dumps(environment | data), encoding="utf-8")
    found = client.json("/api/importance/g")
    assert found["runs"] == 5
    assert "h8_2 is left out: its inputs differ from its base row's (train.de; seed 1): not compared." in found["notes"]


def test_rows_whose_seeds_were_not_trained_alike_are_left_out(client: Any, run: Maker) -> None:
    names = [f"h{h}_{k}" for h in (4, 8) for k in range(3)]
    for name in names:
        run("g", name, 1, score=70 + 2 * int(name[1]) + 0.1 * int(name[-1]), h=int(name[1]), rows=names)
    run("g", "h8_2", 2, score=90.0, h=16, rows=names)
    found = client.json("/api/importance/g")
    assert found["runs"] == 5
    [note] = [note for note in found["notes"] if note.startswith("h8_2")]
    assert note == "h8_2 is left out: its seeds were not trained alike: heads 8→16, d_k 64→32 from seed 1 to 2."


def test_rows_that_are_not_trained_are_left_out_unless_all_are(client: Any, run: Maker) -> None:
    steep = [{"step": step, "dev/nll": loss} for step, loss in ((800, 0.9), (1000, 0.7), (1200, 0.4))]
    names = [f"h{h}_{k}" for h in (4, 8) for k in range(3)]
    for sweep, untrained in (("some", names[-1:]), ("none", names)):
        for name in names:
            score, h = 70 + 2 * int(name[1]) + 0.1 * int(name[-1]), int(name[1])
            folder = run(sweep, name, 1, score=score, h=h, rows=names)
            if name in untrained:
                lines = "".join(json.dumps(line) + "\n" for line in steep)
                (folder / "metrics.jsonl").write_text(lines, encoding="utf-8")
    some, none = (client.json(f"/api/importance/{sweep}") for sweep in ("some", "none"))
    assert (some["runs"], some["notes"][0]) == (5, "Left out because not trained: h8_2.")
    assert (none["runs"], none["notes"][0]) == (6, "No row counts as trained.")


@pytest.mark.usefixtures("pair")
def test_too_few_runs_are_refused_with_what_would_help(client: Any, run: Maker) -> None:
    for seed in (1, 2):
        run("one", f"row{seed}", 1, h=8 * seed, score=70.0 + seed, rows=["row1", "row2"])
    found = client.json("/api/importance/one")
    assert found["effects"] == [] and "at least 3 are needed" in found["reason"]
    assert "the effect of this key" in found["reason"]
    assert "no sweep 'none'" in client.fault("/api/importance/none", 404)
    assert client.json("/api/importance/q")["effects"][0]["share"] > 0  # two rows with two seeds are enough


def test_a_width_that_follows_from_others_is_no_key_of_its_own() -> None:
    model = {"kind": "transformer", "d_model": 512, "h": 8, "d_k": None, "d_v": None}
    found = varied([{"model": model}, {"model": model | {"h": 16}}, {}])
    assert found == {"model.h": [8, 16, None]}
    stated = varied([{"model": model}, {"model": model | {"d_k": 16}}])
    assert stated == {"model.d_k": [64, 16]}


def test_settings_of_branches_are_none_where_a_model_has_no_branches() -> None:
    plain, weighted = {"kind": "transformer"}, {"kind": "weighted"}
    found = varied([{"model": plain}, {"model": weighted, "branch": {"M": 4}}, {"model": weighted, "branch": {"M": 2}}])
    assert found["branch.M"] == [None, 4, 2]
    assert found["model.kind"] == ["transformer", "weighted", "weighted"]


def test_keys_that_only_one_row_has_are_among_those_that_differ() -> None:
    configs = [{"callbacks": {}}, {"callbacks": {"mine": {"_target_": "a.B", "rate": 2}}}]
    assert varied(configs) == {"callbacks.mine._target_": [None, "a.B"], "callbacks.mine.rate": [None, 2]}
