"""A third-party network whose decoding disagrees with its training is reported before training."""

import sys
from typing import Any

import pytest
import torch
from torch import Tensor

from variations.models import SequenceToSequence, build
from variations.models.transformer.attention import Heads
from variations.models.transformer.positions import Positions, sinusoids
from variations.system.errors import UserError
from variations.tasks.sequences.agreement import check, foreign
from variations.tasks.sequences.counting import activation_bytes
from variations.tasks.translation.config import TranslationConfig


class Nothing:
    """The cache of a network that needs none."""

    def select(self, rows: Tensor, sentences: Tensor | None = None) -> None:
        pass


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

    def start_cache(self, source: Tensor) -> Any:
        return Nothing()

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
        for config.model.target_vocabulary in (None, 5, 30):
            config.model.kind = kind
            check(build(config, 13), "ours")


def test_a_wrong_shape_or_value_is_one_sentence() -> None:
    with pytest.raises(UserError) as shape:
        check(LastWord(cut=5), "model.kind=m:LastWord")
    assert str(shape.value) == (
        'model.kind=m:LastWord: decode_step must return logits (R, V), here (2, 9), but returned shape (2, 5): see "'
        'A model" in docs/adding-a-variation.md.'
    )
    with pytest.raises(UserError, match=r"decode_step and forward disagree about target token 1: .* by up to 0.5; "):
        check(LastWord(bias=0.5), "model.kind=m:LastWord")


def test_an_exception_in_the_networks_code_is_told_with_its_line() -> None:
    class Wrong(LastWord):
        def start_cache(self, source: Tensor) -> Any:
            return {}["gate"]

    line = Wrong.start_cache.__code__.co_firstlineno + 1
    with pytest.raises(UserError) as caught:
        check(Wrong(), f"model.kind={__name__}:Wrong")
    assert str(caught.value) == (
        f"model.kind={__name__}:Wrong: cannot process two tiny pairs: KeyError in {__file__}, line {line}: 'gate'."
    )


def test_an_exception_in_our_code_is_told_with_the_module_at_work() -> None:
    """As after a feed-forward network of one's own has returned another width."""
    config = TranslationConfig()
    config.model.N, config.model.d_model, config.model.h = 2, 8, 2
    network = build(config, 13)
    network.encoder[1].feed_forward = torch.nn.Linear(8, 7)
    place = (
        r"cannot process two tiny pairs, in encoder\.1\.residuals\.1: RuntimeError in .*layers\.py, line \d+: The size"
    )
    with pytest.raises(UserError, match=place):
        check(network, "model.kind=m:Mine")


class WordBefore(LastWord):
    """Predicts every target from the previous token and the first word of the source."""

    def __init__(self, *, selects: str = "all", reads_padding: bool = False) -> None:
        super().__init__()
        self.selects, self.reads_padding = selects, reads_padding

    def read(self, source: Tensor) -> Tensor:
        words = self.output[source] * (1.0 if self.reads_padding else source.ne(0).unsqueeze(-1))
        return words.sum(1)

    def forward(self, source: Tensor, target: Tensor, packed: Any = None) -> Tensor:
        return super().forward(source, target) + self.read(source)[:, None]

    def start_cache(self, source: Tensor) -> Any:
        return None if self.selects == "no method" else Rows(self.read(source), self.selects)

    def decode_step(self, tokens: Tensor, cache: Any) -> Tensor:
        read = self.read(torch.tensor([[5, 6, 2], [4, 2, 0]])) if cache is None else cache.read
        return self.logits(self.output[tokens] + read)


class Rows(Nothing):
    """What was read for each row."""

    def __init__(self, read: Tensor, selects: str) -> None:
        self.read, self.selects = read, selects

    def select(self, rows: Tensor, sentences: Tensor | None = None) -> None:
        if self.selects == "all" or (self.selects == "repeats only" and len(rows) > len(self.read)):
            self.read = self.read[rows]


def test_a_cache_that_selects_wrongly_and_a_network_that_reads_padding_are_told() -> None:
    check(WordBefore(), "model.kind=m:Net")
    with pytest.raises(UserError) as wrong:
        check(WordBefore(selects="repeats only"), "model.kind=m:Net")
    assert "m:Net: after the cache's select(rows, sentences) has swapped two sentences and rep" in str(wrong.value)
    assert str(wrong.value).endswith(': see "A model" in docs/adding-a-variation.md.')
    told = r"two tiny pairs, whose rows the cache's select\(rows, sentences\) swaps and repeats: RuntimeError in"
    with pytest.raises(UserError, match=told):
        check(WordBefore(selects="nothing"), "model.kind=m:Net")
    with pytest.raises(
        UserError, match=r"start_cache returned NoneType, which has no method select\(rows, sentences=N"
    ):
        check(WordBefore(selects="no method"), "model.kind=m:Net")
    with pytest.raises(
        UserError, match=r"forward gives a padded sentence other logits .*; padding must have no effect"
    ):
        check(WordBefore(reads_padding=True), "model.kind=m:Net")


class Blind(Heads):
    """Attention that ignores padding, or the order of the targets."""

    ignored = "mask"

    def attend(self, q: Tensor, seen: Any, mask: Any, *, causal: bool) -> Tensor:
        if self.ignored == "mask":
            return super().attend(q, seen, None, causal=causal)
        return super().attend(q, seen, mask, causal=False)


class Narrow(Heads):
    """Attention whose heads are narrower than they should be."""

    def attend(self, q: Tensor, seen: Any, mask: Any, *, causal: bool) -> Tensor:
        return super().attend(q, seen, mask, causal=causal)[..., :-1]


class Unlike(Heads):
    """Attention that does not take what it is given."""

    def attend(self, q: Tensor, seen: Any, mask: Any) -> Tensor:  # type: ignore[override]
        return q


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "said"),
    [
        (
            "Narrow",
            r"^Narrow\.attend must return heads of shape \(B, h, T, d_v\), here \(2, 2, 5, 4\), but returned \(2, 2",
        ),
        (
            "Unlike",
            r"Unlike: cannot process a batch, in encoder\.0\.self_heads: TypeError in .* unexpected keyword argument",
        ),
    ],
)
def test_a_fault_of_a_class_of_another_package_is_told_when_its_memory_is_counted(
    name: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "test_agreement", sys.modules[__name__])
    config = TranslationConfig()
    config.model.N, config.model.d_model, config.model.h = 1, 8, 2
    config.model.attention = f"test_agreement:{name}"
    with pytest.raises(UserError, match=said):
        activation_bytes(config, 13, 4, 5, 6)


class Codes(Positions):
    """Codes of a given shape, which begin at 0 whatever the start is."""

    shape: tuple[int, ...] | None = None

    def forward(self, start: int, length: int) -> Tensor:
        return sinusoids(length, self.d_model) if self.shape is None else torch.zeros(self.shape)


@pytest.mark.parametrize(
    ("key", "name", "changed", "said"),
    [
        ("attention", "Blind", "mask", r"padding must have no effect: does its attend apply `mask` and `causal`\?$"),
        (
            "attention",
            "Blind",
            "causal",
            r"about target token 1: .* apply `mask` and `causal`\? does it use distances\?",
        ),
        ("positions", "Codes", None, r"token 2: .* its forward\(start, length\) encode the positions from `start`\?$"),
        (
            "positions",
            "Codes",
            (1, 3, 8),
            r"^positions.kind=test_agreement:Codes: forward\(start, length\) must return encodings \(length, "
            r"d_model\), here \(3, 8\) of forward\(0, 3\), but returned shape \(1, 3, 8\)\.$",
        ),
    ],
)
def test_advice_is_about_the_part_that_is_of_another_package(
    key: str, name: str, changed: Any, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "test_agreement", sys.modules[__name__])
    monkeypatch.setattr(Blind, "ignored", changed)
    monkeypatch.setattr(Codes, "shape", changed)
    config = TranslationConfig()
    config.model.N, config.model.d_model, config.model.h = 1, 8, 2
    if key == "attention":
        config.model.attention = f"test_agreement:{name}"
    else:
        config.positions.kind = f"test_agreement:{name}"
    with pytest.raises(UserError, match=said):
        check(build(config, 13), foreign(config) or "")
