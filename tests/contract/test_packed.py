"""A batch without padding has the loss and the gradients of the padded one, in every network."""

import torch

from variations.models.kernels.segments import pack
from variations.models.loss import Smoothing, cross_entropy

LENGTHS = ([9, 4, 1, 23], [6, 17, 2, 1]), ([7, 7, 7], [5, 5, 5])
"""Lengths of source and target: different, and equal."""


def padded(lengths):
    generator = torch.Generator().manual_seed(2)
    ids = torch.randint(3, 50, (len(lengths), max(lengths)), generator=generator)
    return ids * (torch.arange(max(lengths)) < torch.tensor(lengths)[:, None])


def loss_and_gradients(model, *batch):
    torch.manual_seed(4)  # some networks draw branch weights
    hidden = model(*batch)
    loss, nll = cross_entropy(hidden, model.output, batch[1], Smoothing(0.1))
    learned = {name: p for name, p in model.named_parameters() if p.requires_grad}
    return {"loss": loss.detach(), "nll": nll} | dict(
        zip(learned, torch.autograd.grad(loss, list(learned.values())), strict=True)
    )


def assert_same(found, expected, tolerance):
    assert found.keys() == expected.keys()
    # Gradients that are 0 up to rounding agree in no digit.
    size = max(float(gradient.norm()) for gradient in expected.values())
    for name, value in expected.items():
        assert float((found[name] - value).norm()) <= tolerance * max(float(value.norm()), 0.01 * size), name


def test_without_padding_nothing_changes(case):
    model = case.network(dropout=False, perturb=True).train()
    for dtype, tolerance in ((torch.float32, 1e-5), (torch.float64, 1e-10)):
        model.to(dtype)
        for lengths in LENGTHS:
            totals = sum(lengths[0]), sum(lengths[1])
            source, target = map(padded, lengths)
            expected = loss_and_gradients(model, source, target)
            assert_same(loss_and_gradients(model, *pack(source, target, totals)), expected, tolerance)
