"""MemNN against the paper's scores and sums, fact by fact."""

import itertools

import pytest
import torch
from invented import V, make_stories
from torch import Tensor

from variations.models.memory.memnn import FOUND, QUESTION, SCORED, Embedding, MemNN, _Search
from variations.models.memory.stories import LOST, Stories

D, FACTS = 4, 2


ANSWER_WORDS = torch.tensor([[0, 0], [1, 0], [2, 0], [3, 0], [4, 0], [0, 0], [1, 2]])
"""Word 5 is not an answer, and word 6 stands for two words."""


def model(seeds: list[int], **options: bool | float | Tensor) -> MemNN:
    net = MemNN(V, D, FACTS, seeds, **options).double()
    with torch.no_grad():  # they start at 0, which would hide wrong signs
        for time, seed in zip(net.time, seeds, strict=True):
            time.normal_(generator=torch.Generator().manual_seed(seed))
    return net


class Paper:
    """One question of one restart, by the paper's definitions. Fact 0 is no fact; fact i is slot i."""

    def __init__(self, net: MemNN, stories: Stories, r: int, b: int) -> None:
        self.net, self.r = net, r
        slots = stories.spread(stories.sentences)[r, b].tolist()
        self.sentences = [[], *([w for w in slot if w] for slot in slots if any(slot))]
        self.question = [w for w in stories.questions[r, b].tolist() if w]
        self.answer = int(stories.answers[r, b])
        self.supports = stories.supports[r, b].tolist()

    def bag(self, part: Embedding, identity: int, words: list[int]) -> Tensor:
        U = part.U[self.r].view(-1, V, D)
        return sum((U[identity, word] for word in words), torch.zeros(D, dtype=U.dtype))

    def embed(self, part: Embedding, bag: Tensor) -> Tensor:
        return bag if part.W is None else torch.tanh(torch.tanh(bag) @ part.W[self.r])

    def x(self, part: Embedding, found: list[int]) -> Tensor:
        bag = self.bag(part, QUESTION, self.question)
        identities = [FOUND, SCORED + 1] if part.identities == 4 else [FOUND, FOUND]  # of the first and second hop
        return self.embed(
            part,
            bag + sum(self.bag(part, identities[hop], self.sentences[fact]) for hop, fact in enumerate(found)),
        )

    def y(self, fact: int) -> Tensor:
        part = self.net.output
        bag = self.net.none[self.r, 0] if fact == 0 else self.bag(part, SCORED, self.sentences[fact])
        return self.embed(part, bag)

    def s_Ot(self, found: list[int], y: int, other: int) -> Tensor:
        """Compute s_Ot. Slots count backwards in time, so a greater number is older."""
        age_x = found[-1] if found else 0
        older = torch.tensor([age_x > y, age_x > other, y > other], dtype=self.net.time.dtype)
        return self.x(self.net.output, found) @ (self.y(y) - self.y(other) + older @ self.net.time[self.r])

    def s_R(self, found: list[int], word: int) -> Tensor:
        part = self.net.response
        return self.x(part, found) @ self.embed(part, self.bag(part, SCORED, [word]))

    def facts(self) -> list[int]:
        return [fact for fact in range(len(self.sentences)) if fact or self.net.none is not None]

    def choose(self, found: list[int], among: list[int] | None = None) -> int:
        if found and found[-1] == 0:
            return 0
        best, *others = self.facts() if among is None else among
        for fact in others:
            if self.s_Ot(found, fact, best) > 0:
                best = fact
        return best

    def valid(self, found: list[int]) -> list[int]:
        wanted = [set(self.question)]
        if found:
            wanted = [set(self.sentences[found[0]]), set(ANSWER_WORDS[self.answer].tolist()) - {0}]
        return [i for i, words in enumerate(self.sentences) if all(each & set(words) for each in wanted)] or [0]

    def weak_loss(self) -> tuple[Tensor, list[int]]:
        margin, found = self.net.margin, []
        total = torch.tensor(0.0, dtype=self.net.time.dtype)
        for _ in range(2):
            valid = self.valid(found)
            if not (found and found[-1] == 0) and set(valid) <= set(self.facts()):
                for true, false in itertools.product(valid, sorted(set(self.facts()) - set(valid))):
                    total = total + (margin - self.s_Ot(found, true, false)).relu() / len(valid)
                    total = total + (margin + self.s_Ot(found, false, true)).relu() / len(valid)
            found.append(self.choose(found, valid))
        return total + self.words_loss(found), found

    def words_loss(self, found: list[int]) -> Tensor:
        right = self.s_R(found, self.answer)
        wrong = [self.net.margin - right + self.s_R(found, word) for word in range(V) if word != self.answer]
        return torch.stack(wrong).relu().sum()

    def loss(self) -> Tensor:
        margin = self.net.margin
        total = torch.tensor(0.0, dtype=self.net.time.dtype)
        for k in range(FACTS):
            found, wanted = self.supports[:k], self.supports[k]
            if (found and found[-1] == 0) or (wanted == 0 and self.net.none is None):
                continue
            for false in self.facts():
                if false != wanted:
                    total = total + (margin - self.s_Ot(found, wanted, false)).relu()
                    total = total + (margin + self.s_Ot(found, false, wanted)).relu()
        return total + self.words_loss(self.supports)


@pytest.fixture
def supported(stories: Stories) -> Stories:
    stories.supports.copy_(torch.tensor([[[2, 1], [3, 0], [1, 0]], [[1, 3], [0, 0], [2, 1]]]))
    return stories


OPTIONS = [
    {"adaptive": a, "nonlinear": n, "ordered": o, "margin": 0.7}
    for a, n, o in itertools.product([False, True], repeat=3)
]


@pytest.mark.parametrize("options", OPTIONS)
def test_the_search_and_the_response_by_hand(stories: Stories, options: dict[str, bool | float]) -> None:
    net = model([1, 2], **options)
    scores, reads = net(stories)
    for r, b in itertools.product(range(2), range(3)):
        paper = Paper(net, stories, r, b)
        found: list[int] = []
        for read in reads:
            found.append(paper.choose(found))
            assert read[r, b].nonzero().flatten().tolist() == [fact - 1 for fact in found[-1:] if fact]
        for word in range(V):
            torch.testing.assert_close(scores[r, b, word], paper.s_R(found, word), atol=1e-12, rtol=0)


@pytest.mark.parametrize("options", OPTIONS)
def test_the_margin_ranking_sums_by_hand(supported: Stories, options: dict[str, bool | float]) -> None:
    net = model([1, 2], **options)
    loss = net.loss(supported)
    for r in range(2):
        wanted = sum(Paper(net, supported, r, b).loss() for b in range(3))
        torch.testing.assert_close(loss[r], wanted, atol=1e-10, rtol=0)


A, B, C, D_, E, F = range(1, V)


def test_the_valid_facts_by_hand() -> None:
    """Slots 1 to 3 hold "c d", "a b" and "e a"."""
    stories = make_stories([[3, 3, 3, 3, 3]])
    stories.sentences.copy_(torch.tensor([[C, D_, 0], [A, B, 0], [E, A, 0]]).repeat(5, 1))
    stories.questions.copy_(torch.tensor([[[A, F, 0], [F, 0, 0], [C, E, 0], [B, 0, 0], [B, 0, 0]]]))
    stories.answers.copy_(torch.tensor([[A, A, C, E, F]]))  # f is "a,b"; e is not an answer
    net = model([1], answer_words=ANSWER_WORDS)
    search, answers = _Search(net, stories), ANSWER_WORDS[stories.answers]
    of = [valid.nonzero().flatten().tolist() for valid in search.valid(answers)[0]]
    assert of == [[2, 3], [0], [1, 3], [2], [2]]
    search.follow(torch.tensor([[3, 0, 1, 2, 2]]))
    of = [valid.nonzero().flatten().tolist() for valid in search.valid(answers)[0]]
    assert of == [[2, 3], [0], [1], [0], [2, 3]]


@pytest.mark.parametrize("options", OPTIONS)
def test_the_sums_of_weak_supervision_by_hand(options: dict[str, bool | float]) -> None:
    stories = make_stories([[2, 4, 1, 4], [3, 3, 2, 4]])
    stories.answers.copy_(torch.tensor([[1, 2, 5, 6], [3, 5, 6, 4]]))
    stories.supports.fill_(99)  # not used
    net = model([1, 2], answer_words=ANSWER_WORDS, **options)
    loss = net.loss(stories)
    for r in range(2):
        wanted = sum(Paper(net, stories, r, b).weak_loss()[0] for b in range(4))
        torch.testing.assert_close(loss[r], wanted, atol=1e-10, rtol=0)


@pytest.mark.parametrize("adaptive", [False, True])
def test_a_fact_that_is_no_longer_in_memory_counts_as_none(supported: Stories, adaptive: bool) -> None:
    net = model([1, 2], adaptive=adaptive)
    wanted = net.loss(supported)
    supported.supports[supported.supports == 0] = LOST
    assert torch.equal(net.loss(supported), wanted)


def test_with_one_valid_fact_in_each_hop_weak_supervision_is_strong() -> None:
    stories = make_stories([[3, 3]])
    stories.sentences.copy_(torch.tensor([[C, D_, 0], [A, B, 0], [E, B, 0]]).repeat(2, 1))
    stories.questions.copy_(torch.tensor([[[A, F, 0], [C, 0, 0]]]))
    stories.answers.copy_(torch.tensor([[B, F]]))
    words = ANSWER_WORDS.clone()
    words[B], words[F] = torch.tensor([[E, 0], [0, 0]])
    stories.supports.copy_(torch.tensor([[[2, 3], [1, 0]]]))
    weak, strong = model([1], answer_words=words, margin=0.7), model([1], margin=0.7)
    torch.testing.assert_close(weak.loss(stories), strong.loss(stories), atol=1e-12, rtol=0)


@pytest.mark.parametrize("ordered", [False, True])
def test_only_with_an_identity_for_each_hop_the_response_knows_which_fact_came_first(
    stories: Stories, ordered: bool
) -> None:
    net = model([1, 2], ordered=ordered)
    first, second = torch.ones_like(stories.answers), torch.full_like(stories.answers, 2)
    responses = []
    for facts in ([first, second], [second, first]):
        search = _Search(net, stories)
        for fact in facts:
            search.follow(fact)
        responses.append(search.respond())
    assert torch.isclose(*responses, atol=1e-12, rtol=0).all() != ordered


def test_after_none_nothing_is_found(stories: Stories) -> None:
    net = model([1])
    with torch.no_grad():
        net.output.U.zero_()
        net.time.zero_()
        net.none.fill_(1)
    scores, reads = net(make_stories([[2, 3]]))
    assert not any(read.any() for read in reads)
    assert scores.isfinite().all()


def test_room_for_more_slots_changes_nothing() -> None:
    net = model([1, 2])
    tight, roomy = make_stories([[2, 3], [1, 2]]), make_stories([[2, 3], [1, 2]], extra=2)
    torch.testing.assert_close(net(tight)[0], net(roomy)[0], atol=1e-12, rtol=0)
    torch.testing.assert_close(net.loss(tight), net.loss(roomy), atol=1e-12, rtol=0)


@pytest.mark.parametrize("answer_words", [None, ANSWER_WORDS], ids=["strong", "weak"])
def test_gradients(supported: Stories, answer_words: Tensor | None) -> None:
    net = model([1, 2], margin=0.7, nonlinear=True, answer_words=answer_words)
    names, values = zip(*net.named_parameters(), strict=True)
    holder = torch.nn.Module()
    holder.net = net
    holder.forward = net.loss

    def loss(*parameters: Tensor) -> Tensor:
        named = {f"net.{name}": parameter for name, parameter in zip(names, parameters, strict=True)}
        return torch.func.functional_call(holder, named, (supported,))

    assert torch.autograd.gradcheck(loss, values, fast_mode=True)
