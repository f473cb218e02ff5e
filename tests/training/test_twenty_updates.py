"""Twenty updates in double precision match those of a Transformer written in plain torch, to the ninth decimal.

This covers schedule, label smoothing, accumulation over two micro-batches, Adam and its order of operations: everything
between a batch and the new weights.
"""

import math
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from variations.tasks.translation.data.module import TranslationData
from variations.training.fit import fit
from variations.training.interrupt import Interrupt
from variations.training.step import Step

UPDATES, WARMUP, SMOOTHING, BETAS, EPS = 20, 7, 0.1, (0.9, 0.98), 1e-9
PAD = 0
WORDS = (
    *("trainer.precision=64-true", "profile=reference", "model.N=2", "model.dropout=0", "model.attention_dropout=0"),
    *("model.attention_bias=true", "recipe.lr=1.0", f"recipe.warmup={WARMUP}", f"recipe.label_smoothing={SMOOTHING}"),
    *("recipe.smoothing=torch", f"recipe.beta1={BETAS[0]}", f"recipe.beta2={BETAS[1]}", f"recipe.eps={EPS}"),
    *("trainer.tokens_per_batch=256", f"trainer.max_steps={UPDATES}", "trainer.val_every=10"),
)


class Plain(nn.Module):
    """Vaswani et al. 2017 with torch's own layers: shared embeddings, sinusoids, post-norm, no dropout."""

    def __init__(self, vocabulary: int, d_model: int, d_ff: int, h: int, layers: int) -> None:
        super().__init__()
        common = {"dropout": 0.0, "layer_norm_eps": 1e-6, "batch_first": True}
        self.embedding = nn.Embedding(vocabulary, d_model)
        self.encoder = nn.ModuleList(nn.TransformerEncoderLayer(d_model, h, d_ff, **common) for _ in range(layers))
        self.decoder = nn.ModuleList(nn.TransformerDecoderLayer(d_model, h, d_ff, **common) for _ in range(layers))
        self.d_model = d_model

    def embed(self, ids: Tensor) -> Tensor:
        place = torch.arange(ids.shape[1], dtype=torch.float64)[:, None]
        rate = torch.exp(torch.arange(0, self.d_model, 2, dtype=torch.float64) * (-math.log(10_000.0) / self.d_model))
        sinusoid = torch.stack((torch.sin(place * rate), torch.cos(place * rate)), dim=-1).flatten(1)  # (T, d)
        sinusoid = sinusoid.float()  # a float32 table, even where everything else is double
        return self.embedding(ids) * ids.ne(PAD)[..., None] * math.sqrt(self.d_model) + sinusoid

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        shifted = functional.pad(target[:, :-1], (1, 0), value=PAD)  # the decoder starts with a zero vector
        x, memory, padding = self.embed(shifted), self.embed(source), source.eq(PAD)
        for layer in self.encoder:
            memory = layer(memory, src_key_padding_mask=padding)
        ahead = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)  # (T, T)
        for layer in self.decoder:
            x = layer(x, memory, tgt_mask=ahead, memory_key_padding_mask=padding)
        return x @ self.embedding.weight.T


def copied(ours: Any) -> Plain:
    """Return a plain model with the weights of our model."""
    m = ours.config
    plain = Plain(ours.vocabulary, m.d_model, m.d_ff, m.h, m.N).double()
    with torch.no_grad():
        plain.embedding.weight.copy_(ours.target_embedding)
        for theirs, layer in zip((*plain.encoder, *plain.decoder), (*ours.encoder, *ours.decoder), strict=True):
            for parts, parameter in counterparts(theirs, layer):
                parameter.copy_(torch.cat(parts))
    return plain


def counterparts(theirs: Any, ours: Any) -> Iterator[tuple[list[Tensor], Tensor]]:
    """Yield parameters of our layer, with the parameter of torch's layer that concatenates them."""
    heads = [(ours.self_heads, ours.self_output, theirs.self_attn)]
    norms = [theirs.norm1, theirs.norm2]
    if hasattr(ours, "cross_heads"):
        heads.append((ours.cross_heads, ours.cross_output, theirs.multihead_attn))
        norms.append(theirs.norm3)
    for mine, output, attention in heads:
        inputs = [mine.query, mine.inputs] if mine.cross else [mine.inputs]
        yield [part.weight for part in inputs], attention.in_proj_weight
        yield [output.output.weight], attention.out_proj.weight
        yield [part.bias for part in inputs], attention.in_proj_bias
        yield [output.output.bias], attention.out_proj.bias
    pairs = [(ours.feed_forward.inner, theirs.linear1), (ours.feed_forward.outer, theirs.linear2)]
    pairs += zip((residual.norm for residual in ours.residuals), norms, strict=True)
    for layer, other in pairs:
        yield [layer.weight], other.weight
        yield [layer.bias], other.bias


def losses(plain: Plain, updates: Sequence[Sequence[tuple[Tensor, Tensor]]]) -> list[float]:
    """Train on the same batches; return the mean loss per target token of each update."""
    optimizer = torch.optim.Adam(plain.parameters(), lr=1.0, betas=BETAS, eps=EPS)
    found = []
    for step, batches in enumerate(updates, start=1):
        for group in optimizer.param_groups:
            group["lr"] = plain.d_model**-0.5 * min(step**-0.5, step * WARMUP**-1.5)
        optimizer.zero_grad()
        total, tokens = torch.zeros((), dtype=torch.float64), sum(int(t.ne(PAD).sum()) for _, t in batches)
        for source, target in batches:
            logits = plain(source, target).transpose(1, 2)  # (B, V, T)
            total = total + functional.cross_entropy(
                logits, target, ignore_index=PAD, label_smoothing=SMOOTHING, reduction="sum"
            )
        (total / tokens).backward()
        optimizer.step()
        found.append(float(total.detach()) / tokens)
    return found


@pytest.mark.slow
def test_twenty_updates_are_those_of_plain_torch(small: Any, made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    start: list[Plain] = []
    updates: list[list[tuple[Tensor, Tensor]]] = [[]]
    on_fit_start, forward_backward, update_weights = Step.on_fit_start, Step.forward_backward, Step.update_weights

    def begin(step: Step) -> None:
        on_fit_start(step)
        start.append(copied(step.model))

    def batch(step: Step, found: Any) -> None:
        updates[-1].append((found.source.clone(), found.target.clone()))
        forward_backward(step, found)

    def update(step: Step) -> None:
        update_weights(step)
        updates.append([])

    monkeypatch.setattr(Step, "on_fit_start", begin)
    monkeypatch.setattr(Step, "forward_backward", batch)
    monkeypatch.setattr(Step, "update_weights", update)
    config = small(*WORDS)
    folder = made(config, "twenty")
    trained = fit(config, folder, Interrupt())
    assert len(updates.pop()) == 0 and len(updates) == UPDATES
    assert {len(batches) for batches in updates} == {2}
    (plain,) = start
    found = [line["train/loss"] for line in folder.measurements.read()]
    assert found == pytest.approx(losses(plain, updates), rel=0, abs=1e-9)
    for (name, ours), (_, theirs) in zip(
        copied(trained.step.model).named_parameters(), plain.named_parameters(), strict=True
    ):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-9, msg=lambda text, name=name: f"{name}: {text}")


@pytest.mark.slow
def test_the_last_batch_of_an_epoch_makes_an_update_although_the_update_is_not_full(small: Any, made: Any) -> None:
    words = ("trainer.tokens_per_batch=100", "model.N=1", "trainer.val_every=1000")
    data = TranslationData(small(*words))
    data.setup()
    updates, rest = divmod(data.batches(), data.accumulate)
    assert rest, "the epoch must end amid an update"
    folder = made(config := small(*words, f"trainer.max_steps={updates + 2}"), "epoch")
    fit(config, folder, Interrupt())
    assert [line["epoch"] for line in folder.measurements.read() if "train/loss" in line] == [0] * (updates + 1) + [1]


@pytest.mark.parametrize("devices", [2, 3])
def test_devices_draw_the_random_numbers_that_one_device_draws_for_the_same_batches(devices: int) -> None:
    def seed(place: int, rank: int, world: int) -> int:
        trainer, config = SimpleNamespace(world_size=world), SimpleNamespace(seed=1)
        step = SimpleNamespace(trainer=trainer, global_rank=rank, config=config)
        return Step.seed(step, 2, place)  # type: ignore[arg-type]

    alone = [seed(place, 0, 1) for place in range(12)]
    assert len(set(alone)) == 12
    assert [seed(place // devices, place % devices, devices) for place in range(12)] == alone
