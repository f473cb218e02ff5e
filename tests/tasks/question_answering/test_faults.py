"""Settings that a network or generated stories would ignore or cannot compute are refused."""

import pytest

from variations.configuration.compose import compose_run
from variations.configuration.faults import faults


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["data.root=x"], "data=babi_toy generates its stories, and reads none from data.root: set data=babi"),
        (["model=dmn", "recipe.noise=0.5"], "recipe.noise inserts empty memories, which model=dmn does not have"),
        (["trainer.precision=bf16-mixed"], "trainer.precision=bf16-mixed: model=memn2n needs 32-true or 64-true."),
        (["model=story_lstm", "trainer.precision=bf16-mixed"], "model=lstm needs 32-true or 64-true."),
        (["model=dmn", "trainer.precision=bf16-mixed"], "model=dmn needs 32-true or 64-true."),
        (["model=memnn", "recipe.noise=0.5"], "recipe.noise changes times, of which model=memnn reads only the order"),
        (["model=story_lstm", "recipe.noise=0.5"], "empty memories, which model=lstm does not have"),
    ],
)
def test_what_would_be_ignored_or_fail_is_refused(words: list[str], told: str) -> None:
    assert any(told in text for text in faults(compose_run(["task=question_answering", *words])))
