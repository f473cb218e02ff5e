"""The literal and composed branched layers are the same, correct function (Ahmed et al. 2017, section 3)."""

import itertools

import pytest
import torch
from suite import sampled
from torch import nn
from torch.nn import functional as F

from variations.configuration.transformer import BranchConfig, GateConfig, ModelConfig
from variations.models import build, count_parameters
from variations.models.kernels import Reference
from variations.models.transformer.attention import Concatenate
from variations.models.transformer.branch_weights import BranchWeights
from variations.models.transformer.branched import ComposedBranches, ComposedOwnBranches, LiteralBranches
from variations.models.transformer.branched import build as build_branched
from variations.models.transformer.feed_forward import FeedForward
from variations.models.transformer.weighted import Branched
from variations.tasks.translation.config import TranslationConfig

D, F_WIDTH, M, TOKENS = 24, 32, 4, 11
IMPLS = ("naive", "composed")
FFNS = ("shared", "split", "full")
RESIDUALS = ("outer", "outer+inner", "per_branch_into_ffn", "none")
WO_BIASES = ("none", "single", "per_branch")
GATES = ("none", "topk", "topk_input")
PLACEMENTS = ("cross", "self", "both", "both_shared_ffn", "none")
TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-12}


def perturb(module):
    """Perturb everything but κ and α, so that no bias is 0."""
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            if not name.endswith(("kappa", "alpha")):
                parameter.add_(0.2 * torch.randn_like(parameter))


def sub_layer(branch, kernels=None, *, M=M, dtype=torch.float64, **model):
    """Build a branched sub-layer without its residual, with the same weights for every `branch.impl`."""
    torch.manual_seed(5)
    config = ModelConfig(**({"d_model": D, "d_ff": F_WIDTH, "h": 4} | model))
    weights = BranchWeights(branch, M)
    layer = build_branched(config, branch, kernels or Reference(), weights)
    perturb(layer)
    return layer.to(dtype)


def inputs(dtype, M=M, d_v=D // 4):
    generator = torch.Generator().manual_seed(7)
    heads = torch.randn(1, M, TOKENS, d_v, generator=generator, dtype=torch.float64).to(dtype).requires_grad_()
    x = torch.randn(1, TOKENS, D, generator=generator, dtype=torch.float64).to(dtype).requires_grad_()
    probe = torch.randn(1, TOKENS, D, generator=generator, dtype=torch.float64).to(dtype)
    return heads, x, probe


def value_and_gradients(layer, dtype, M=M):
    heads, x, probe = inputs(dtype, M)
    out = layer(heads, x)
    (out * probe).sum().backward()
    gradients = {name: p.grad for name, p in layer.named_parameters()} | {"heads": heads.grad, "x": x.grad}
    return out.detach(), gradients


def assert_same(first, second, tolerance):
    (out, gradients), (other_out, other_gradients) = first, second
    assert gradients.keys() == other_gradients.keys()
    pairs = {"out": (out, other_out)} | {name: (gradients[name], other_gradients[name]) for name in gradients}
    for name, (a, b) in pairs.items():
        assert (a is None) == (b is None), name
        if a is not None:
            scale = max(1.0, float(b.abs().max()))
            assert float((a - b).abs().max()) <= tolerance * scale, name


@pytest.mark.parametrize("dtype", list(TOLERANCE), ids=["fp32", "fp64"])
@pytest.mark.parametrize(("ffn", "residual"), list(itertools.product(FFNS, RESIDUALS)))
def test_both_evaluations_of_a_sub_layer_agree(ffn, residual, dtype):
    for wo_bias, gate, biased in itertools.product(WO_BIASES, GATES, (True, False)):
        found = []
        for impl in IMPLS:
            branch = BranchConfig(ffn=ffn, residual=residual, wo_bias=wo_bias, impl=impl, gate=GateConfig(kind=gate))
            found.append(value_and_gradients(sub_layer(branch, dtype=dtype, ffn_bias=biased), dtype))
        names = set(found[0][1])
        assert {"output", "W1", "W2", "weights.kappa", "weights.alpha"} <= names
        assert_same(found[1], found[0], TOLERANCE[dtype])


@pytest.mark.parametrize("ffn", FFNS)
def test_in_bf16_the_composed_form_is_about_as_exact_as_the_naive_one(ffn, monkeypatch):
    """Errors against float64 are at most twice as large, over enough tokens that no single ReLU kink decides."""
    monkeypatch.setitem(globals(), "TOKENS", 2_000)
    found = {}
    for impl, dtype in (("naive", torch.float64), ("naive", torch.float32), ("composed", torch.float32)):
        layer = sub_layer(BranchConfig(ffn=ffn, impl=impl), dtype=dtype)
        with torch.autocast("cpu", torch.bfloat16, enabled=dtype is torch.float32):
            out, gradients = value_and_gradients(layer, dtype)
        found[impl, dtype] = {"out": out} | gradients
    exact, naive, composed = found.values()
    for name in ("out", "heads", "output", "W1", "W2"):
        errors = [(form[name].double() - exact[name]).norm() / exact[name].norm() for form in (naive, composed)]
        assert 1e-4 < errors[1] <= 2 * errors[0], name


def test_the_names_of_the_evaluations():
    kinds = {"naive": {LiteralBranches}, "composed": {ComposedBranches, ComposedOwnBranches}}
    assert {impl: {type(sub_layer(BranchConfig(ffn=ffn, impl=impl))) for ffn in FFNS} for impl in IMPLS} == kinds


def test_evaluations_agree_over_many_blocks_of_tokens(monkeypatch):
    """Use more tokens than fit in one block, as in real use."""
    from variations.models.kernels import branch_sum

    monkeypatch.setattr(branch_sum, "BLOCK_BYTES", 1)
    heads = torch.randn(5, M, 23, D // 4, dtype=torch.float64)
    x = torch.randn(5, 23, D, dtype=torch.float64)
    found = []
    for impl in IMPLS:
        layer = sub_layer(BranchConfig(impl=impl, residual="per_branch_into_ffn"))
        out = layer(heads, x)
        found.append((out, torch.autograd.grad((out**2).sum(), list(layer.parameters()))))
    torch.testing.assert_close(found[1], found[0], rtol=1e-10, atol=1e-10)


def losses(decoder, ffn, impl, residual, wo_bias, gate, dtype=torch.float64):
    config = TranslationConfig()
    m = config.model
    m.kind, m.N, m.d_model, m.d_ff, m.h = "weighted", 1, 8, 8, 2
    gates = GateConfig(kind=gate, k=1)
    config.branch = BranchConfig(decoder=decoder, ffn=ffn, impl=impl, residual=residual, wo_bias=wo_bias, gate=gates)
    torch.manual_seed(3)
    model = build(config, 9).eval()
    perturb(model)
    model = model.to(dtype)
    source, target = torch.tensor([[5, 4, 7, 2], [8, 2, 0, 0]]), torch.tensor([[6, 3, 2], [4, 2, 0]])
    out = model(source, target)
    (out * torch.linspace(-1, 1, out.numel(), dtype=dtype).view_as(out)).sum().backward()
    return out.detach(), {name: p.grad for name, p in model.named_parameters()}


@pytest.mark.slow
@pytest.mark.parametrize(("decoder", "ffn"), sampled(itertools.product(PLACEMENTS, FFNS), 4))
def test_both_evaluations_of_a_network_agree_over_the_product_of_options(decoder, ffn):
    for residual, wo_bias, gate in itertools.product(RESIDUALS, WO_BIASES, GATES):
        options = (residual, wo_bias, gate)
        naive, composed = (losses(decoder, ffn, impl, *options) for impl in IMPLS)
        assert_same(composed, naive, TOLERANCE[torch.float64])


@pytest.mark.parametrize("decoder", PLACEMENTS)
def test_both_evaluations_of_a_network_agree_in_single_precision(decoder):
    naive, composed = (losses(decoder, "shared", impl, "outer", "none", "none", torch.float32) for impl in IMPLS)
    assert_same(composed, naive, 1e-5)


class FixedDropout(Reference):
    """Drop the same units on every call, so that evaluations can be compared."""

    def dropout(self, x, rate):
        kept = torch.arange(x.size(-2) * x.size(-1)).view(x.shape[-2:]) % 3 > 0
        return x * kept / (1 - rate) if rate else x


@pytest.mark.parametrize("ffn", FFNS)
def test_both_evaluations_agree_under_relu_dropout(ffn):
    found = [
        value_and_gradients(
            sub_layer(BranchConfig(ffn=ffn, impl=impl), FixedDropout(), relu_dropout=0.25).train(), torch.float64
        )
        for impl in IMPLS
    ]
    undropped = value_and_gradients(sub_layer(BranchConfig(ffn=ffn)), torch.float64)
    assert_same(found[1], found[0], TOLERANCE[torch.float64])
    assert not torch.allclose(found[0][0], undropped[0])


@pytest.mark.parametrize("impl", IMPLS)
def test_shared_form_with_both_weights_folded_into_the_first_layer(impl):
    """Σ_i relu(head_i (α_i κ_i W_O^i W_1) + α_i b_1) W_2 + b_2 Σ α, by homogeneity of relu."""
    layer = sub_layer(BranchConfig(impl=impl))
    heads, x, _ = inputs(torch.float64)
    kappa, alpha = layer.weights.values()
    z = [
        F.relu(heads[0, i] @ (alpha[i] * kappa[i] * layer.output[i] @ layer.W1) + alpha[i] * layer.b1) for i in range(M)
    ]
    expected = sum(z) @ layer.W2 + layer.b2 * alpha.sum()
    torch.testing.assert_close(layer(heads, x)[0], expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("impl", IMPLS)
def test_split_form_is_two_layers_of_which_the_first_is_block_diagonal(impl):
    layer = sub_layer(BranchConfig(ffn="split", impl=impl))
    heads, x, _ = inputs(torch.float64)
    kappa, alpha = layer.weights.values()
    first = torch.block_diag(*(kappa[i] * layer.output[i] @ layer.W1[i] for i in range(M)))
    second = torch.cat([alpha[i] * layer.W2[i] for i in range(M)])
    side_by_side = heads[0].transpose(0, 1).flatten(1)
    hidden = F.relu(side_by_side @ first + layer.b1.flatten())
    assert hidden.shape == (TOKENS, F_WIDTH)
    expected = hidden @ second + alpha @ layer.b2
    torch.testing.assert_close(layer(heads, x)[0], expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("impl", IMPLS)
@pytest.mark.parametrize("kind", ["topk", "topk_input"])
def test_the_m_largest_of_m_branches_are_all_of_them(impl, kind):
    gate = GateConfig(kind=kind, k=M, renormalise=True)
    gated, plain = sub_layer(BranchConfig(impl=impl, gate=gate)), sub_layer(BranchConfig(impl=impl))
    if kind == "topk_input":
        nn.init.zeros_(gated.gate.gate)  # its initial value
    gated.weights.constrain()  # drawn in float32, so their sum is 1 to only seven digits
    plain.load_state_dict({k: v for k, v in gated.state_dict().items() if not k.startswith("gate.")})
    heads, x, _ = inputs(torch.float64)
    torch.testing.assert_close(gated(heads, x), plain(heads, x), rtol=0, atol=1e-12)


def test_top_m_has_the_gradients_of_no_gate():
    gated = sub_layer(BranchConfig(gate=GateConfig(kind="topk", k=M)))
    plain = sub_layer(BranchConfig())
    assert_same(value_and_gradients(gated, torch.float64), value_and_gradients(plain, torch.float64), 1e-12)


@pytest.mark.parametrize("impl", IMPLS)
def test_one_branch_of_weight_one_is_the_ffn_of_single_head_attention(impl):
    model = ModelConfig(d_model=D, d_ff=F_WIDTH, h=1, attention_bias=False)
    layer = sub_layer(BranchConfig(M=1, impl=impl), M=1, h=1, attention_bias=False)
    assert [float(w.detach()) for w in layer.weights.values()] == [1.0, 1.0]
    output, ffn = Concatenate(model).double(), FeedForward(model, Reference()).double()
    with torch.no_grad():
        output.output.weight.copy_(layer.output[0].t())
        ffn.inner.weight.copy_(layer.W1.t()), ffn.inner.bias.copy_(layer.b1)
        ffn.outer.weight.copy_(layer.W2.t()), ffn.outer.bias.copy_(layer.b2)
    heads, x, _ = inputs(torch.float64, M=1, d_v=D)
    torch.testing.assert_close(layer(heads, x), ffn(output(heads)), rtol=0, atol=1e-12)


def ones(layer):
    with torch.no_grad():
        layer.weights.kappa.fill_(1.0), layer.weights.alpha.fill_(1.0)
    return layer


@pytest.mark.parametrize("impl", IMPLS)
def test_weights_of_one_do_not_give_back_the_multi_head_layer(impl):
    """The paper's claim fails with ReLU; it holds for a linear FFN without biases."""
    layer = ones(sub_layer(BranchConfig(impl=impl)))
    heads, x, _ = inputs(torch.float64)
    joint = sum(heads[0, i] @ layer.output[i] for i in range(M))
    plain = F.relu(joint @ layer.W1 + layer.b1) @ layer.W2 + layer.b2
    branched = layer(heads, x)[0]
    assert ((branched - plain).norm() / plain.norm()).item() > 0.5
    with torch.no_grad():
        layer.b1 += 100.0  # all units are active, so the FFN is linear up to its output for zero input
    linear = (layer(heads, x) - layer(torch.zeros_like(heads), x))[0]
    torch.testing.assert_close(linear, joint @ layer.W1 @ layer.W2, rtol=0, atol=1e-10)


@pytest.mark.parametrize(
    ("size", "count", "millions"),
    [
        ({"d_model": 512, "d_ff": 2048, "h": 8}, 192, 60),
        ({"d_model": 1024, "d_ff": 4096, "h": 16}, 384, 210),
        ({"N": 3, "d_model": 128, "d_ff": 512, "h": 8}, 96, 6),
    ],
)
def test_kappa_and_alpha_are_a_few_hundred_of_millions_of_weights(size, count, millions):
    """Ahmed et al. 2017, section 3: 192 beside 213 million, which are the base network's and the big one's."""
    config = TranslationConfig()
    config.model = ModelConfig(kind="weighted", **size)
    with torch.device("meta"):
        model = build(config, 37_000)
    assert sum(p.numel() for name, p in model.named_parameters() if name.endswith((".kappa", ".alpha"))) == count
    assert count_parameters(model) > 1e6 * millions


@pytest.mark.parametrize(("biased", "equal"), [(False, True), (True, False)])
def test_kappa_moves_out_of_the_ffn_only_without_biases(biased, equal):
    layer = sub_layer(BranchConfig(impl="naive"), ffn_bias=biased)
    heads, x, _ = inputs(torch.float64)
    kappa, alpha = layer.weights.values()
    with torch.no_grad():
        inside = layer(heads, x)
        layer.weights.alpha.copy_(alpha * kappa), layer.weights.kappa.fill_(1.0)
        outside = layer(heads, x)
    assert torch.allclose(inside, outside, rtol=0, atol=1e-12) == equal


@pytest.mark.parametrize(("rescale", "factor"), [("none", 1), ("M", M), ("M2", M * M)])
def test_rescale_multiplies_the_sum(rescale, factor):
    plain, scaled = sub_layer(BranchConfig()), sub_layer(BranchConfig(rescale=rescale))
    heads, x, _ = inputs(torch.float64)
    torch.testing.assert_close(scaled(heads, x), factor * plain(heads, x), rtol=0, atol=1e-12)


@pytest.mark.parametrize("residual", RESIDUALS)
def test_a_residual_around_the_sum_is_only_where_the_choice_says_outer(residual):
    """LN(x + drop(sum over branches)); LN(drop(sum)) if each branch has its own residual or there is none."""
    torch.manual_seed(6)
    config = ModelConfig(d_model=D, d_ff=F_WIDTH, h=4)
    branch = BranchConfig(residual=residual)
    layer = Branched(config, branch, Reference(), BranchWeights(branch, M)).double().eval()
    perturb(layer)
    x, heads = torch.randn(3, TOKENS, D).double(), torch.randn(3, M, TOKENS, D // 4).double()
    total = layer.feed_forward(heads, x) + (x if residual.startswith("outer") else 0)
    norm = layer.residual.norm
    expected = F.layer_norm(total, (D,), norm.weight, norm.bias, config.norm_eps)
    torch.testing.assert_close(layer(x, lambda _: heads), expected, rtol=1e-12, atol=1e-12)


def test_inner_norm_stands_between_the_projection_and_the_ffn():
    layer = sub_layer(BranchConfig(inner_norm=True, impl="naive"))
    heads, x, _ = inputs(torch.float64)
    kappa, alpha = layer.weights.values()
    expected = sum(
        alpha[i] * (F.relu(layer.inner_norm(kappa[i] * heads[0, i] @ layer.output[i]) @ layer.W1 + layer.b1) @ layer.W2)
        for i in range(M)
    )
    torch.testing.assert_close(layer(heads, x)[0], expected + layer.b2 * alpha.sum(), rtol=0, atol=1e-12)


def weighted(**options):
    config = TranslationConfig()
    m = config.model
    m.kind, m.N, m.d_model, m.d_ff, m.h = "weighted", 2, 16, 32, 4
    config.branch = BranchConfig(**options)
    return build(config, 30)


def test_branched_sub_layers_have_readable_names():
    assert list(weighted().branch_weights()) == [
        "encoder.0.self",
        "encoder.1.self",
        "decoder.0.cross",
        "decoder.1.cross",
    ]
    assert list(weighted(decoder="both", encoder=False).branch_weights()) == [
        "decoder.0.self",
        "decoder.0.cross",
        "decoder.1.self",
        "decoder.1.cross",
    ]


def test_shared_scope_gives_layer_i_of_both_stacks_one_module():
    model = weighted(scope="shared_enc_dec", decoder="both")
    assert len(model.branch_weights()) == 2
    for i in range(2):
        one = model.encoder[i].branched.feed_forward.weights
        assert model.decoder[i].branched_self.feed_forward.weights is one
        assert model.decoder[i].branched_cross.feed_forward.weights is one
    assert model.encoder[0].branched.feed_forward.weights is not model.encoder[1].branched.feed_forward.weights


@pytest.mark.parametrize("ffn", FFNS)
def test_both_with_a_shared_ffn_share_it_before_and_after_loading(ffn):
    model, other = weighted(decoder="both_shared_ffn", ffn=ffn), weighted(decoder="both_shared_ffn", ffn=ffn)
    other.load_state_dict(model.state_dict())
    for layer in other.decoder:
        one, two = layer.branched_self.feed_forward, layer.branched_cross.feed_forward
        for name in ("W1", "b1", "W2", "b2"):
            assert getattr(one, name) is getattr(two, name)
        assert one.output is not two.output
        assert one.weights is not two.weights
