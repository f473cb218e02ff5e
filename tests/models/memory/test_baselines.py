"""The LSTM against torch's, the Transformer reader against torch's encoder, and what neither may depend on."""

import itertools

import pytest
import torch
from invented import LONGEST, MEMORY, V, make_stories
from suite import sampled
from torch import Tensor

from variations.models.memory.base import Reader
from variations.models.memory.dmn import DMN
from variations.models.memory.lstm import LSTM
from variations.models.memory.memn2n import MemN2N
from variations.models.memory.memnn import MemNN
from variations.models.memory.stories import Stories
from variations.models.memory.transformer import TransformerReader

D = 8
READERS = {
    "memn2n": lambda seeds: MemN2N(V, MEMORY, LONGEST, D, 3, seeds),
    "memnn": lambda seeds: MemNN(V, D, 2, seeds),
    "dmn": lambda seeds: DMN(V, D, 5, 2, seeds),
    "dmn_gru": lambda seeds: DMN(V, D, 5, 2, seeds, episode="gru"),
    "lstm": lambda seeds: LSTM(V, D, 5, seeds),
    "transformer": lambda seeds: TransformerReader(V, MEMORY, LONGEST, D, 2, 2, seeds),
}


def test_the_lstm_is_torchs(stories: Stories) -> None:
    net = LSTM(V, D, 5, [1, 2]).double()
    scores, reads = net(stories)
    assert reads == []
    slots = stories.spread(stories.sentences)
    for r, b in itertools.product(range(2), range(3)):
        reference = torch.nn.LSTM(5, D, batch_first=True).double()  # also has its gates in the order i, f, g, o
        with torch.no_grad():
            reference.weight_ih_l0.copy_(net.W[r].T)
            reference.weight_hh_l0.copy_(net.U[r].T)
            reference.bias_ih_l0.copy_(net.b[r, 0])
            reference.bias_hh_l0.zero_()
        words = [word for slot in reversed(slots[r, b].tolist()) for word in slot if word]
        words += [word for word in stories.questions[r, b].tolist() if word]
        h = reference(net.embedding[r][words].unsqueeze(0))[1][0][0, 0]
        torch.testing.assert_close(scores[r, b], h @ net.W_a[r], atol=1e-12, rtol=0)


def test_the_transformer_reader_is_torchs_encoder(stories: Stories) -> None:
    net = TransformerReader(V, MEMORY, LONGEST, D, 2, 2, [1, 2]).double()
    scores, reads = net(stories)
    slots = stories.spread(stories.sentences)
    for r, b in itertools.product(range(2), range(3)):
        read: list[tuple[int, int, int]] = [(w, 0, j) for j, w in enumerate(stories.questions[r, b].tolist()) if w]
        asked = len(read)
        for time, slot in enumerate(slots[r, b].tolist(), start=1):
            read += [(word, time, j) for j, word in enumerate(slot) if word]
        x = torch.stack(
            [net.embedding[r, w] + net.time_embedding[r, t] + net.position_embedding[r, j] for w, t, j in read]
        ).unsqueeze(0)
        times = torch.tensor([time for _, time, _ in read])
        for layer, found in zip(net.layers, reads, strict=True):
            reference = torch.nn.TransformerEncoderLayer(
                D, 2, 4 * D, dropout=0, batch_first=True, norm_first=True, dtype=torch.float64
            )
            with torch.no_grad():
                reference.self_attn.in_proj_weight.copy_(layer.qkv.W[r].T)
                reference.self_attn.in_proj_bias.copy_(layer.qkv.b[r, 0])
                reference.self_attn.out_proj.weight.copy_(layer.out.W[r].T)
                reference.self_attn.out_proj.bias.copy_(layer.out.b[r, 0])
                reference.linear1.weight.copy_(layer.up.W[r].T)
                reference.linear1.bias.copy_(layer.up.b[r, 0])
                reference.linear2.weight.copy_(layer.down.W[r].T)
                reference.linear2.bias.copy_(layer.down.b[r, 0])
            normal = torch.nn.functional.layer_norm(x, (D,))
            weights = reference.self_attn(normal, normal, normal)[1][0, :asked].mean(0)  # mean over question words, (T)
            for slot in range(stories.n):
                torch.testing.assert_close(found[r, b, slot], weights[times == slot + 1].sum(), atol=1e-12, rtol=0)
            x = reference(x)
        answer = torch.nn.functional.layer_norm(x[0, :asked], (D,)).mean(0)
        torch.testing.assert_close(scores[r, b], answer @ net.W_a[r], atol=1e-12, rtol=0)


@pytest.mark.parametrize("kind", READERS)
def test_restarts_follow_from_their_seeds(kind: str) -> None:
    together, alone = READERS[kind]([5, 6]), READERS[kind]([6])
    for many, one in zip(together.parameters(), alone.parameters(), strict=True):
        assert torch.equal(many[1], one[0])


@pytest.mark.parametrize("kind", READERS)
def test_a_restarts_gradient_is_what_it_would_be_alone(kind: str) -> None:
    together, alone = READERS[kind]([5, 6]).double(), READERS[kind]([6]).double()
    stories = make_stories([[2, 4, 1], [3, 3, 2]])
    mine = stories.place // (stories.n * 3) == 1
    second = Stories(
        n=stories.n,
        place=stories.place[mine] - stories.n * 3,
        sentences=stories.sentences[mine],
        times=stories.times[mine],
        questions=stories.questions[1:],
        answers=stories.answers[1:],
        supports=stories.supports[1:],
    )
    loss, one_loss = together.loss(stories), alone.loss(second)
    torch.testing.assert_close(loss[1], one_loss[0], atol=1e-10, rtol=0)
    loss.sum().backward()
    one_loss.sum().backward()
    for many, one in zip(together.parameters(), alone.parameters(), strict=True):
        torch.testing.assert_close(_gradient(many)[1], _gradient(one)[0], atol=1e-10, rtol=0)


@pytest.mark.parametrize("kind", READERS)
def test_room_for_more_slots_changes_nothing(kind: str) -> None:
    net = READERS[kind]([1, 2]).double()
    tight, roomy = make_stories([[2, 3], [1, 2]]), make_stories([[2, 3], [1, 2]], extra=1)
    torch.testing.assert_close(net(tight)[0], net(roomy)[0], atol=1e-12, rtol=0)


@pytest.mark.parametrize("kind", READERS)
def test_halves_of_a_batch_lose_what_the_batch_loses(kind: str) -> None:
    net = READERS[kind]([1, 2]).double().eval()
    stories = make_stories([[2, 4, 1, 3], [3, 3, 2, 2]])
    halves = sum(net.loss(half).sum() for half in stories.halves())
    torch.testing.assert_close(halves, net.loss(stories).sum(), atol=1e-10, rtol=0)


@pytest.mark.slow
@pytest.mark.parametrize("kind", sampled(READERS, 2))
def test_overfits_one_batch(kind: str) -> None:
    net: Reader = READERS[kind]([1, 2])
    stories = make_stories([[2, 4, 1], [3, 3, 2]])
    optimizer = torch.optim.Adam(net.parameters(), lr=0.02)
    for _ in range(300):
        optimizer.zero_grad()
        net.loss(stories).sum().backward()
        optimizer.step()
        net.after_update()
    assert torch.equal(net(stories)[0].argmax(-1), stories.answers)


@pytest.mark.parametrize("kind", READERS)
def test_a_saved_network_answers_alike(kind: str, tmp_path) -> None:
    net, other = READERS[kind]([1, 2]), READERS[kind]([3, 4])
    torch.save(net.state_dict(), tmp_path / "net.pt")
    other.load_state_dict(torch.load(tmp_path / "net.pt", weights_only=True))
    stories = make_stories([[2, 3], [1, 2]])
    assert torch.equal(net(stories)[0], other(stories)[0])


def _gradient(parameter: Tensor) -> Tensor:
    return torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
