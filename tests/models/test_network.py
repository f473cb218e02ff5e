"""What a network reports: parameter groups, metrics, steps after an update, widths and counts."""

import pytest
import torch

from variations.configuration.transformer import BranchConfig, ModelConfig
from variations.models import build
from variations.models.flops import Tokens, forward_macs
from variations.models.transformer.branch_weights import BranchWeights
from variations.tasks.translation.config import TranslationConfig

SOURCE, TARGET = torch.tensor([[5, 9, 7, 2], [8, 2, 0, 0]]), torch.tensor([[4, 6, 2], [3, 2, 0]])


def network(kind="weighted", **branch):
    config = TranslationConfig()
    m = config.model
    m.kind, m.N, m.d_model, m.d_ff, m.h = kind, 2, 16, 32, 4
    config.branch = BranchConfig(**branch)
    torch.manual_seed(0)
    return build(config, 13)


@pytest.mark.parametrize("branch", [{}, {"decoder": "both", "scope": "shared_enc_dec"}, {"train_mode": "uniform"}])
def test_each_parameter_is_in_one_group_and_kappa_and_alpha_in_theirs(branch):
    model = network(**branch)
    groups = model.parameter_groups()
    assert list(groups) == ["main", "branch_weights"]
    found = [id(p) for group in groups.values() for p in group]
    assert sorted(found) == sorted(id(p) for p in model.parameters())
    named = {id(p): name.rsplit(".", 1)[-1] for name, p in model.named_parameters()}
    assert {named[id(p)] for p in groups["branch_weights"]} == {"kappa", "alpha"}
    assert not {named[id(p)] for p in groups["main"]} & {"kappa", "alpha"}


def test_the_groups_keep_the_order_of_the_parameters():
    """Checkpoints store the optimiser's state by parameter number."""
    model = network(decoder="both")
    order = {id(p): number for number, p in enumerate(model.parameters())}
    for group in model.parameter_groups().values():
        places = [order[id(p)] for p in group]
        assert places == sorted(places)


def test_the_plain_transformer_has_one_group_and_nothing_to_tell():
    model = network("transformer")
    assert {name: len(group) for name, group in model.parameter_groups().items()} == {
        "main": len(list(model.parameters()))
    }
    assert model.metrics() == {}
    model(SOURCE, TARGET).sum().backward()
    before = [(p.detach().clone(), p.grad.clone()) for p in model.parameters()]
    model.adjust_gradients()
    model.after_update(frozen=False)
    for (value, gradient), parameter in zip(before, model.parameters(), strict=True):
        assert torch.equal(parameter, value)
        assert torch.equal(parameter.grad, gradient)


def test_metrics_are_the_weights_in_force_and_the_dead_branches():
    model = network()
    layers = model.branch_weights()
    with torch.no_grad():
        layers["encoder.1.self"].kappa.copy_(torch.tensor([0.0, 0.5, 0.5, 0.0]))
        layers["encoder.1.self"].alpha.copy_(torch.tensor([0.25, 0.75, 0.0, 0.0]))
    metrics = model.metrics()
    names = ("encoder.0.self", "encoder.1.self", "decoder.0.cross", "decoder.1.cross")
    assert set(metrics) == {f"branch/{name}.{letter}" for name in names for letter in ("kappa", "alpha")} | {
        "branch/dead"
    }
    assert metrics["branch/encoder.1.self.kappa"] == [0.0, 0.5, 0.5, 0.0]
    assert metrics["branch/encoder.1.self.alpha"] == [0.25, 0.75, 0.0, 0.0]
    assert metrics["branch/dead"] == 3  # the first, the third and the fourth


@pytest.mark.parametrize("frozen", [False, True])
def test_after_an_update_the_weights_return_to_the_simplex_unless_frozen(frozen):
    model = network()
    with torch.no_grad():
        for parameter in model.parameter_groups()["branch_weights"]:
            parameter.add_(0.5)
    model.after_update(frozen=frozen)
    for parameter in model.parameter_groups()["branch_weights"]:
        assert float(parameter.sum().detach()) == pytest.approx(3.0 if frozen else 1.0, abs=1e-6)


@pytest.mark.parametrize("center", [False, True])
def test_only_gradients_of_kappa_and_alpha_are_centred(center):
    model = network(center_grad=center)
    (model(SOURCE, TARGET) * torch.linspace(-1, 1, 16)).sum().backward()
    groups = model.parameter_groups()
    before = {id(p): p.grad.clone() for p in model.parameters()}
    model.adjust_gradients()
    assert all(torch.equal(p.grad, before[id(p)]) for p in groups["main"])
    for parameter in groups["branch_weights"]:
        expected = before[id(parameter)]
        torch.testing.assert_close(parameter.grad, expected - expected.mean() if center else expected)
    assert not center or any(abs(float(before[id(p)].mean())) > 1e-4 for p in groups["branch_weights"])


def test_modules_outside_the_network_s_layers_do_not_pass_for_branch_weights():
    """Groups depend on where the layers are, not on the names of parameters."""
    model = network()
    model.further = BranchWeights(BranchConfig(), 4)
    assert len(model.parameter_groups()["branch_weights"]) == 8


@pytest.mark.parametrize(
    ("model", "widths"),
    [
        (ModelConfig(d_model=512, h=8), (64, 64)),
        (ModelConfig(d_model=512, h=8, d_k=16), (16, 64)),
        (ModelConfig(d_model=100, h=3, d_k=5, d_v=7), (5, 7)),
    ],
)
def test_effective_widths(model, widths):
    assert model.head_widths == widths


@pytest.mark.parametrize(
    ("branch", "M", "f"),
    [
        (BranchConfig(), 8, 2048),
        (BranchConfig(M=16), 16, 2048),
        (BranchConfig(M=16, ffn="split"), 16, 128),
        (BranchConfig(ffn="full"), 8, 2048),
    ],
)
def test_effective_number_and_width_of_branches(branch, M, f):
    assert (branch.branches(ModelConfig()), branch.ffn_width(ModelConfig())) == (M, f)


@pytest.mark.parametrize(
    ("impl", "ffn", "ratio"),
    [("naive", "shared", 7.22), ("composed", "shared", 0.89), ("composed", "split", 0.50), ("composed", "full", 4.0)],
)
def test_counted_work_of_what_replaces_w_o_and_ffn(impl, ffn, ratio):
    """Compare with counts by hand per token. The plain layer has d² + 2·d·d_ff, which is 9 d² for d_ff = 4d and M = 8.

    Naive: d² + 2M·d·d_ff = 65 d². Composed, C_i then W_2: d·d_ff + d_ff·d = 8 d²; split: d·d_ff/M + d_ff·d = 4.5 d²;
    full: d·d_ff + M·d_ff·d = 36 d².
    """
    counted = {}
    for kind in ("transformer", "weighted"):
        config = TranslationConfig()
        config.model.kind, config.branch = kind, BranchConfig(impl=impl, ffn=ffn, decoder="none")
        # Many tokens make the cost of composing the matrices negligible; no pairs, so attention scores cost nothing.
        counted[kind] = forward_macs(config, Tokens(10**9, 0, 0, 0, 0), 37_000)
    d, f = 512, 2048
    plain = d * d + 2 * d * f
    attention = 3 * d * d
    both = [work / (6 * 10**9) - attention for work in counted.values()]
    cross_keys = 2 * d * d  # the decoder projects keys and values of the source
    found = (both[1] - cross_keys) / (both[0] - cross_keys)
    assert both[0] - cross_keys == plain
    assert found == pytest.approx(ratio, abs=0.005)
