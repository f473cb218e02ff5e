"""DMN against torch's GRU and the paper's equations, sentence by sentence."""

import itertools
from dataclasses import replace

import pytest
import torch
from invented import V, make_stories
from torch import Tensor

from variations.models.memory.dmn import DMN, Gate
from variations.models.memory.episode import GatedGRU, SoftmaxSum
from variations.models.memory.recurrent import GRU, told_words
from variations.models.memory.stories import LOST, Stories

D, D_WORD, PASSES = 4, 3, 3


def model(seeds: list[int], **options: str | float) -> DMN:
    net = DMN(V, D, D_WORD, PASSES, seeds, **options).double()
    generator = torch.Generator().manual_seed(9)
    with torch.no_grad():  # biases start at 0: other values reveal a missing one
        for parameter in net.parameters():
            if parameter.shape[1] == 1:
                parameter.normal_(generator=generator)
    return net


def torch_gru(gru: GRU, r: int) -> torch.nn.GRU:
    """Return torch's GRU with the weights of restart r; its gates are in the order r, z, candidate."""
    d, inputs = gru.d, gru.W.shape[1]
    reference = torch.nn.GRU(inputs, d, batch_first=True).to(gru.W.dtype)
    order = [*range(d, 2 * d), *range(d), *range(2 * d, 3 * d)]
    with torch.no_grad():
        reference.weight_ih_l0.copy_(gru.W[r].T[order])
        reference.weight_hh_l0.copy_(gru.U[r].T[order])
        reference.bias_ih_l0.copy_(gru.b[r, 0, order])
        reference.bias_hh_l0.zero_()
    return reference


def test_the_gru_is_torchs() -> None:
    net = model([1, 2])
    words = torch.tensor(
        [[[1, 2, 3, 4, 5], [6, 1, 0, 0, 0], [2, 2, 4, 0, 0]], [[3, 0, 0, 0, 0], [5, 1, 6, 2, 0], [4] * 5]]
    )
    lengths = (words > 0).sum(-1, keepdim=True)
    times = torch.arange(5).expand(2, 3, 5).minimum(lengths - 1)
    states = net.input.read(net.embedding, words, times)
    for r, b in itertools.product(range(2), range(3)):
        told = words[r, b, : int(lengths[r, b])]
        wanted = torch_gru(net.input, r)(net.embedding[r][told].unsqueeze(0))[0][0]
        torch.testing.assert_close(states[r, b], wanted[times[r, b]], atol=1e-12, rtol=0)


def test_words_in_the_order_of_telling() -> None:
    stories = make_stories([[2, 4, 1], [3, 3, 2]])
    words, ends = told_words(stories)
    slots = stories.spread(stories.sentences)
    for r, b in itertools.product(range(2), range(3)):
        sentences = [[word for word in slot if word] for slot in slots[r, b].tolist()]
        oldest_first = [word for sentence in reversed(sentences) for word in sentence]
        assert words[r, b].tolist() == oldest_first + [0] * (words.shape[2] - len(oldest_first))
        for slot, sentence in enumerate(sentences):
            if sentence:
                told = [word for later in reversed(sentences[slot:]) for word in later]
                assert ends[r, b, slot] == len(told) - 1


def score_of(gate: Gate, r: int, c: Tensor, m: Tensor, q: Tensor) -> Tensor:
    """Return the score of equation (6) for one slot, before σ."""
    far = torch.square if gate.distance == "squared" else torch.abs
    like = [c * q, c * m] if gate.products == "elementwise" else [(c @ q).view(1), (c @ m).view(1)]
    bilinear = [(c @ gate.W_b[r] @ q).view(1), (c @ gate.W_b[r] @ m).view(1)]
    z = torch.cat([c, m, q, *like, far(c - q), far(c - m), *bilinear])
    assert len(z) == (7 * D + 2 if gate.products == "elementwise" else 5 * D + 4)
    inner = torch.tanh(z @ gate.W_1[r] + gate.b_1[r, 0])
    return inner @ gate.W_2[r] + gate.b_2[r, 0]


def expected(net: DMN, stories: Stories, r: int, b: int) -> tuple[Tensor, list[Tensor]]:
    """Return the paper's scores of one question and the reads of its sentences, most recent first."""
    sentences = [[w for w in slot if w] for slot in stories.spread(stories.sentences)[r, b].tolist()]
    sentences = [sentence for sentence in reversed(sentences) if sentence]
    E = net.embedding[r]
    input_gru, question_gru = torch_gru(net.input, r), torch_gru(net.question, r)
    memory, answer = torch_gru(net.memory, r), torch_gru(net.answer, r)
    states, h = [], None
    for sentence in sentences:
        _, h = input_gru(E[sentence].unsqueeze(0), h)
        states.append(h[0, 0])
    q = question_gru(E[[w for w in stories.questions[r, b].tolist() if w]].unsqueeze(0))[1][0, 0]
    if isinstance(net.episode, SoftmaxSum):
        states.append(net.episode.mark[r, 0])

    def after(gru: torch.nn.GRU, x: Tensor, h: Tensor) -> Tensor:
        return gru(x.view(1, 1, -1), h.view(1, 1, -1))[1][0, 0]

    m, reads = q, []
    for _ in range(PASSES):
        scores = torch.cat([score_of(net.gate, r, c, m, q) for c in states])
        if isinstance(net.episode, SoftmaxSum):
            reads.append(scores.exp() / scores.exp().sum())
            e = sum((share * c for share, c in zip(reads[-1], states, strict=True)), torch.zeros(D, dtype=q.dtype))
        else:
            reads.append(scores.sigmoid())
            e, gru = torch.zeros(D, dtype=q.dtype), torch_gru(net.episode.gru, r)
            for c, g in zip(states, reads[-1], strict=True):
                e = g * after(gru, c, e) + (1 - g) * e
        m = after(memory, e, m)
    a = after(answer, torch.cat([torch.zeros(V, dtype=q.dtype), q]), m)
    return a @ net.W_a[r], [read[: len(sentences)].flip(0) for read in reads]


@pytest.mark.parametrize("episode", ["softmax", "gru"])
@pytest.mark.parametrize("distance", ["squared", "absolute"])
@pytest.mark.parametrize("products", ["elementwise", "inner"])
def test_forward_by_hand(stories: Stories, distance: str, products: str, episode: str) -> None:
    net = model([1, 2], distance=distance, products=products, episode=episode)
    scores, reads = net(stories)
    for r, b in itertools.product(range(2), range(3)):
        wanted, by_hand = expected(net, stories, r, b)
        torch.testing.assert_close(scores[r, b], wanted, atol=1e-12, rtol=0)
        for read, recent_first in zip(reads, by_hand, strict=True):
            assert read.shape[2] == stories.n
            torch.testing.assert_close(read[r, b, : len(recent_first)], recent_first, atol=1e-12, rtol=0)
            assert not read[r, b, len(recent_first) :].any()


def test_word_vectors_begin_with_unit_variance() -> None:
    vectors = DMN(100, D, 80, PASSES, [1]).embedding.detach()
    assert vectors.var().item() == pytest.approx(1, abs=0.05)
    assert vectors.abs().max() <= 3**0.5


def test_gates_are_taught_the_facts_in_their_order() -> None:
    stories = make_stories([[4, 4]])
    stories.supports[0] = torch.tensor([[3, 1], [2, 0]])
    first, second, third = GatedGRU(1, D).wanted(stories, 3)
    assert first[0].int().tolist() == [[0, 0, 1, 0], [0, 1, 0, 0]]
    assert second[0].int().tolist() == [[1, 0, 0, 0], [0, 0, 0, 0]]
    assert not third.any()
    assert GatedGRU(1, D).wanted(stories, 1)[0][0].int().tolist() == [[1, 0, 1, 0], [0, 1, 0, 0]]  # the last takes all


def test_softmax_gates_are_taught_the_facts_and_then_the_mark() -> None:
    stories = replace(make_stories([[4, 4, 4]]), supports=torch.tensor([[[3, 1, 4], [2, 0, 0], [LOST, 2, 0]]]))
    first, second, third, fourth = SoftmaxSum(1, D).wanted(stories, 4)
    mark, nothing = [0, 0, 0, 0, 1], [0, 0, 0, 0, 0]
    assert first[0].tolist() == [[0, 0, 1, 0, 0], [0, 1, 0, 0, 0], nothing]  # the third story has lost its first fact
    assert second[0].tolist() == [[1, 0, 0, 0, 0], mark, [0, 1, 0, 0, 0]]
    assert third[0].tolist() == [[0, 0, 0, 1, 0], mark, mark]
    assert fourth[0].tolist() == [mark, mark, mark]
    last = SoftmaxSum(1, D).wanted(stories, 2)[1]
    assert last[0].tolist() == [[0.5, 0, 0, 0.5, 0], mark, [0, 1, 0, 0, 0]]  # the last pass is split over the others
    none = replace(stories, supports=stories.supports[..., :0])
    assert SoftmaxSum(1, D).wanted(none, 1)[0].tolist() == [[mark] * 3]


def test_facts_that_are_no_longer_in_memory_are_not_taught_at_any_place_in_the_order() -> None:
    lost = torch.tensor([[[3, LOST, 0], [LOST, 0, 0], [LOST, 2, LOST]]])
    stories = replace(make_stories([[4, 4, 4]]), supports=lost)
    mark, nothing = [0, 0, 0, 0, 1], [0, 0, 0, 0, 0]
    first, second, third, fourth = SoftmaxSum(1, D).wanted(stories, 4)
    assert first[0].tolist() == [[0, 0, 1, 0, 0], nothing, nothing]
    assert second[0].tolist() == [nothing, mark, [0, 1, 0, 0, 0]]
    assert third[0].tolist() == [mark, mark, nothing]
    assert fourth[0].tolist() == [mark, mark, mark]
    assert SoftmaxSum(1, D).wanted(stories, 2)[1][0].tolist() == [nothing, mark, [0, 1, 0, 0, 0]]  # the last: the rest
    assert not GatedGRU(1, D).wanted(stories, 2)[0][0, 1].any()


@pytest.mark.parametrize("episode", ["softmax", "gru"])
def test_the_loss_by_hand(stories: Stories, episode: str) -> None:
    net = model([1, 2], gate_weight=0.5, episode=episode)
    scores, reads = net(stories)
    targets = net.episode.wanted(stories, PASSES)
    for r in range(2):
        loss = torch.tensor(0.0, dtype=scores.dtype)
        for b in range(3):
            loss -= scores[r, b].log_softmax(0)[stories.answers[r, b]]
            for read, target in zip(reads, targets, strict=True):
                for slot in stories.filled[r, b].nonzero():
                    g, wanted = read[r, b, slot].squeeze(), target[r, b, slot].squeeze()
                    if episode == "softmax":
                        loss -= 0.5 * wanted * g.log()
                    else:
                        loss -= 0.5 * (g.log() if wanted else (1 - g).log())
                if episode == "softmax":
                    loss -= 0.5 * target[r, b, -1] * (1 - read[r, b].sum()).log()  # the remaining weight is on the mark
        torch.testing.assert_close(net.loss(stories)[r], loss, atol=1e-10, rtol=0)


def test_squared_differences_keep_gradients_finite_at_0(stories: Stories) -> None:
    net = model([1, 2])
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.zero_()  # c = q = m
    net.loss(stories).sum().backward()
    gradients = [parameter.grad for parameter in net.parameters() if parameter.grad is not None]
    assert any(gradient.any() for gradient in gradients)
    assert all(gradient.isfinite().all() for gradient in gradients)


@pytest.mark.parametrize("episode", ["softmax", "gru"])
def test_gradients(stories: Stories, episode: str) -> None:
    net = model([1, 2], episode=episode)
    names, values = zip(*net.named_parameters(), strict=True)

    def loss(*parameters: Tensor) -> Tensor:
        return torch.func.functional_call(
            _Loss(net), {f"net.{n}": p for n, p in zip(names, parameters, strict=True)}, (stories,)
        )

    assert torch.autograd.gradcheck(loss, values, fast_mode=True)


class _Loss(torch.nn.Module):
    def __init__(self, net: DMN) -> None:
        super().__init__()
        self.net = net

    def forward(self, stories: Stories) -> Tensor:
        return self.net.loss(stories)


@pytest.mark.parametrize("episode", ["softmax", "gru"])
def test_room_for_more_slots_changes_nothing(episode: str) -> None:
    net = model([1, 2], episode=episode)
    tight, roomy = make_stories([[2, 3], [1, 2]]), make_stories([[2, 3], [1, 2]], extra=2)
    torch.testing.assert_close(net(tight)[0], net(roomy)[0], atol=1e-12, rtol=0)
    torch.testing.assert_close(net.loss(tight), net.loss(roomy), atol=1e-12, rtol=0)
