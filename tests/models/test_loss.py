"""Label smoothing against numbers computed outside the project and against torch."""

import math

import pytest
import torch
from torch.nn import functional as F

from variations.models import loss as module
from variations.models.loss import Smoothing, cross_entropy

LOGITS = [2.0, 1.0, 0.0, -1.0, -2.0]
NLL = 1.4519143959375933


def floor(smoothing, V):
    """Return the entropy of the smoothed distribution in nats: the cross-entropy of a perfect model."""
    on, off = smoothing.weights(V)
    others = V - 2 if smoothing.form == "annotated" else V - 1
    return -sum(count * p * math.log(p) for count, p in ((1, on), (others, off)) if p > 0)


def of_logits(logits, target, smoothing, dtype=torch.float64):
    """Compute the loss of given logits; the output projection is the identity."""
    rows = torch.tensor(logits, dtype=dtype)
    return cross_entropy(rows[None], torch.eye(rows.size(-1), dtype=dtype), torch.tensor([target]), smoothing)


@pytest.mark.parametrize(
    ("form", "eps", "expected"),
    [
        ("t2t", 0.1, 1.5769143959375933),
        ("torch", 0.1, 1.5519143959375934),
        ("torch", 0.1 * 5 / 4, 1.5769143959375933),
        ("t2t", 0.0, NLL),
    ],
)
def test_smoothed_cross_entropy(form, eps, expected):
    loss, nll = of_logits([LOGITS], [1], Smoothing(eps, form, pad=4 if form == "annotated" else -1))
    assert float(loss) == pytest.approx(expected, abs=1e-12)
    assert float(nll) == pytest.approx(NLL, abs=1e-12)


def test_t2t_cross_entropy_less_its_floor_is_the_divergence():
    smoothing = Smoothing(0.1, "t2t", pad=-1)
    loss, _ = of_logits([LOGITS], [1], smoothing)
    assert floor(smoothing, 5) == pytest.approx(0.4637124095034373, abs=1e-12)
    assert float(loss) - floor(smoothing, 5) == pytest.approx(1.1132019864341562, abs=1e-12)


def test_annotated_divergence():
    smoothing = Smoothing(0.1, "annotated")
    loss, _ = of_logits([LOGITS], [1], smoothing)
    assert float(loss) - floor(smoothing, 5) == pytest.approx(1.2169701936793342, abs=1e-12)


@pytest.mark.parametrize(
    ("V", "eps", "entropy"),
    [
        (37_000, 0.1, 1.3769475898148582),
        (37_000, 0.2, 2.604131656385008),
        (40_960, 0.1, 1.3871156579267345),
        (40_960, 0.2, 2.6244677926087605),
        (32_000, 0.1, 1.3624289665208056),
        (32_000, 0.2, 2.5750944097969026),
    ],
)
def test_floors(V, eps, entropy):
    assert floor(Smoothing(eps), V) == pytest.approx(entropy, abs=1e-9)


@pytest.mark.parametrize("form", ["t2t", "torch", "annotated"])
@pytest.mark.parametrize("eps", [0.1, 0.2, 0.0])
def test_a_perfect_model_reaches_the_floor_and_has_no_gradient(form, eps):
    V, smoothing = 7, Smoothing(eps, form)
    on, off = smoothing.weights(V)
    q = torch.full((V,), off, dtype=torch.float64)
    q[3] = on
    if form == "annotated":
        q[0] = 0
    assert float(q.sum()) == pytest.approx(1, abs=1e-12)
    hidden = q.clamp_min(1e-30).log()[None, None].requires_grad_()
    loss, _ = cross_entropy(hidden, torch.eye(V, dtype=torch.float64), torch.tensor([[3]]), smoothing)
    loss.backward()
    assert float(loss.detach()) == pytest.approx(floor(smoothing, V), abs=1e-12)
    assert float(hidden.grad.abs().max()) < 1e-12


def test_no_smoothing_has_floor_zero():
    assert floor(Smoothing(0.0), 37_000) == 0


def case(dtype, V=61, d=12):
    generator = torch.Generator().manual_seed(4)
    hidden = torch.randn(3, 9, d, generator=generator, dtype=torch.float64).to(dtype).requires_grad_()
    output = torch.randn(V, d, generator=generator, dtype=torch.float64).to(dtype).requires_grad_()
    target = torch.randint(1, V, (3, 9), generator=generator)
    target[1, 5:] = 0
    target[2, 1:] = 0
    return hidden, output, target


def by_torch(hidden, output, target, form, eps):
    V = output.size(0)
    logits, wanted = (hidden @ output.t()).flatten(0, 1), target.flatten()
    if form == "annotated":
        q = torch.full_like(logits, eps / (V - 2)).scatter(1, wanted[:, None], 1 - eps)
        q[:, 0] = 0
        q[wanted == 0] = 0
        real = q[wanted != 0]
        entropy = -torch.special.xlogy(real, real).sum()
        return F.kl_div(logits.log_softmax(-1), q, reduction="sum") + entropy
    smoothing = eps if form == "torch" else eps * V / (V - 1)
    return F.cross_entropy(logits, wanted, ignore_index=0, label_smoothing=smoothing, reduction="sum")


@pytest.mark.parametrize("chunk", [1 << 21, 200], ids=["one_chunk", "chunks"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("eps", [0.1, 0.2, 0.0])
@pytest.mark.parametrize("form", ["t2t", "torch", "annotated"])
def test_value_and_gradients_are_torch_s(form, eps, dtype, chunk, monkeypatch):
    monkeypatch.setattr(module, "CHUNK_ELEMENTS", chunk)
    hidden, output, target = case(dtype)
    loss, nll = cross_entropy(hidden, output, target, Smoothing(eps, form))
    ours = torch.autograd.grad(loss * 0.3, (hidden, output))
    expected = by_torch(hidden, output, target, form, eps)
    theirs = torch.autograd.grad(expected * 0.3, (hidden, output))
    tolerance = 1e-10 if dtype == torch.float64 else 2e-5
    torch.testing.assert_close(loss, expected, rtol=tolerance, atol=tolerance)
    torch.testing.assert_close(nll, by_torch(hidden, output, target, "torch", 0.0), rtol=tolerance, atol=tolerance)
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)


def test_gradient_of_a_tied_embedding_is_the_sum_of_both_uses():
    hidden, output, target = case(torch.float64)
    ids = torch.tensor([[4, 8, 2, 0, 1, 3, 3, 5, 6]] * 3)
    found = []
    for loss_of in (
        lambda h, E: cross_entropy(h, E, target, Smoothing(0.1))[0],
        lambda h, E: by_torch(h, E, target, "t2t", 0.1),
    ):
        (gradient,) = torch.autograd.grad(loss_of(hidden + F.embedding(ids, output), output), output)
        found.append(gradient)
    torch.testing.assert_close(*found, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("form", ["t2t", "torch", "annotated"])
def test_under_bf16_autocast_it_is_torch_s_within_the_precision_of_bf16(form):
    """Logits of deviation √12 are rounded to 8 bits, so tolerances are 1 % of the loss and 2 % of gradient norms."""
    hidden, output, target = case(torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        loss, nll = cross_entropy(hidden, output, target, Smoothing(0.1, form))
    ours = torch.autograd.grad(loss, (hidden, output))
    expected = by_torch(hidden, output, target, form, 0.1)
    theirs = torch.autograd.grad(expected, (hidden, output))
    assert loss.dtype == nll.dtype == torch.float32
    assert float(loss.detach()) == pytest.approx(float(expected.detach()), rel=0.01)
    assert float(nll) == pytest.approx(float(by_torch(hidden, output, target, "torch", 0.0).detach()), rel=0.01)
    for a, b in zip(ours, theirs, strict=True):
        assert a.dtype == torch.float32
        assert float((a - b).norm() / b.norm()) < 0.02


def test_padding_counts_for_nothing():
    hidden, output, target = case(torch.float64)
    loss, nll = cross_entropy(hidden, output, target, Smoothing(0.1))
    (gradient,) = torch.autograd.grad(loss, hidden)
    assert not gradient[target == 0].any()
    changed = hidden.detach().clone()
    changed[target == 0] = 1e3
    again = cross_entropy(changed, output, target, Smoothing(0.1))
    torch.testing.assert_close((loss, nll), again, rtol=0, atol=0)


def test_a_batch_of_padding_has_loss_zero():
    hidden, output, target = case(torch.float32)
    loss, nll = cross_entropy(hidden, output, torch.zeros_like(target), Smoothing(0.1))
    loss.backward()
    assert float(loss.detach()) == float(nll) == 0
    assert not hidden.grad.any()
    assert not output.grad.any()


def test_logits_that_overflow_an_exponential_stay_finite():
    loss, nll = of_logits([[1e4, 0.0, -1e4]], [2], Smoothing(0.1, "torch", pad=-1), torch.float32)
    assert float(nll) == pytest.approx(2e4)
    assert math.isfinite(float(loss))


def test_without_gradients_it_is_the_same():
    hidden, output, target = case(torch.float64)
    with torch.no_grad():
        quiet = cross_entropy(hidden, output, target, Smoothing(0.1))
    torch.testing.assert_close(quiet, cross_entropy(hidden, output, target, Smoothing(0.1)), rtol=0, atol=0)
