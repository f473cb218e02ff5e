"""DMN against torch's GRU and the paper's equations, sentence by sentence."""

import itertools

import pytest
import torch
from invented import V, make_stories
from torch import Tensor

from variations.models.memory.dmn import DMN, Gate
from variations.models.memory.recurrent import GRU, told_words
from variations.models.memory.stories import Stories

D, D_WORD, PASSES = 4, 3, 3


def model(seeds: list[int], **options: str | float) -> DMN:
    net = DMN(V, D, D_WORD, PASSES, seeds, **options).double()
    generator = torch.Generator().manual_seed(9)
    with torch.no_grad():  # biases begin as 0: give them values, that a lost one is seen
        for parameter in net.parameters():
            if parameter.shape[1] == 1:
                parameter.normal_(generator=generator)
    return net


def torch_gru(gru: GRU, r: int) -> torch.nn.GRU:
    """torch's GRU with the weights of restart r; its gates come in the order r, z, candidate."""
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
    gru = model([1, 2]).input
    x = torch.randn(2, 3, 5, D_WORD, dtype=torch.float64)
    states = gru(x)
    for r in range(2):
        torch.testing.assert_close(states[r], torch_gru(gru, r)(x[r])[0], atol=1e-12, rtol=0)


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


def gate_of(gate: Gate, r: int, c: Tensor, m: Tensor, q: Tensor) -> Tensor:
    """σ of equation (6), for one sentence."""
    far = torch.square if gate.distance == "squared" else torch.abs
    like = [c * q, c * m] if gate.products == "elementwise" else [(c @ q).view(1), (c @ m).view(1)]
    bilinear = [(c @ gate.W_b[r] @ q).view(1), (c @ gate.W_b[r] @ m).view(1)]
    z = torch.cat([c, m, q, *like, far(c - q), far(c - m), *bilinear])
    assert len(z) == (7 * D + 2 if gate.products == "elementwise" else 5 * D + 4)
    inner = torch.tanh(z @ gate.W_1[r] + gate.b_1[r, 0])
    return torch.sigmoid(inner @ gate.W_2[r] + gate.b_2[r, 0])


def expected(net: DMN, stories: Stories, r: int, b: int) -> tuple[Tensor, list[list[Tensor]]]:
    """Scores and gates of one question, by the paper's equations."""
    sentences = [[w for w in slot if w] for slot in stories.spread(stories.sentences)[r, b].tolist()]
    sentences = [sentence for sentence in reversed(sentences) if sentence]
    E = net.embedding[r]
    input_gru, question_gru = torch_gru(net.input, r), torch_gru(net.question, r)
    episode, memory, answer = torch_gru(net.episode, r), torch_gru(net.memory, r), torch_gru(net.answer, r)
    states, h = [], None
    for sentence in sentences:
        _, h = input_gru(E[sentence].unsqueeze(0), h)
        states.append(h[0, 0])
    q = question_gru(E[[w for w in stories.questions[r, b].tolist() if w]].unsqueeze(0))[1][0, 0]

    def after(gru: torch.nn.GRU, x: Tensor, h: Tensor) -> Tensor:
        return gru(x.view(1, 1, -1), h.view(1, 1, -1))[1][0, 0]

    m, gates = q, []
    for _ in range(PASSES):
        gates.append([gate_of(net.gate, r, c, m, q) for c in states])
        e = torch.zeros(D, dtype=q.dtype)
        for c, g in zip(states, gates[-1], strict=True):
            e = g * after(episode, c, e) + (1 - g) * e
        m = after(memory, e, m)
    a = after(answer, torch.cat([torch.zeros(V, dtype=q.dtype), q]), m)
    return a @ net.W_a[r], gates


@pytest.mark.parametrize("distance", ["squared", "absolute"])
@pytest.mark.parametrize("products", ["elementwise", "inner"])
def test_forward_by_hand(stories: Stories, distance: str, products: str) -> None:
    net = model([1, 2], distance=distance, products=products)
    scores, reads = net(stories)
    for r, b in itertools.product(range(2), range(3)):
        wanted, gates = expected(net, stories, r, b)
        torch.testing.assert_close(scores[r, b], wanted, atol=1e-12, rtol=0)
        for read, gate in zip(reads, gates, strict=True):
            recent_first = torch.cat(gate[::-1])
            torch.testing.assert_close(read[r, b, : len(gate)], recent_first, atol=1e-12, rtol=0)
            assert not read[r, b, len(gate) :].any()


def test_gates_are_taught_the_facts_in_their_order() -> None:
    stories = make_stories([[4, 4]])
    stories.supports[0] = torch.tensor([[3, 1], [2, 0]])
    first, second, third = model([1]).wanted_gates(stories)
    assert first[0].int().tolist() == [[0, 0, 1, 0], [0, 1, 0, 0]]
    assert second[0].int().tolist() == [[1, 0, 0, 0], [0, 0, 0, 0]]
    assert not third.any()
    few = DMN(V, D, D_WORD, 1, [1])
    assert few.wanted_gates(stories)[0][0].int().tolist() == [[1, 0, 1, 0], [0, 1, 0, 0]]  # the last pass takes all


def test_the_loss_by_hand(stories: Stories) -> None:
    net = model([1, 2], gate_weight=0.5)
    scores, reads = net(stories)
    wanted = net.wanted_gates(stories)
    for r in range(2):
        loss = torch.tensor(0.0, dtype=scores.dtype)
        for b in range(3):
            loss -= scores[r, b].log_softmax(0)[stories.answers[r, b]]
            for read, target in zip(reads, wanted, strict=True):
                for slot in range(stories.n):
                    if stories.filled[r, b, slot]:
                        g = read[r, b, slot]
                        loss -= 0.5 * (torch.log(g) if target[r, b, slot] else torch.log(1 - g))
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


def test_gradients(stories: Stories) -> None:
    net = model([1, 2])
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


def test_room_for_more_slots_changes_nothing() -> None:
    net = model([1, 2])
    tight, roomy = make_stories([[2, 3], [1, 2]]), make_stories([[2, 3], [1, 2]], extra=2)
    torch.testing.assert_close(net(tight)[0], net(roomy)[0], atol=1e-12, rtol=0)
    torch.testing.assert_close(net.loss(tight), net.loss(roomy), atol=1e-12, rtol=0)
