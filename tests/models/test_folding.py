"""At inference the composed matrices are computed once, and again after any weight changes."""

import pytest
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from variations.configuration.transformer import BranchConfig, ModelConfig
from variations.models import build
from variations.models.kernels import Reference
from variations.models.transformer.branch_weights import BranchWeights
from variations.models.transformer.branched import ComposedBranches
from variations.tasks.translation.config import TranslationConfig


def model(ffn: str) -> torch.nn.Module:
    config = TranslationConfig()
    config.model = ModelConfig(kind="weighted", N=1, d_model=16, d_ff=32, h=4, dropout=0.0)
    config.branch.ffn = ffn
    torch.manual_seed(0)
    return build(config, 20).double().eval()


SOURCE, TARGET = torch.tensor([[3, 4, 5, 2]]), torch.tensor([[6, 7, 2]])


@pytest.mark.parametrize("ffn", ["shared", "split", "full"])
def test_inference_equals_the_differentiable_form(ffn: str) -> None:
    network = model(ffn)
    expected = network(SOURCE, TARGET).detach()
    with torch.no_grad():
        found = network(SOURCE, TARGET)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


def test_composing_happens_once_while_decoding(monkeypatch: pytest.MonkeyPatch) -> None:
    network, calls = model("shared"), []
    original = ComposedBranches.compose

    def counted(self: ComposedBranches, kappa: Tensor) -> tuple[Tensor, Tensor | None]:
        calls.append(self)
        return original(self, kappa)

    monkeypatch.setattr(ComposedBranches, "compose", counted)
    with torch.no_grad():
        cache = network.start_cache(SOURCE)
        for token in (network.start_id, 6, 7):
            network.decode_step(torch.tensor([token]), cache)
    assert len(calls) == 2  # one branched sub-layer in the encoder, one in the decoder


@pytest.mark.parametrize("name", ["kappa", "output", "W1"])
def test_a_changed_weight_is_noticed(name: str) -> None:
    network = model("shared")
    with torch.no_grad():
        before = network(SOURCE, TARGET)
        next(p for n, p in network.named_parameters() if n.endswith(name)).mul_(0.5)
        after = network(SOURCE, TARGET)
    assert not torch.allclose(before, after)
    torch.testing.assert_close(after, network(SOURCE, TARGET).detach(), rtol=1e-12, atol=1e-12)


def test_loaded_weights_are_noticed() -> None:
    network = model("shared")
    other = {name: value + 0.1 for name, value in network.state_dict().items()}
    with torch.no_grad():
        network(SOURCE, TARGET)
        network.load_state_dict(other)
        after = network(SOURCE, TARGET)
    torch.testing.assert_close(after, network(SOURCE, TARGET).detach(), rtol=1e-12, atol=1e-12)


def test_an_update_by_a_fused_optimiser_is_noticed() -> None:
    network = model("shared")
    adam = torch.optim.Adam([p for p in network.parameters() if p.requires_grad], lr=0.1, fused=True)
    with torch.no_grad():
        before = network(SOURCE, TARGET)
    network(SOURCE, TARGET).square().sum().backward()
    adam.step()
    with torch.no_grad():
        after = network(SOURCE, TARGET)
    assert not torch.allclose(before, after)
    torch.testing.assert_close(after, network(SOURCE, TARGET).detach(), rtol=1e-12, atol=1e-12)


def one_step(network: torch.nn.Module) -> int:
    """Count the FLOPs of the matrix products in one decoding step with torch."""
    with torch.no_grad():
        cache = network.start_cache(SOURCE)
        network.decode_step(torch.tensor([6]), cache)
        with FlopCounterMode(display=False) as counter:
            network.decode_step(torch.tensor([7]), cache)
    total: int = counter.get_total_flops()
    assert total > 0
    return total


@pytest.mark.parametrize("size", [(64, 256, 8), (128, 512, 16)], ids=["M8", "M16"])
@pytest.mark.parametrize("ffn", ["shared", "split"])
def test_a_decoding_step_takes_no_more_products_than_the_plain_transformer_s(ffn: str, size: tuple[int, ...]) -> None:
    d, f, h = size
    config = TranslationConfig()
    config.model = ModelConfig(kind="transformer", N=2, d_model=d, d_ff=f, h=h, dropout=0.0)
    config.branch.ffn = ffn
    plain = build(config, 50).eval()
    config.model.kind = "weighted"
    assert one_step(build(config, 50).eval()) <= one_step(plain)


@pytest.mark.parametrize(("M", "f"), [(4, 8), (8, 16)])
def test_alpha_and_kappa_fold_into_the_weights_of_an_ordinary_sub_layer(M: int, f: int) -> None:
    """Σ_i relu(head_i A_i + a_i) W_2 + b with constants A, a, b: neither κ nor α is left (docs/paper.md)."""
    torch.manual_seed(1)
    branch, d = BranchConfig(), 4 * M
    layer = ComposedBranches(ModelConfig(d_model=d, d_ff=f, h=M), branch, Reference(), BranchWeights(branch, M))
    layer = layer.double().eval()
    with torch.no_grad():
        layer.b1.normal_()
        layer.b2.normal_()
        kappa, alpha = layer.weights.values()
        A = alpha[:, None, None] * kappa[:, None, None] * layer.output @ layer.W1
        a, b = alpha[:, None] * layer.b1, alpha.sum() * layer.b2
        heads = torch.randn(1, M, 5, 4, dtype=torch.float64)
        found = layer(heads, torch.zeros(1, 5, d, dtype=torch.float64))
        folded = (heads[0] @ A + a[:, None]).relu().sum(0) @ layer.W2 + b
    torch.testing.assert_close(found[0], folded, rtol=1e-12, atol=1e-12)
