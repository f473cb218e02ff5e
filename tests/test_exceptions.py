"""Unexpected exceptions in words."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from variations.system.exceptions import raised, short_traceback


class Theirs(nn.Module):
    """A class of a user's own, with a fault."""

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[0] == 1:
            return nn.Linear(3, 2)(x)
        raise KeyError("d_f") from ValueError("cause")


def test_a_traceback_leaves_out_the_frames_of_libraries() -> None:
    with pytest.raises(KeyError) as caught:
        nn.Sequential(Theirs())(torch.zeros(2, 4))
    text = short_traceback(caught.value)
    assert "modules/module.py" not in text and "modules/container.py" not in text
    assert "in forward\n    raise KeyError" in text
    assert text.startswith("ValueError: cause\n\nThe above exception was the direct cause of")
    assert text.endswith("\nKeyError: 'd_f'\n")
    assert raised(caught.value, [__file__]).startswith(f"KeyError in {__file__}, line ")


def test_where_a_library_raised_it_stays_to_be_seen() -> None:
    with pytest.raises(RuntimeError) as caught:
        nn.Sequential(Theirs())(torch.zeros(1, 4))
    frames = [line for line in short_traceback(caught.value).splitlines() if line.startswith("  File ")]
    assert len(frames) == 3  # this test, their class, and where torch raised it, also after `multiply_in_float32`
    assert frames[-1].endswith("in forward") and "modules/linear.py" in frames[-1]


def test_products_in_the_place_of_torchs_are_left_out() -> None:
    product: dict[str, Any] = {}
    text = "def product(): raise RuntimeError('shapes')"
    exec(compile(text, "/place/variations/training/bf16.py", "exec"), product)
    with pytest.raises(RuntimeError) as caught:
        product["product"]()
    assert "bf16.py" not in short_traceback(caught.value)
    assert raised(caught.value).startswith(f"RuntimeError in {__file__}, line ")
