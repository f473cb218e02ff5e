"""MemN2N against the paper's equations, computed sentence by sentence."""

import copy
import itertools

import pytest
import torch
from invented import LONGEST, MEMORY, V, make_stories
from torch import Tensor

from variations.models.memory.memn2n import MemN2N
from variations.models.memory.stories import Stories

D, HOPS = 5, 3


def model(seeds: list[int], **options: str) -> MemN2N:
    return MemN2N(V, MEMORY, LONGEST, D, HOPS, seeds, **options).double()


def l_kj(code: str, k: int, j: int, J: int) -> float:
    """Return the weight of word j in a sentence of J words; the authors' J is fixed and includes the time."""
    if code == "bow":
        return 1.0
    if code == "paper":
        return (1 - j / J) - (k / D) * (1 - 2 * j / J)
    return 1 + 4 * (k - (D + 1) / 2) * (j - (LONGEST + 2) / 2) / (D * (LONGEST + 1))


def vector(E: Tensor, words: list[int], code: str, time: int | None = None) -> Tensor:
    """Compute Σ_j l_j ∘ E x_j (+ T(time)), word by word."""
    words = [word for word in words if word]
    total = torch.zeros(D, dtype=E.dtype)
    for j, word in enumerate(words, start=1):
        total += torch.tensor([l_kj(code, k, j, len(words)) for k in range(1, D + 1)]) * E[word]
    if time is not None:
        weight = [l_kj("authors", k, LONGEST + 1, 0) if code == "authors" else 1.0 for k in range(1, D + 1)]
        total += torch.tensor(weight) * E[V - 1 + time]
    return total


def expected(net: MemN2N, stories: Stories, code: str, r: int, b: int) -> tuple[Tensor, list[Tensor]]:
    """Return logits and each hop's reads for one question, by equations (1) to (4)."""
    E = [embedding[r] for embedding in net.embeddings]
    slots = stories.spread(stories.sentences)[r, b].tolist()
    times = stories.spread(stories.times)[r, b].tolist()
    adjacent = net.H is None
    u = vector(E[0 if adjacent else 2], stories.questions[r, b].tolist(), code)
    reads = []
    for hop in range(HOPS):
        A, C = (E[hop], E[hop + 1]) if adjacent else (E[0], E[1])
        zero = torch.zeros(D, dtype=u.dtype)
        full = [
            (vector(A, w, code, t), vector(C, w, code, t)) if t else (zero, zero)
            for w, t in zip(slots, times, strict=True)
        ]
        full += [(zero, zero)] * (MEMORY - len(full))
        score = torch.stack([u @ m for m, _ in full])
        if net.empty_slots == "masked":
            score[[i for i in range(MEMORY) if i >= len(times) or not times[i]]] = -torch.inf
        p = score.masked_fill(score.isinf(), 0) if net.linear[r] else score.softmax(0)
        o = sum(p_i * c for p_i, (_, c) in zip(p, full, strict=True))
        u = (u if adjacent else net.H[r] @ u) + o
        reads.append(p[: len(slots)])
    return E[HOPS if adjacent else 3] @ u, reads


OPTIONS = list(
    itertools.product(["bow", "paper", "authors"], ["adjacent", "layer_wise"], ["attended", "masked"], [False, True])
)


@pytest.mark.parametrize(("code", "tying", "empty_slots", "linear"), OPTIONS)
def test_forward_by_hand(stories: Stories, code: str, tying: str, empty_slots: str, linear: bool) -> None:
    net = model([1, 2], code=code, tying=tying, empty_slots=empty_slots)
    net.linear.fill_(linear)
    logits, reads = net(stories)
    for r, b in itertools.product(range(2), range(3)):
        wanted, wanted_reads = expected(net, stories, code, r, b)
        torch.testing.assert_close(logits[r, b], wanted, atol=1e-6, rtol=0)  # α, β are computed in float32
        for read, wanted_read in zip(reads, wanted_reads, strict=True):
            torch.testing.assert_close(read[r, b], wanted_read, atol=1e-6, rtol=0)


@pytest.mark.parametrize("code", ["bow", "paper", "authors"])
def test_gradients(stories: Stories, code: str) -> None:
    net = model([1, 2], code=code, tying="layer_wise")
    names, values = zip(*net.named_parameters(), strict=True)

    def loss(*parameters: Tensor) -> Tensor:
        logits, reads = torch.func.functional_call(net, dict(zip(names, parameters, strict=True)), (stories,))
        return logits.square().sum() + sum(read.square().sum() for read in reads)

    assert torch.autograd.gradcheck(loss, values, fast_mode=True)


def test_linear_start_is_the_restarts_own(stories: Stories) -> None:
    net = model([1, 2])
    soft, _ = net(stories)
    net.linear.fill_(True)
    linear, _ = net(stories)
    net.linear[1] = False
    mixed, _ = net(stories)
    assert torch.equal(mixed[0], linear[0])
    assert torch.equal(mixed[1], soft[1])
    assert not torch.allclose(soft, linear)


def test_tying_and_parameters() -> None:
    rows = V + MEMORY
    assert sum(p.numel() for p in model([1]).parameters()) == (HOPS + 1) * rows * D
    assert sum(p.numel() for p in model([1], tying="layer_wise").parameters()) == 4 * rows * D + D * D


def test_weights_begin_as_normal_with_deviation_0_1_and_the_empty_word_as_0() -> None:
    net = MemN2N(1000, 50, 11, 20, 3, [1])
    for embedding in net.embeddings:
        assert not embedding[:, 0].any()
        assert embedding[:, 1:].std().item() == pytest.approx(0.1, rel=0.02)
        assert embedding[:, 1:].mean().item() == pytest.approx(0, abs=0.002)


@pytest.mark.parametrize("code", ["bow", "paper", "authors"])
@pytest.mark.parametrize("empty_slots", ["attended", "masked"])
def test_room_for_more_slots_changes_nothing(code: str, empty_slots: str) -> None:
    counts = [[2, 3], [1, 2]]
    net = model([1, 2], code=code, empty_slots=empty_slots)
    tight, _ = net(make_stories(counts))
    roomy, reads = net(make_stories(counts, extra=1))
    torch.testing.assert_close(tight, roomy, atol=1e-12, rtol=0)
    if empty_slots == "masked":
        assert not any(read[..., -1].any() for read in reads)


@pytest.mark.parametrize("code", ["bow", "paper", "authors"])
def test_longer_sentences_elsewhere_change_nothing(stories: Stories, code: str) -> None:
    net = model([1, 2], code=code)
    short = make_stories([[2, 4, 1], [3, 3, 2]])
    short.sentences[:, -1] = 0
    short.questions[..., -1] = 0
    torch.testing.assert_close(net(short)[0], net(short)[0])
    other = copy.deepcopy(short)
    other.sentences[-1, -1] = 1  # the last sentence of the last question of restart 2
    same, changed = net(short)[0], net(other)[0]
    torch.testing.assert_close(same[0], changed[0], atol=1e-12, rtol=0)
    torch.testing.assert_close(same[1, :2], changed[1, :2], atol=1e-12, rtol=0)
    assert not torch.allclose(same[1, 2], changed[1, 2])


def test_a_question_is_answered_alike_alone_and_in_a_batch() -> None:
    net = model([1])
    batch = make_stories([[2, 4, 1]])
    together, _ = net(batch)
    for b in range(3):
        mine = batch.place // batch.n == b
        alone = Stories(
            n=batch.n,
            place=batch.place[mine] % batch.n,
            sentences=batch.sentences[mine],
            times=batch.times[mine],
            questions=batch.questions[:, b : b + 1],
            answers=batch.answers[:, b : b + 1],
            supports=batch.supports[:, b : b + 1],
        )
        torch.testing.assert_close(net(alone)[0][:, 0], together[:, b], atol=1e-12, rtol=0)
