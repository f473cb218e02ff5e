"""What a row changes in its base row, in the papers' symbols."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from variations.store.differences import changes, differences, equal_rows, varied
from variations.training.ema import MovingAverage

Configure = Callable[..., dict[str, Any]]


def test_heads_that_share_the_width_are_told_with_their_widths(configuration: Configure) -> None:
    base, row = configuration(), configuration(model__h=16)
    assert differences(base, row, (65_000_000, 65_000_000)) == "heads 8→16, d_k 64→32; parameters +0"


def test_an_explicit_default_is_no_difference(configuration: Configure) -> None:
    base, row = configuration(), configuration(model__d_k=64, model__d_v=64)
    assert differences(base, row) == "same configuration"


def test_parameters_lost_are_counted_with_a_minus(configuration: Configure) -> None:
    base, row = configuration(), configuration(model__d_k=32)
    assert differences(base, row, (65_126_400, 60_400_128)) == "d_k 64→32; parameters −4,726,272"


def test_branch_settings_count_only_where_the_model_has_branches(configuration: Configure) -> None:
    base = configuration(branch__M=4)
    assert differences(base, configuration(branch__kappa=False)) == "same configuration"
    weighted = configuration(model__kind="weighted", branch__kappa=False)
    assert differences(configuration(), weighted) == "model transformer→weighted, M 8, κ learned on→off"
    both = configuration(model__kind="weighted")
    assert differences(both, weighted) == "κ learned on→off"


def test_rows_of_texts_in_other_folders_are_not_called_equal(configuration: Configure) -> None:
    own, moved = (configuration() | {"data": {"kind": "folder", "root": root}} for root in ("a", "b"))
    assert equal_rows({"one": own, "other": moved}) == [] != equal_rows({"one": own, "same": own})


def test_seeds_places_and_names_are_no_difference(configuration: Configure) -> None:
    row = configuration(seed=3, runs="/x", name="n", logger__kind="none", trainer__threads=2, variation__label="x")
    assert changes(configuration(), row) == {}


WEIGHTED = {"model__kind": "weighted"}


@pytest.mark.parametrize(
    ("off", "on", "key", "values"),
    [
        ({"positions__kind": "sinusoidal"}, {"positions__kind": "learned"}, "positions__max_length", (256, 512)),
        ({"positions__kind": "learned"}, {"positions__kind": "sinusoidal"}, "positions__form", ("paper", "t2t")),
        ({"recipe__label_smoothing": 0.0}, {"recipe__label_smoothing": 0.1}, "recipe__smoothing", ("t2t", "torch")),
        ({"recipe__average": 1}, {"recipe__average": 2}, "recipe__average_every", (2, 3)),
        ({"decode__beam": 1}, {"decode__beam": 2}, "decode__alpha", (0.6, 3.0)),
        (
            WEIGHTED | {"branch__gate__kind": "none"},
            WEIGHTED | {"branch__gate__kind": "topk"},
            "branch__gate__k",
            (2, 4),
        ),
        (
            WEIGHTED | {"branch__eval_mode": "uniform"},
            WEIGHTED | {"branch__eval_mode": "random_uniform"},
            "branch__eval_seed",
            (1, 2),
        ),
        ({"recipe__optimizer": "sgd"}, {"recipe__optimizer": "adamw"}, "recipe__beta1", (0.9, 0.5)),
        (
            WEIGHTED | {"branch__train_mode": "random_per_step"},
            WEIGHTED,
            "branch__kappa",
            (True, False),
        ),
        (
            WEIGHTED | {"branch__train_mode": "uniform"},
            WEIGHTED,
            "branch__eval_mode",
            ("learned", "uniform"),
        ),
        (
            WEIGHTED | {"branch__decoder": "both", "branch__M": 4, "model__d_k": 64, "model__d_v": 64},
            WEIGHTED | {"branch__decoder": "cross", "branch__M": 4, "model__d_k": 64, "model__d_v": 64},
            "model__h",
            (2, 8),
        ),
        ({}, {"callbacks": {"early_stopping": {"patience": 1}}}, "trainer__val_every", (5, 60)),
        ({}, {"callbacks": {"early_stopping": {"patience": 1}}}, "trainer__val_bleu", (100, 200)),
    ],
)
def test_a_key_that_another_one_switches_off_is_no_difference(
    off: dict[str, Any], on: dict[str, Any], key: str, values: tuple[Any, Any], configuration: Configure
) -> None:
    assert changes(*(configuration(**off, **{key: value}) for value in values)) == {}
    assert changes(*(configuration(**on, **{key: value}) for value in values)) == {key.replace("__", "."): values}


def test_decays_that_no_update_reaches_are_one(configuration: Configure) -> None:
    """The last of 2,400 updates uses at most 2400 / 2409 = 0.9963 (training/ema.py)."""
    for steps, different in ((2400, False), (100_000, True)):
        slow, slower = (configuration(recipe__ema=decay, trainer__max_steps=steps) for decay in (0.999, 0.9999))
        assert ("recipe.ema" in changes(slow, slower)) == different
        assert bool(equal_rows({"slow": slow, "slower": slower})) != different
        assert ("recipe.ema" in varied([slow, slower])) == different
    shorter, longer = (configuration(recipe__ema=0.995, trainer__max_steps=steps) for steps in (100, 200))
    assert changes(shorter, longer) == {"trainer.max_steps": (100, 200)}
    last = MovingAverage(0.9999)
    last.updates, layer = 2399, torch.nn.Linear(1, 1, bias=False)
    last.start(layer)
    before = last.weights["weight"].item()
    torch.nn.init.constant_(layer.weight, before + 1)
    last.update(layer)
    assert last.weights["weight"].item() - before == pytest.approx(1 - 2400 / 2409, rel=1e-3)
    layer.double()  # as after `resume.allow=[trainer.precision]`
    last.start(layer)
    last.update(layer)
    assert last.weights["weight"].dtype == torch.float64


def test_a_gate_that_keeps_all_branches_is_none(configuration: Configure) -> None:
    keys: dict[str, Any] = WEIGHTED | {"branch__M": 4}
    plain = configuration(**keys)
    for k, renormalise, told in ((4, False, set()), (3, False, {"kind", "k"}), (4, True, {"kind", "k", "renormalise"})):
        gate = {"branch__gate__kind": "topk", "branch__gate__k": k, "branch__gate__renormalise": renormalise}
        assert changes(plain, configuration(**keys, **gate)).keys() == {f"branch.gate.{key}" for key in told}


def test_heads_count_where_they_give_the_number_of_branches(configuration: Configure) -> None:
    rows = [configuration(**WEIGHTED, branch__decoder="both", model__h=h) for h in (2, 4, 8)]
    assert varied(rows) == {"model.h": [2, 4, 8]}
    assert changes(rows[0], rows[1]).keys() >= {"model.h", "branch.M"}


def test_decays_are_given_as_they_are_stated(configuration: Configure) -> None:
    short, long = (configuration(recipe__ema=e, trainer__max_steps=n) for e, n in ((0.9999, 100), (0.999, 100_000)))
    assert changes(short, long)["recipe.ema"] == (0.9999, 0.999)
    assert varied([short, long])["recipe.ema"] == [0.9999, 0.999]
