"""Sums over some of the branches (Ahmed et al. 2017, section 4.5)."""

import pytest
import torch

from variations.configuration.transformer import GateConfig
from variations.models.transformer.gates import build

ALPHA = [0.1, 0.4, 0.2, 0.3]
PROBE = torch.tensor([1.0, 2.0, 3.0, 4.0])
X = torch.randn(5, 6, generator=torch.Generator().manual_seed(2))


def alpha():
    return torch.tensor(ALPHA, requires_grad=True)


def test_no_gate():
    assert build(GateConfig(), 6, 4) is None


@pytest.mark.parametrize("gradient", ["masked", "straight_through"])
@pytest.mark.parametrize(
    ("renormalise", "expected"),
    [(False, [0, 0.4, 0, 0.3]), (True, [0, 4 / 7, 0, 3 / 7])],
    ids=["plain", "renormalised"],
)
def test_the_k_largest_alpha_stay(gradient, renormalise, expected):
    gate = build(GateConfig(kind="topk", k=2, gradient=gradient, renormalise=renormalise), 6, 4)
    found = gate(alpha(), X)
    torch.testing.assert_close(found, torch.tensor([expected]), rtol=0, atol=1e-7)
    assert found[0, 0] == found[0, 2] == 0


def test_masked_gradient_reaches_the_chosen_alone_and_straight_through_all():
    found = {}
    for gradient in ("masked", "straight_through"):
        a = alpha()
        (build(GateConfig(kind="topk", k=2, gradient=gradient), 6, 4)(a, X)[0] * PROBE).sum().backward()
        found[gradient] = a.grad.tolist()
    assert found == {"masked": [0.0, 2.0, 0.0, 4.0], "straight_through": [1.0, 2.0, 3.0, 4.0]}


def test_of_equal_weights_the_first_are_chosen():
    gate = build(GateConfig(kind="topk", k=2), 6, 4)
    assert gate(torch.full((4,), 0.25), X).tolist() == [[0.25, 0.25, 0, 0]]


def test_a_learned_gate_chooses_for_each_token():
    gate = build(GateConfig(kind="topk_input", k=2), 6, 4)
    torch.nn.init.normal_(gate.gate, std=2.0)
    found = gate(alpha(), X)
    assert found.shape == (5, 4)
    assert found.ne(0).sum(-1).tolist() == [2] * 5
    assert len({tuple(row) for row in found.ne(0).tolist()}) > 1
    weights = torch.tensor(ALPHA) * torch.softmax(X @ gate.gate, -1) * 4
    chosen = found.ne(0)
    torch.testing.assert_close(found[chosen], weights[chosen])
    assert (weights[chosen].view(5, 2).amin(-1) > weights[~chosen].view(5, 2).amax(-1)).all()


def test_a_learned_gate_learns_from_its_start_at_zero():
    gate = build(GateConfig(kind="topk_input", k=2), 6, 4)
    (gate(alpha(), X) * PROBE).sum().backward()
    assert gate.gate.grad.abs().max() > 0
