"""At inference the composed matrices are made once, and again when any weight has changed."""

import pytest
import torch
from torch import Tensor

from variations.config import Config, ModelConfig
from variations.models import build
from variations.models.branched import BranchedFeedForward


def model(ffn: str) -> torch.nn.Module:
    config = Config()
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
    original = BranchedFeedForward.compose

    def counted(self: BranchedFeedForward, kappa: Tensor) -> tuple[Tensor, Tensor | None]:
        calls.append(self)
        return original(self, kappa)

    monkeypatch.setattr(BranchedFeedForward, "compose", counted)
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
