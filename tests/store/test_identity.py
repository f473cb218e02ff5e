"""The settings that identify a run."""

from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from variations.configuration.compose import compose_run, to_dict
from variations.store.identity import changed_keys, flatten
from variations.store.naming import run_folder
from variations.training.checkpoints import refuse_foreign

PARSER = ["task=parsing", "data=ptb"]
BASE: dict[str, Any] = {
    "task": "translation",
    "seed": 1,
    "runs": "here",
    "model": {"h": 4, "d_model": 64},
    "data": {"kind": "toy", "root": "a", "cache": "b"},
}
CHANGES: list[tuple[dict[str, Any], set[str]]] = [
    ({}, set()),
    ({"runs": "there", "data": {"kind": "toy", "root": "a", "cache": "c"}}, set()),
    ({"seed": 2}, {"seed"}),
    ({"model": {"h": 4, "d_model": 32}}, {"model.d_model"}),
    ({"model": {"h": 4}}, {"model.d_model"}),
    ({"data": {"kind": "toy", "root": "z", "cache": "b"}}, set()),
    ({"data": {"kind": "folder", "root": "a", "cache": "b"}}, {"data.kind", "data.root"}),
]


@pytest.mark.parametrize(("change", "keys"), CHANGES)
def test_only_what_identifies_a_run_counts_as_changed(change: dict[str, Any], keys: set[str]) -> None:
    """The seed counts; paths do not, except the folder of a user's own text."""
    found = changed_keys(BASE, deepcopy(BASE) | change)
    assert found.keys() == keys
    assert changed_keys(BASE | change, BASE).keys() == keys


@pytest.mark.parametrize("typed", ["/c2/", "/c2/.", "/./c2"])
def test_a_folder_of_own_text_is_one_however_it_is_typed(typed: str) -> None:
    words = ["data=files", "data.source=en", "data.target=de"]
    config, other = (compose_run([*words, f"data.root={root}"]) for root in (typed, "/c2"))
    assert run_folder(config) == run_folder(other)
    assert changed_keys(to_dict(config), to_dict(other)) == {}
    written = flatten(to_dict(config))  # as checkpoints of older versions have it
    assert refuse_foreign(Path("step1.ckpt"), {"data.root": written["data.root"]}, to_dict(other)) is None


@pytest.mark.parametrize(
    ("typed", "other"),
    [
        (["decode.sets=[dev,test]"], ["decode.sets=[test,dev]"]),
        ([*PARSER, "data.extra=[/x/a,/x/b]"], [*PARSER, "data.extra=[/x/a/,/x//b]"]),
    ],
)
def test_a_list_means_the_same_in_another_order_or_spelling(typed: list[str], other: list[str]) -> None:
    config, again = (compose_run(words) for words in (typed, other))
    assert changed_keys(to_dict(config), to_dict(again)) == {}
    assert run_folder(config) == run_folder(again)


def test_two_folders_of_own_text_differ_beside_groups_that_are_equal() -> None:
    own = BASE | {"data": {"kind": "folder", "root": "a"}}
    assert changed_keys(own, own | {"data": {"kind": "folder", "root": "b"}}) == {"data.root": ("a", "b")}
    assert changed_keys(own, own | {"data": {"kind": "folder", "root": "a/"}}) == {}  # as older versions stored it


def test_equal_values_differ_where_the_task_does_not_count_them_alike() -> None:
    """Without the task's group `data`, a configuration of another task has the same own-text folder or none."""
    other = BASE | {"task": "parsing", "data": {"kind": "treebank", "root": "a"}}
    same = BASE | {"data": {"kind": "treebank", "root": "a"}}
    assert changed_keys(same, other)["data.root"] == (None, "a")


def test_keys_that_neither_configuration_uses_make_no_other_run() -> None:
    """So a run that was begun with one of them continues without it, now that a typed one is refused."""

    def run(beta1: float, M: int, **more: Any) -> dict[str, Any]:
        recipe, model = {"optimizer": "adam", "beta1": beta1}, {"kind": "transformer"}
        return BASE | {"recipe": recipe | more.pop("recipe", {}), "model": model | more, "branch": {"M": M}}

    assert {*changed_keys(run(0.5, 4), run(0.9, 8))} == {"recipe.beta1"}
    sgd = {"optimizer": "sgd"}
    assert changed_keys(run(0.5, 4, recipe=sgd), run(0.9, 8, recipe=sgd)) == {}
    of_one = changed_keys(run(0.5, 4, recipe=sgd), run(0.9, 8, kind="weighted"))
    assert {*of_one} == {"recipe.beta1", "recipe.optimizer", "branch.M", "model.kind"}
