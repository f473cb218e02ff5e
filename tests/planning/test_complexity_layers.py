"""One layer of each kind: equal to independent implementations, with exact FLOP counts."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from variations.planning.complexity.measure import LAYERS, RestrictedSelfAttention, SelfAttention, Sizes, count, measure


@pytest.mark.parametrize("n", [1, 2, 5, 8, 12, 17])
@pytest.mark.parametrize("r", [1, 3, 4, 20])
@pytest.mark.parametrize("projections", [False, True])
def test_restricted_attention_by_blocks_equals_the_masked_form(n, r, projections):
    sizes = Sizes(heads=2, neighbourhood=r, projections=projections)
    layer = RestrictedSelfAttention(8, sizes).double()
    distance = torch.arange(n)[:, None] - torch.arange(n)[None]

    class Masked(SelfAttention):
        def attend(self, q, k, v):
            return F.scaled_dot_product_attention(q, k, v, distance.abs() <= r)

    masked = Masked(8, sizes).double()
    masked.load_state_dict(layer.state_dict())
    x = torch.randn(2, n, 8, dtype=torch.float64)
    found = layer(x)
    assert found.isfinite().all()
    assert torch.allclose(found, masked(x), atol=1e-12)


def test_restricted_attention_makes_no_matrix_of_all_pairs():
    # 2 products with 3r keys per query: exactly linear in n
    assert count("restricted", 4096, 16, Sizes(heads=2, neighbourhood=8)) == 2 * 2 * 4096 * 24 * 16


def test_self_attention_equals_torchs_own_with_the_same_weights():
    layer = SelfAttention(12, Sizes(heads=3, projections=True)).double()
    theirs = nn.MultiheadAttention(12, 3, batch_first=True).double()
    theirs.in_proj_weight.data, theirs.in_proj_bias.data = layer.inputs.weight.data, layer.inputs.bias.data
    theirs.out_proj.load_state_dict(layer.output.state_dict())
    x = torch.randn(2, 7, 12, dtype=torch.float64)
    assert torch.allclose(layer(x), theirs(x, x, x, need_weights=False)[0], atol=1e-12)


@pytest.mark.parametrize(
    ("layer", "sizes", "flops"),
    [
        ("self_attention", Sizes(heads=4), 2 * (2 * 10 * 10 * 16)),
        ("self_attention", Sizes(heads=4, projections=True), 2 * (2 * 10 * 10 * 16 + 4 * 10 * 16 * 16)),
        ("recurrent", Sizes(), 2 * (3 * 2 * 10 * 16 * 16)),
        ("recurrent", Sizes(recurrent="lstm"), 2 * (4 * 2 * 10 * 16 * 16)),
        ("convolution", Sizes(kernel=5), 2 * (5 * 10 * 16 * 16)),
        ("separable", Sizes(kernel=5), 2 * (5 * 10 * 16 + 10 * 16 * 16)),
        ("restricted", Sizes(heads=4, neighbourhood=5), 2 * (2 * 10 * 15 * 16)),
    ],
)
def test_flops_are_counted_exactly(layer, sizes, flops):
    assert count(layer, 10, 16, sizes) == flops


@pytest.mark.slow
@pytest.mark.parametrize("layer", sorted(LAYERS))
def test_every_layer_keeps_the_shape(layer):
    assert LAYERS[layer](16, Sizes(heads=4, neighbourhood=2))(torch.randn(2, 9, 16)).shape == (2, 9, 16)


def test_rounds_pass_through_all_layers_and_cells():
    grid = [(4, 8), (4, 16), (8, 8), (8, 16)]
    ticks = []
    points = measure(
        ["convolution", "separable"], grid, Sizes(heads=2), rounds=3, limit=60.0, advance=lambda: ticks.append(1)
    )
    assert len(ticks) == 3 * 8
    assert list(dict.fromkeys(point.layer for point in points)) == ["convolution", "separable"]
    assert all(len(point.samples) == 3 and point.seconds > 0 for point in points)
    assert {(point.n, point.d) for point in points} == set(grid)


def test_one_round_is_made_however_short_the_limit():
    points = measure(["separable"], [(4, 8)], Sizes(heads=2), rounds=50, limit=1e-9)
    assert len(points[0].samples) == 1
