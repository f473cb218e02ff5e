"""The fast kernels equal torch's own; byte dropout is a valid dropout."""

import pytest
import torch

from variations.models import build
from variations.models.kernels import FastCPU, Reference, choose
from variations.tasks.translation.config import TranslationConfig

FAST, REFERENCE = FastCPU(), Reference()
TOLERANCE = {torch.float64: 1e-12, torch.float32: 2e-6, torch.bfloat16: 7e-2}
# bf16 keeps 8 bits. Gradients are sums of up to 33 terms and reach 8, where one unit is 1/32.


def attend(kernels, tensors, mask, causal):
    q, k, v = (x.detach().clone().requires_grad_() for x in tensors)
    out = kernels.attention(q, k, v, mask, causal, 0.0)
    out.backward(torch.linspace(-1, 1, out.numel()).view_as(out).to(out.dtype))
    return [out.detach(), q.grad, k.grad, v.grad]


@pytest.mark.parametrize("dtype", list(TOLERANCE))
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(
    ("T", "S", "causal"), [(5, 9, False), (9, 9, True), (17, 40, False), (33, 33, True), (1, 7, True)]
)
def test_attention_is_that_of_the_reference(dtype, masked, T, S, causal):
    tensors = [torch.randn(2, 3, n, d).to(dtype) for n, d in ((T, 8), (S, 8), (S, 6))]
    mask = (torch.arange(S) < torch.tensor([[S], [S - 3 if T < S else 1]]))[:, None, None, :] if masked else None
    for fast, reference in zip(
        attend(FAST, tensors, mask, causal), attend(REFERENCE, tensors, mask, causal), strict=True
    ):
        assert fast.dtype == reference.dtype == dtype
        torch.testing.assert_close(fast, reference, rtol=0, atol=TOLERANCE[dtype])


@pytest.mark.parametrize(("T", "S"), [(513, 513), (512, 512), (520, 530)])
def test_attention_over_long_sequences(T, S):
    tensors = [torch.randn(1, 1, n, 4) for n in (T, S, S)]
    mask = (torch.arange(S) < S - 7)[None, None, None, :]
    for fast, reference in zip(
        attend(FAST, tensors, mask, T == S), attend(REFERENCE, tensors, mask, T == S), strict=True
    ):
        torch.testing.assert_close(fast, reference, rtol=0, atol=1e-5)


def test_attention_to_scores_that_overflow_without_care():
    q, k = torch.full((1, 1, 2, 4), 300.0), torch.full((1, 1, 3, 4), 300.0)
    k[..., 0, :] = -300
    v = torch.randn(1, 1, 3, 4)
    for length in (3, 20):  # both code paths of the softmax
        pad = torch.nn.functional.pad
        keys, values = pad(k, (0, 0, 0, length - 3), value=-300.0), pad(v, (0, 0, 0, length - 3))
        found = FAST.attention(q, keys, values, None, False, 0.0)
        torch.testing.assert_close(found, v[:, :, 1:3].mean(2, keepdim=True).expand(1, 1, 2, 4))


def network(profile, kind, dtype=torch.float32):
    config = TranslationConfig(profile=profile)
    m = config.model
    m.kind, m.N, m.d_model, m.d_ff, m.h, m.dropout = kind, 2, 32, 64, 4, 0.0
    torch.manual_seed(1)
    return build(config, 50).to(dtype)


@pytest.mark.parametrize("length", [9, 40, 600])
@pytest.mark.parametrize("kind", ["transformer", "weighted"])
@pytest.mark.parametrize("bf16", [False, True])
def test_networks_of_both_profiles_agree(kind, length, bf16):
    if bf16 and length == 600:
        pytest.skip("long sequences take torch's kernel in both")
    generator = torch.Generator().manual_seed(1)
    source = torch.randint(4, 50, (2, length), generator=generator)
    source[1, length // 2 :] = 0
    target = torch.randint(4, 50, (2, min(length, 50)), generator=generator)
    found = []
    for profile in ("auto", "reference"):
        model = network(profile, kind).train()
        with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
            out = model(source, target)
        (out.float() * torch.randn(out.shape, generator=torch.Generator().manual_seed(2))).sum().backward()
        found.append([out.detach().float(), *(p.grad for p in model.parameters() if p.requires_grad)])
    for fast, reference in zip(*found, strict=True):
        # Compare whole tensors: under bf16 the gradients of κ and α are sums with much cancellation.
        assert (fast - reference).norm() <= (0.15 if bf16 else 1e-5) * reference.norm() + 1e-6


def test_choice_of_kernels():
    assert choose("auto", "cpu").name == "fast_cpu"
    assert choose("experimental", "cpu").name == "fast_cpu"
    assert choose("experimental", "cuda").name == "fused_gpu"
    assert choose("auto", "cuda").name == "reference", "kernels that have not run on a GPU are off unless asked for"
    assert choose("reference", "cpu").name == choose("reference", "cuda").name == "reference"


@pytest.mark.parametrize("profile", ["auto", "experimental", "reference"])
def test_attention_on_a_gpu_does_without_cudnn(profile):
    before = torch.backends.cuda.cudnn_sdp_enabled()
    torch.backends.cuda.enable_cudnn_sdp(True)
    try:
        choose(profile, "cpu")
        assert torch.backends.cuda.cudnn_sdp_enabled()
        choose(profile, "cuda")
        assert not torch.backends.cuda.cudnn_sdp_enabled()
    finally:
        torch.backends.cuda.enable_cudnn_sdp(before)


@pytest.mark.parametrize("rate", [0.1, 0.3, 0.5])
def test_byte_dropout_has_the_rate_and_keeps_the_mean(rate):
    """In 2^20 draws, the share of zeros is within five standard errors of the rate rounded to 1/256."""
    n, exact = 1 << 20, round(rate * 256) / 256
    out = FAST.dropout(torch.ones(n), rate)
    zeros = float((out == 0).float().mean())
    assert abs(exact - rate) <= 1 / 512
    assert abs(zeros - exact) <= 5 * (exact * (1 - exact) / n) ** 0.5
    assert torch.equal(out[out != 0].unique(), torch.tensor([1 / (1 - exact)]))
    assert abs(float(out.mean()) - 1) <= 5 * (exact / (1 - exact) / n) ** 0.5


def test_byte_dropout_draws_neighbours_independently():
    """Correlations at lags up to 16 are within five standard errors of 0, even among bytes of one word."""
    n = 1 << 18
    kept = (FAST.dropout(torch.ones(n), 0.5) != 0).double() - 0.5
    for lag in range(1, 17):
        assert abs(float((kept[lag:] * kept[:-lag]).mean()) * 4) <= 5 * n**-0.5


@pytest.mark.parametrize("shape", [(3,), (5, 7), (2, 3, 11)])
@pytest.mark.parametrize("dtype", list(TOLERANCE))
def test_byte_dropout_drops_the_gradient_where_it_drops_the_value(shape, dtype):
    x = torch.ones(shape, dtype=dtype, requires_grad=True)
    out = FAST.dropout(x, 0.5)
    out.sum().backward()
    assert out.shape == shape
    assert out.dtype == dtype
    assert torch.equal(x.grad, out.detach())


def test_byte_dropout_follows_the_seed():
    torch.manual_seed(3)
    first, second = FAST.dropout(torch.ones(100), 0.5), FAST.dropout(torch.ones(100), 0.5)
    torch.manual_seed(3)
    assert torch.equal(FAST.dropout(torch.ones(100), 0.5), first)
    assert not torch.equal(first, second)


def test_extreme_rates():
    x = torch.ones(4096)
    assert FAST.dropout(x, 0.0) is x
    nearly_all = FAST.dropout(x, 0.999)
    assert torch.isfinite(nearly_all).all()
    assert float(nearly_all.max()) <= 256
