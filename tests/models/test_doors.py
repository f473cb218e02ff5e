"""Networks, attention and position codes of other packages, named in a configuration."""

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor

from variations.configuration.tasks import named
from variations.models import Network, SequenceToSequence, Transformer, WeightedTransformer, build
from variations.models.doors import lacking
from variations.models.flops import Tokens, training_flops, uncounted
from variations.models.transformer.attention import Heads
from variations.models.transformer.positions import Positions
from variations.system.errors import UserError
from variations.tasks.translation.config import TranslationConfig

SOURCE, TARGET = torch.tensor([[5, 9, 7, 2], [8, 2, 0, 0]]), torch.tensor([[4, 6, 2], [3, 2, 0]])


class Uniform(Heads):
    """Attention with equal weights on all visible keys."""

    def attend(self, q: Tensor, seen: Any, mask: Any, *, causal: bool) -> Tensor:
        return super().attend(torch.zeros_like(q), seen, mask, causal=causal)


class NoPositions(Positions):
    def forward(self, start: int, length: int) -> Tensor:
        return torch.zeros(length, self.d_model)


class BagOfWords(SequenceToSequence):
    """Predict every target from the mean of the source's embeddings."""

    start_id, pad = 1, 0

    def __init__(self, vocabulary: int, d: int) -> None:
        super().__init__()
        self.vocabulary = vocabulary
        self.output = torch.nn.Parameter(torch.randn(vocabulary, d))

    @classmethod
    def from_config(cls, config: TranslationConfig, vocabulary: int, kernels: Any) -> "BagOfWords":
        return cls(vocabulary, config.model.d_model)

    @classmethod
    def forward_macs(cls, config: TranslationConfig, tokens: Tokens, vocabulary: int) -> int:
        return tokens.target * config.model.d_model * vocabulary

    def forward(self, source: Tensor, target: Tensor, packed: Any = None) -> Tensor:
        return self.start_cache(source)[:, None].expand(-1, target.size(1), -1)

    def start_cache(self, source: Tensor) -> Tensor:
        return self.output[source].mean(1)

    def decode_step(self, tokens: Tensor, cache: Tensor) -> Tensor:
        return self.logits(cache)


class Changed(Transformer):
    """A Transformer of which only the network changes, not the count of its operations."""


class Uncounted(Changed):
    @classmethod
    def forward_macs(cls, config: TranslationConfig, tokens: Tokens, vocabulary: int) -> int:
        return int(getattr(config.model, "nonsense"))  # noqa: B009 - the fault that is tested


class Negative(Changed):
    @classmethod
    def forward_macs(cls, config: TranslationConfig, tokens: Tokens, vocabulary: int) -> int:
        return super().forward_macs(config, tokens, vocabulary) - 10**12


class Forgotten(Changed):
    @classmethod
    def forward_macs(cls, config: TranslationConfig, tokens: Tokens, vocabulary: int) -> int:
        return None  # type: ignore[return-value]


class Nameless(BagOfWords):
    """Its networks have neither `vocabulary` nor `output`."""

    def __init__(self, vocabulary: int, d: int) -> None:
        torch.nn.Module.__init__(self)


class Unfinished(SequenceToSequence):
    def forward(self, source: Tensor, target: Tensor, packed: Any = None) -> Tensor:
        return source


@pytest.fixture(autouse=True)
def package(monkeypatch: pytest.MonkeyPatch) -> None:
    """An installed package `elsewhere.nets`."""
    module = ModuleType("elsewhere.nets")
    own = Uncounted, Negative, Forgotten
    for thing in (Uniform, NoPositions, BagOfWords, Changed, Nameless, Unfinished, *own):
        setattr(module, thing.__name__, thing)
    module.number = 3  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "elsewhere", ModuleType("elsewhere"))
    monkeypatch.setitem(sys.modules, "elsewhere.nets", module)


def config(**changes: str) -> TranslationConfig:
    config = TranslationConfig()
    m = config.model
    m.N, m.d_model, m.d_ff, m.h = 1, 8, 16, 2
    config.positions.kind = changes.pop("positions", "sinusoidal")
    for key, value in changes.items():
        setattr(m, key, value)
    return config


def test_a_network_of_another_package() -> None:
    found = build(config(kind="elsewhere.nets:BagOfWords"), 13)
    assert isinstance(found, BagOfWords)
    assert found(SOURCE, TARGET).shape == (2, 3, 8)
    assert found.parameter_groups() == {"main": [found.output]}
    assert found.metrics() == {}
    tokens = Tokens(6, 5, 20, 13, 16)
    assert training_flops(config(kind="elsewhere.nets:BagOfWords"), tokens, 13) == 6 * 5 * 8 * 13


def test_a_class_may_say_that_its_matrix_products_are_those_of_the_transformer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The line is that of docs/adding-a-variation.md."""
    own = type("Same", (Transformer,), {"forward_macs": Transformer.forward_macs, "__module__": "elsewhere.nets"})
    monkeypatch.setattr(sys.modules["elsewhere.nets"], "Same", own, raising=False)
    same = config(kind="elsewhere.nets:Same")
    assert uncounted(same) == []
    tokens = Tokens(6, 5, 20, 13, 16)
    assert training_flops(same, tokens, 13) == training_flops(config(), tokens, 13) > 0


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({}, []),
        ({"kind": "elsewhere.nets:BagOfWords"}, []),
        (
            {"kind": "elsewhere.nets:Changed", "attention": "elsewhere.nets:Uniform"},
            [
                "FLOPs are counted as those of Transformer, because Changed has no forward_macs",
                "FLOPs are counted with dot-product attention in place of Uniform",
            ],
        ),
    ],
)
def test_what_is_counted_in_place_of_an_own_class_is_told(changes: dict[str, str], told: list[str]) -> None:
    assert uncounted(config(**changes)) == told


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "Uncounted",
            r"forward_macs fails: AttributeError in .*line \d+: 'ModelConfig' object has no attribute 'nonsense'",
        ),
        (
            "Negative",
            r"forward_macs returned -99.*; it must return the multiply-accumulates of a forward pass, a whole",
        ),
        (
            "Forgotten",
            r"forward_macs returned None; it must return the multiply-accumulates of a forward pass, a whole",
        ),
    ],
)
def test_a_class_that_cannot_count_its_operations_is_told(name: str, message: str) -> None:
    with pytest.raises(UserError, match=rf"^model.kind=elsewhere.nets:{name}: {message}"):
        training_flops(config(kind=f"elsewhere.nets:{name}"), Tokens(1, 1, 1, 1, 1), 100)


def test_a_class_of_ones_own_is_given_padded_batches_unless_it_asks_for_others() -> None:
    """A layer of its own that ignores `packed` would mix the sentences of a row."""
    own = type("Own", (Transformer,), {"varlen": True})
    assert [kind.varlen for kind in (Transformer, WeightedTransformer, Changed, own)] == [True, True, False, True]
    told = named("translation").profile(config(kind="elsewhere.nets:Changed"), "cuda")
    assert told == {"attention": "sdpa over padded batches: elsewhere.nets:Changed does not say varlen = True"}


def test_a_network_that_has_all_members_need_not_be_derived() -> None:
    members = {name: vars(kind)[name] for kind in (Network, SequenceToSequence, BagOfWords) for name in vars(kind)}
    own = {name: member for name, member in members.items() if not name.startswith("_")}
    assert lacking(type("Duck", (torch.nn.Module,), own), SequenceToSequence) == []
    del own["decode_step"]
    assert lacking(type("Duck", (torch.nn.Module,), own), SequenceToSequence) == ["decode_step"]


def test_attention_of_another_package_is_that_of_the_network() -> None:
    network = build(config(attention="elsewhere.nets:Uniform"), 13).eval()
    assert isinstance(network, Transformer)
    kinds = [type(module) for module in network.modules() if isinstance(module, Heads)]
    assert kinds == [Uniform] * 3, "encoder, decoder and cross-attention"
    x = torch.randn(1, 4, 8)
    layer = network.encoder[0].self_heads  # type: ignore[union-attr]
    value = layer.project(x) if layer.cross else layer.inputs(x).split(layer.widths, dim=-1)[2]  # type: ignore
    attended, _ = layer.self_attend(x, None, causal=False)  # type: ignore[operator]
    expected = value.view(1, 4, 2, 4).transpose(1, 2).mean(2, keepdim=True).expand(1, 2, 4, 4)
    torch.testing.assert_close(attended, expected, rtol=0, atol=1e-6)


def test_positions_of_another_package_are_added() -> None:
    network = build(config(positions="elsewhere.nets:NoPositions"), 13).eval()
    assert isinstance(network, Transformer)
    x = network.embed(SOURCE, network.source_embedding, network.source_positions)
    torch.testing.assert_close(x[0], network.source_embedding[SOURCE[0]] * 8**0.5)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("\nclass Net(\n", "SyntaxError in {file}, line 2: '(' was never closed."),
        ("import math\nx = math.inf / 0\n", "ZeroDivisionError in {file}, line 2: float division by zero."),
    ],
)
def test_a_module_that_cannot_be_imported_is_told_with_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, said: str
) -> None:
    name = f"faulty_{len(text)}"
    file = tmp_path / f"{name}.py"
    file.write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(UserError) as caught:
        build(config(kind=f"{name}:Net"), 13)
    assert f"model.kind={name}:Net: {said.format(file=file)}" in str(caught.value)


def test_a_mistyped_module_of_an_installed_package_is_told_with_those_that_exist(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mistyped").mkdir()
    for name in ("__init__", "model", "other"):
        (tmp_path / "mistyped" / f"{name}.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(
        UserError, match=r"model\.kind=mistyped\.modl:Net: mistyped has no module modl\. Valid: model, other\."
    ):
        build(config(kind="mistyped.modl:Net"), 13)


def test_an_exception_of_a_class_of_another_package_is_told_with_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "raising.py"
    file.write_text(
        "from torch import nn\n"
        "from variations.models import Transformer\n"
        "from variations.models.transformer.attention import Heads\n"
        "class Net(Transformer):\n"
        "    @classmethod\n"
        "    def from_config(cls, config, vocabulary, kernels):\n"
        "        return nn.Linear(config.model.d_model, None)\n"
        "class Attention(Heads):\n"
        "    def __init__(self, *args, **kwargs):\n"
        "        super().__init__(*args, **kwargs)\n"
        "        self.gate = {}['gate']\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(UserError) as caught:
        build(config(kind="raising:Net"), 13)
    assert str(caught.value).startswith(f"model.kind=raising:Net: cannot be constructed: TypeError in {file}, line 7: ")
    with pytest.raises(UserError) as caught:
        build(config(attention="raising:Attention"), 13)
    assert str(caught.value) == (
        f"model.attention=raising:Attention: cannot be constructed: KeyError in {file}, line 11: 'gate'."
    )


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"kind": "wieghted"},
            "model.kind=wieghted: valid choices are transformer, weighted, or package.module:Class of an installed "
            "package.",
        ),
        ({"kind": "nowhere.at.all:Net"}, "model.kind=nowhere.at.all:Net: cannot import nowhere.at.all"),
        ({"kind": "elsewhere.nets:Net"}, "elsewhere.nets has no class Net: check the name after the colon."),
        (
            {"kind": "elsewhere.nets:Uniform"},
            "model.kind=elsewhere.nets:Uniform: lacks adjust_gradients, after_update, decode_step, forward, "
            "forward_macs, from_config, logits, metrics, parameter_groups, start_cache, varlen: define all "
            "members of variations.models.network:SequenceToSequence, or derive from it "
            "(docs/adding-a-variation.md has a table).",
        ),
        ({"kind": "elsewhere.nets:number"}, "elsewhere.nets has no class number"),
        (
            {"kind": "elsewhere.nets:Unfinished"},
            "lacks decode_step, forward_macs, start_cache: define them as in variations.models.network:SequenceToSeq",
        ),
        (
            {"kind": "elsewhere.nets:Nameless"},
            "model.kind=elsewhere.nets:Nameless: its networks lack output, vocabulary: define all members of "
            "variations.models.network:SequenceToSequence.",
        ),
        ({"attention": "additiv"}, "model.attention=additiv: valid choices are dot_product, additive, restricted, or"),
        (
            {"attention": "elsewhere.nets:NoPositions"},
            "derive it from variations.models.transformer.attention:Heads, as in `class NoPositions(Heads)`, "
            "and write only what differs (docs/adding-a-variation.md).",
        ),
        ({"positions": "elsewhere.nets:"}, "positions.kind=elsewhere.nets:: valid choices are sinusoidal, learned, or"),
    ],
)
def test_what_cannot_be_had_is_told(changes: dict[str, str], said: str) -> None:
    with pytest.raises(UserError) as caught:
        build(config(**changes), 13)
    assert said in str(caught.value)
