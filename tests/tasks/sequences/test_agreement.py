"""A third-party network whose decoding disagrees with its training is reported before training."""

from typing import Any

import pytest
import torch
from torch import Tensor

from variations.models import SequenceToSequence, build
from variations.system.errors import UserError
from variations.tasks.sequences.agreement import check, foreign
from variations.tasks.translation.config import TranslationConfig


class LastWord(SequenceToSequence):
    """Predicts every target from the previous token, with dropout, which the check must disable."""

    start_id, pad, vocabulary = 1, 0, 9

    def __init__(self, bias: float = 0.0, cut: int = 9) -> None:
        super().__init__()
        self.output = torch.nn.Parameter(torch.randn(9, 4))
        self.dropout = torch.nn.Dropout(0.5)
        self.bias, self.cut = bias, cut

    def forward(self, source: Tensor, target: Tensor, packed: Any = None) -> Tensor:
        before = torch.cat([torch.full_like(target[:, :1], 1), target[:, :-1]], dim=1)
        return self.dropout(self.output[before])

    def start_cache(self, source: Tensor) -> None:
        return None

    def decode_step(self, tokens: Tensor, cache: Any) -> Tensor:
        return self.logits(self.dropout(self.output[tokens]))[:, : self.cut] + self.bias

    @classmethod
    def forward_macs(cls, config: Any, tokens: Any, vocabulary: int) -> int:
        return 0


def test_networks_that_agree_pass_and_random_numbers_stay() -> None:
    network, before = LastWord().train(), torch.random.get_rng_state()
    check(network, "model.kind=m:LastWord")
    assert network.training and torch.equal(torch.random.get_rng_state(), before)
    config = TranslationConfig()
    assert foreign(config) is None
    config.model.N, config.model.d_model, config.model.h = 1, 8, 2
    for kind in ("transformer", "weighted"):
        config.model.kind = kind
        check(build(config, 13), "ours")


def test_a_wrong_shape_or_value_is_one_sentence() -> None:
    with pytest.raises(UserError) as shape:
        check(LastWord(cut=5), "model.kind=m:LastWord")
    assert str(shape.value) == (
        "model.kind=m:LastWord: decode_step must return logits (R, V), here (2, 9), but returned shape (2, 5): see the "
        "table of members in docs/adding-a-variation.md."
    )
    with pytest.raises(UserError, match=r"decode_step and forward disagree about target token 1: .* by up to 0.5; "):
        check(LastWord(bias=0.5), "model.kind=m:LastWord")
