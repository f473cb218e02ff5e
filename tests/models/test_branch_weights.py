"""κ and α: the projection, and which weights apply when."""

import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from variations.configuration.transformer import BranchConfig
from variations.models import build
from variations.models.transformer.branch_weights import BranchWeights, project
from variations.tasks.translation.config import TranslationConfig

PROJECTIONS = [
    ([0.5, 0.3, 0.2], [0.5, 0.3, 0.2]),
    ([1, 1, 1, 1], [0.25, 0.25, 0.25, 0.25]),
    ([0.9, 0.6, -0.2], [0.65, 0.35, 0.0]),
    ([2, 0, 0], [1.0, 0.0, 0.0]),
    ([0.3, 0.2, 0.1], [0.43333333333333335, 0.33333333333333337, 0.23333333333333334]),
    ([0.15, 0.15, 0.15, 0.15, 0.1, 0.1, 0.1, 0.3], [0.125, 0.125, 0.125, 0.125, 0.075, 0.075, 0.075, 0.275]),
    ([-1, -2, -3], [1.0, 0.0, 0.0]),
    ([0.2] * 8, [0.125] * 8),
]


@pytest.mark.parametrize(("v", "expected"), PROJECTIONS)
def test_projection(v, expected):
    for dtype, tolerance in ((torch.float32, 1e-7), (torch.float64, 1e-15)):
        found = project(torch.tensor(v, dtype=dtype))
        torch.testing.assert_close(found, torch.tensor(expected, dtype=dtype), rtol=0, atol=tolerance)


def test_what_is_not_finite_has_no_projection_and_is_not_an_error():
    """On a GPU, the check of an update comes after it."""
    found = project(torch.tensor([[float("nan"), 0.2, 0.3], [2.0, 0.0, 0.0]]))
    assert found[0].isnan().all() and found[1].tolist() == [1.0, 0.0, 0.0]


vectors = st.lists(st.floats(-1e6, 1e6, width=32), min_size=1, max_size=16)


@pytest.mark.slow
@settings(max_examples=40)
@given(vectors)
def test_projection_lies_on_the_simplex_and_is_idempotent(values):
    w = project(torch.tensor(values))
    assert (w >= 0).all()
    assert float(w.sum()) == pytest.approx(1, abs=1e-6)
    torch.testing.assert_close(project(w), w, rtol=0, atol=2e-7)


@pytest.mark.slow
@settings(max_examples=40)
@given(vectors, st.integers(0, 2**31))
def test_no_point_of_the_simplex_is_nearer(values, seed):
    v = torch.tensor(values, dtype=torch.float64) / 1e3
    w = project(v)
    u = torch.rand(100, len(values), generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    others = torch.cat([u / u.sum(-1, keepdim=True), torch.eye(len(values), dtype=torch.float64)])
    assert float((w - v).norm()) <= float((others - v).norm(dim=-1).min()) + 1e-9


def test_projection_of_huge_values_and_of_several_vectors_at_once():
    assert project(torch.tensor([1e9, 0.0])).tolist() == [1.0, 0.0]
    rows = torch.tensor([[0.9, 0.6, -0.2], [2.0, 0.0, 0.0]])
    torch.testing.assert_close(project(rows), torch.tensor([[0.65, 0.35, 0.0], [1.0, 0.0, 0.0]]))


def test_renormalisation_is_not_projection():
    weights = BranchWeights(BranchConfig(constraint="renormalise"), 3)
    with torch.no_grad():
        weights.kappa.copy_(torch.tensor([0.3, 0.2, 0.1]))
    weights.constrain()
    torch.testing.assert_close(weights.kappa.detach(), torch.tensor([0.5, 1 / 3, 1 / 6]))


def model(**options):
    config = TranslationConfig()
    m = config.model
    m.kind, m.N, m.d_model, m.d_ff, m.h = "weighted", 2, 16, 32, 4
    config.branch = BranchConfig(**options)
    return build(config, 30)


def values(network):
    return [value.detach() for weights in network.branch_weights().values() for value in weights.values()]


def test_learned_weights_are_in_force_while_training_and_at_test():
    network = model()
    for mode in (True, False):
        for weights in network.train(mode).branch_weights().values():
            kappa, alpha = weights.values()
            assert torch.equal(kappa, weights.kappa)
            assert torch.equal(alpha, weights.alpha)


def test_uniform_at_test_leaves_training_alone():
    network = model(eval_mode="uniform")
    assert not torch.equal(values(network.train())[0], torch.full((4,), 0.25))
    assert all(torch.equal(value, torch.full((4,), 0.25)) for value in values(network.eval()))


@pytest.mark.parametrize("mode", ["random_uniform", "random_dirichlet"])
def test_random_weights_at_test_are_one_draw_per_weight_for_a_seed(mode):
    network = model(eval_mode=mode).eval()
    first = values(network)
    torch.rand(3)  # stands for other random draws
    assert all(torch.equal(a, b) for a, b in zip(first, values(network), strict=True))
    assert all(torch.equal(a, b) for a, b in zip(first, values(copy.deepcopy(network)), strict=True))
    assert all(torch.equal(a, b) for a, b in zip(first, values(model(eval_mode=mode).eval()), strict=True))
    assert len({tuple(value.tolist()) for value in first}) == len(first) == 8  # κ and α of four sub-layers
    assert all(float(value.sum()) == pytest.approx(1, abs=1e-6) and (value > 0).all() for value in first)
    other = values(model(eval_mode=mode, eval_seed=2).eval())
    assert not any(torch.equal(a, b) for a, b in zip(first, other, strict=True))


@pytest.mark.parametrize(("mode", "deviation"), [("random_uniform", 0.1397), ("random_dirichlet", 0.194)])
def test_laws_of_the_random_weights(mode, deviation):
    """Check the standard deviation of one of M = 4 weights over 4,000 draws.

    Flat Dirichlet: sqrt((M-1) / (M²(M+1))). Normalised uniform draws spread less (value from 400,000 numpy draws).
    """
    weights = BranchWeights(BranchConfig(eval_mode=mode), 4).eval()
    drawn = []
    for seed in range(1, 2001):
        weights.config.eval_seed = seed
        drawn.append(torch.stack([v.detach() for v in weights.values()]))
    drawn = torch.cat(drawn)
    assert drawn.mean(0).tolist() == pytest.approx([0.25] * 4, abs=0.015)
    assert drawn.std(0).tolist() == pytest.approx([deviation] * 4, abs=0.008)


def test_shake_shake_draws_anew_in_training_and_takes_the_mean_at_test():
    network = model(train_mode="random_per_step").train()
    first, second = values(network), values(network)
    assert not any(torch.equal(a, b) for a, b in zip(first, second, strict=True))
    assert all(float(value.sum()) == pytest.approx(1, abs=1e-6) for value in first)
    assert not any(p.requires_grad for name, p in network.named_parameters() if name.endswith(("kappa", "alpha")))
    assert network.metrics() == {"branch/dead": 0}  # a further draw would be none that was used
    assert all(torch.equal(value, torch.full((4,), 0.25)) for value in values(network.eval()))


@pytest.mark.parametrize(("free", "fixed"), [("kappa", "alpha"), ("alpha", "kappa")])
@pytest.mark.parametrize("constraint", ["project", "softmax", "sigmoid", "renormalise", "none"])
def test_one_of_both_alone(free, fixed, constraint):
    weights = BranchWeights(BranchConfig(constraint=constraint, **{fixed: False}), 4)
    assert getattr(weights, free).requires_grad
    assert not getattr(weights, fixed).requires_grad
    in_force = dict(zip(("kappa", "alpha"), weights.values(), strict=True))
    torch.testing.assert_close(in_force[fixed], torch.full((4,), 0.25))


@pytest.mark.parametrize("eval_mode", ["uniform", "random_uniform", "random_dirichlet"])
def test_what_replaces_weights_with_sum_m_has_sum_m(eval_mode):
    weights = BranchWeights(BranchConfig(constraint="softmax_xM", eval_mode=eval_mode), 4)
    for mode in (True, False):
        for value in weights.train(mode).values():
            assert float(value.detach().sum()) == pytest.approx(4, abs=1e-5)


def test_dead_branches_are_counted():
    weights = BranchWeights(BranchConfig(), 4)
    assert weights.dead() == 0
    with torch.no_grad():
        weights.kappa.copy_(torch.tensor([0.0, 0.5, 0.5, 0.0]))
        weights.alpha.copy_(torch.tensor([0.0, 0.0, 0.5, 0.5]))
    assert weights.dead() == 3
