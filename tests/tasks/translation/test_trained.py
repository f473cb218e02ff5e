"""Which rows count as trained."""

import json
import math
from types import SimpleNamespace

import pytest

from variations.store.ledger import RunFolder
from variations.tasks.translation.trained import (
    baselines,
    dictionary_baseline,
    last_fall,
    past_its_best,
    too_few_validations,
    unjudged,
    untrained,
    why_untrained,
)

FLAT = [(80, 1.0), (100, 1.0)]


def test_the_fall_is_that_of_the_perplexity_in_the_last_fifth():
    assert last_fall([(80, math.log(10.0)), (100, math.log(9.0))]) == pytest.approx(0.1)


def test_the_loss_at_four_fifths_is_interpolated():
    assert last_fall([(0, 1.0), (60, 0.4), (100, 0.0)]) == pytest.approx(1 - math.exp(-0.2))


def test_a_rise_is_below_zero():
    assert last_fall([(80, 1.0), (100, 1.1)]) < 0


def test_a_single_bad_validation_does_not_count():
    assert last_fall([(60, 0.12), (80, 0.9), (100, 0.12)]) == 0
    assert last_fall([(60, 0.5), (80, 0.12), (90, 0.12), (100, 0.9)]) == 0


@pytest.mark.parametrize("curve", [[], [(100, 1.0)], [(90, 1.0), (100, 0.5)]])
def test_nothing_is_said_of_a_curve_that_does_not_reach_back(curve):
    assert last_fall(curve) is None
    assert untrained([curve], [50.0], {}) is None


def test_a_row_is_not_trained_below_a_dictionary():
    found = {"copy of the source": 0.1, "word-by-word dictionary": 13.5}
    assert untrained([FLAT], [13.0, 13.5], found) == "not above the word-by-word dictionary (13.5 BLEU)"
    assert untrained([FLAT], [13.0, 14.5], found) is None  # mean 13.75
    rounded = {"copy of the source": 50.866101134969945}
    assert untrained([FLAT], [50.866101134969966], rounded) is not None  # the same score, added up in another order


def test_a_row_whose_perplexity_falls_by_more_than_five_percent_is_not_trained():
    steep, gentle = [(80, 0.1), (100, 0.0)], [(80, 0.04), (100, 0.0)]
    assert untrained([steep], [90.0], {}) == "dev perplexity fell by 9.52 % in the last fifth of its steps"
    assert untrained([gentle], [90.0], {}) is None
    assert untrained([steep, FLAT], [90.0, 90.0], {}) is None  # mean 4.8 %
    assert untrained([steep, gentle], [90.0, 90.0], {}) is not None  # mean 6.7 %


def test_baselines_are_counted_on_the_sentences_of_the_run(tmp_path):
    texts = tmp_path / "hypotheses"
    texts.mkdir()
    (texts / "test.src").write_text("The dog sleeps .\nA house .\n")
    (texts / "test.ref").write_text("The dog sleeps .\nA house .\n")
    assert baselines(tmp_path, {}, "test") == {"copy of the source": pytest.approx(100.0)}
    toy = baselines(tmp_path, {"data": {"kind": "toy"}}, "test")
    assert sorted(toy) == ["copy of the source", "word-by-word dictionary"]
    assert baselines(tmp_path, {}, "dev") == {}


def test_the_dictionary_translates_to_the_run_s_target(tmp_path):
    english, german = "the old teacher", "die alt lehrer"
    assert dictionary_baseline([english]) == ["Die alt Lehrer"]
    assert [line.lower() for line in dictionary_baseline([german], "en")] == [english]
    (tmp_path / "hypotheses").mkdir()
    for suffix, line in (("src", german), ("ref", english)):
        (tmp_path / "hypotheses" / f"test.{suffix}").write_text(f"{line} .\n" * 3, encoding="utf-8")
    found = baselines(tmp_path, {"data": {"kind": "toy", "lowercase": True, "target": "en"}}, "test")
    assert found["word-by-word dictionary"] == pytest.approx(100.0)


def test_baselines_of_lower_cased_text_are_lower_cased(tmp_path):
    source = "the baker sees the house ."
    reference = dictionary_baseline([source])[0].lower()
    (tmp_path / "hypotheses").mkdir()
    for suffix, line in (("src", source), ("ref", reference)):
        (tmp_path / "hypotheses" / f"test.{suffix}").write_text(f"{line}\n", encoding="utf-8")
    found = baselines(tmp_path, {"data": {"kind": "toy", "lowercase": True}}, "test")
    assert found["word-by-word dictionary"] == pytest.approx(100.0)
    cased = baselines(tmp_path, {"data": {"kind": "toy"}}, "test")
    assert cased["word-by-word dictionary"] < 100.0


def test_a_record_brings_its_baselines(tmp_path):
    (tmp_path / "baselines.json").write_text(json.dumps({"test": {"copy of the source": 3.25}}))
    assert baselines(tmp_path, {}, "test") == {"copy of the source": 3.25}
    assert baselines(tmp_path, {}, "dev") == {}


@pytest.mark.parametrize("text", ["[", "[1]", "{", '"x"', '{"test": 5}', '{"test": {"copy of the source": null}}'])
def test_damaged_baselines_are_counted_again_from_the_texts(tmp_path, text):
    (tmp_path / "baselines.json").write_text(text)
    assert baselines(tmp_path, {}, "test") == {}
    (tmp_path / "hypotheses").mkdir()
    for suffix in ("src", "ref"):
        (tmp_path / "hypotheses" / f"test.{suffix}").write_text("The dog sleeps here .\n", encoding="utf-8")
    assert baselines(tmp_path, {}, "test") == {"copy of the source": pytest.approx(100.0)}


def test_the_baselines_are_those_of_the_first_seed_whose_texts_can_be_read(tmp_path):
    def run(seed):
        result = {"scores": {"test": {"bleu": {"value": 3.0}}}}
        return SimpleNamespace(
            folder=SimpleNamespace(path=tmp_path / f"seed{seed}"), config={}, result=result, curve=lambda _: FLAT
        )

    (tmp_path / "seed2").mkdir()
    (tmp_path / "seed2/baselines.json").write_text(json.dumps({"test": {"copy of the source": 3.25}}))
    assert why_untrained([run(1), run(2)]) == "not above the copy of the source (3.2 BLEU)"
    assert unjudged([run(1), run(2)]) is None
    assert why_untrained([run(1)]) is None
    assert "no seed's stored texts can be read" in str(unjudged([run(1)]))


@pytest.mark.parametrize(("same", "lines", "told"), [(15, 25, True), (12, 25, False), (15, 19, False)])
@pytest.mark.parametrize("bleu", [0.3, 30.0])
def test_a_row_that_translates_most_sentences_alike_is_not_trained(same, lines, told, bleu, tmp_path):
    """Where BLEU is low; a copy of the source scores 0, because the languages share no word."""
    texts = {"hyp": ["a dog ."] * same + [f"cat {at} ." for at in range(lines - same)]}
    texts |= {"src": [f"x{at}" for at in range(lines)], "ref": [f"bird {at} ." for at in range(lines)]}
    (tmp_path / "hypotheses").mkdir()
    for side, found in texts.items():
        (tmp_path / "hypotheses" / f"test.{side}").write_text("".join(f"{line}\n" for line in found), encoding="utf-8")
    result = {"scores": {"test": {"bleu": {"value": bleu}}}}
    run = SimpleNamespace(folder=RunFolder(tmp_path), config={}, result=result, curve=lambda _: FLAT)
    why = f"one sentence is {100 * same / lines:.0f} % of its translations"
    assert why_untrained([run, run]) == (why if told and bleu < 1 else None)


def test_few_validations_leave_it_unknown_whether_a_run_was_still_improving() -> None:
    whole, single, late = [(80.0, 1.0), (100.0, 0.9)], [(100.0, 0.9)], [(90.0, 1.0), (100.0, 0.9)]
    assert too_few_validations([whole, []]) is None  # without measurements, something else is told
    for curve in (single, late):
        assert "too few validations" in str(too_few_validations([whole, curve]))


def test_a_row_that_was_trained_past_its_best_step_is_told() -> None:
    falling, rising = [(80.0, 1.0), (100.0, 0.9)], [(50.0, 1.0), (80.0, 0.9), (100.0, 1.05)]
    assert past_its_best([falling, falling]) is None
    assert "ended 16.2 % above its lowest" in str(past_its_best([rising]))  # exp(0.15) - 1
    assert past_its_best([rising, falling, falling, falling]) is None  # 4 % on average
    assert past_its_best([[]]) is None
