"""Networks of two layers learn to copy ten symbols.

Each run takes seconds, so each kind of option has one case, and they run in `make torture`; in `test_training.py` every
network overfits a batch.
`branch.residual=none` is left out: with no path around its branched sub-layers, it still has a loss of 1.4 nats after
400 steps.
"""

import pytest
import torch

from variations.models.loss import Smoothing, cross_entropy

EOS, FIRST, SYMBOLS, LONGEST = 2, 4, 10, 6
STEPS = 800
COPIERS = {
    "model.kind=transformer",
    "model.norm=pre",
    "model.attention=additive",
    "positions.kind=learned",
    "model.kind=weighted",
    "branch.ffn=split",
    "branch.decoder=self",
    "branch.decoder=both_shared_ffn",
    "branch.constraint=softmax",
    "branch.constraint=sigmoid",
    "branch.residual=per_branch_into_ffn",
    "branch.rescale=M",
    "branch.inner_norm=True",
    "branch.train_mode=random_per_step",
    "branch.gate.kind=topk",
    "branch.gate.kind=topk_input",
}


def batch(generator, rows=32):
    lengths = torch.randint(2, LONGEST + 1, (rows, 1), generator=generator)
    ids = torch.randint(FIRST, FIRST + SYMBOLS, (rows, LONGEST + 1), generator=generator)
    place = torch.arange(LONGEST + 1)
    return ids.masked_fill(place == lengths, EOS).masked_fill(place > lengths, 0)


def learned(case) -> float:
    """Return nats per token on unseen sequences after at most 800 steps on fresh ones; initially ln 10 = 2.3."""
    model = case.network(dropout=False).train()
    generator = torch.Generator().manual_seed(1)
    rates = {"main": 4e-3, "branch_weights": 1e-2}
    learned = {name: [p for p in group if p.requires_grad] for name, group in model.parameter_groups().items()}
    groups = [{"params": group, "lr": rates[name]} for name, group in learned.items() if group]
    adam = torch.optim.Adam(groups, betas=(0.9, 0.98))
    warm = torch.optim.lr_scheduler.LambdaLR(adam, lambda s: min((s + 1) / 40, (40 / (s + 1)) ** 0.5))
    recent = []
    for step in range(STEPS):
        ids = batch(generator)
        loss, nll = cross_entropy(model(ids, ids), model.output, ids, Smoothing(0.0))
        adam.zero_grad()
        (loss / ids.ne(0).sum()).backward()
        adam.step()
        warm.step()
        model.after_update(frozen=False)
        recent = [*recent[-4:], float(nll) / int(ids.ne(0).sum())]
        if step > 50 and max(recent) < 0.03:
            break
    ids = batch(torch.Generator().manual_seed(2), 64)
    with torch.no_grad():
        _, nll = cross_entropy(model(ids, ids), model.output, ids, Smoothing(0.0))
    return float(nll) / int(ids.ne(0).sum())


@pytest.mark.slow
def test_learns_to_copy(copier):
    assert learned(copier) < 0.1
