"""Memory networks, MemNN (Weston, Chopra, Bordes 2015), with extensions of the bAbI paper, R of them in parallel.

I maps a sentence to a bag of features Φ; G writes it to the next slot; O selects supporting facts, one after the other;
R selects the answer's word:

    o_1 = argmax_i s_O(x, m_i),    o_2 = argmax_i s_O([x, m_o1], m_i),   …   r = argmax_w s_R([x, m_o1, m_o2, …], w)
    s(x, y) = Φ_x(x)ᵀ Uᵀ U Φ_y(y)

U has n × D entries, D = 3|W|: a word has different vectors in the question, in a fact already found, and in a
candidate. O and R have a U each.

To take the time of sentences into account, facts are compared in pairs (section 3.4): y is preferred to y' if

    s_Ot(x, y, y') = Φ_x(x)ᵀ Uᵀ U (Φ_y(y) - Φ_y(y') + Φ_t(x, y, y')) > 0

with three features Φ_t: whether x is older than y, x older than y', y older than y' (x: the fact found last; the
question has age 0). Training knows the true facts o_1, … (strong supervision) and minimises, for a margin γ, over all
false facts ȳ and false words w̄

    Σ_k Σ_ȳ max(0, γ - s_Ot(x_k, m_ok, ȳ)) + max(0, γ + s_Ot(x_k, ȳ, m_ok))  +  Σ_w̄ max(0, γ - s_R(x, r) + s_R(x, w̄)) .

The authors sample one ȳ and one w̄ at a time; at bAbI's sizes the full sums cost little.

Extensions (Weston et al. 2016, section 5): AM, a fact "none" that ends the search; NL, E(x) = tanh(W tanh(U Φ(x)))
instead of U Φ(x). NG, n-grams, changes only the features: see `Vocabulary.build`.

If all found facts have the same identity, they form one bag, and R cannot tell whether "kitchen" was in the first or
in the second. With `ordered`, which the papers do not mention, the facts of each hop have a separate identity:
D = (2 + k)|W|.

Weak supervision (MemNN-WSH, Sukhbaatar et al. 2015, section 4.3, from memory) does without the true facts. Training
guesses them from the question and the answer a: the facts in memory are valid in a hop if they share at least one word

    hop 1:  with the question
    hop 2:  with the fact of hop 1, and with a

and are ranked above the others. The paper says no more. Here

- V_k, the set of valid facts, takes the place of m_ok in the sum of hop k, which becomes a mean over the valid facts:
  1/|V_k| Σ_{v ∈ V_k} Σ_{ȳ ∉ V_k} max(0, γ - s_Ot(x_k, v, ȳ)) + max(0, γ + s_Ot(x_k, ȳ, v)). With one valid fact it is
  that of strong supervision. A sum would count hops with many valid facts up to hundreds of times;
- x_2 and the response follow the valid fact that the network itself prefers, as it does when it is tested;
- every word counts, "the" also, and a fact may be found twice;
- where no fact is valid (in hop 2 for "yes" and numbers, which no story contains), none is what AM is to find, and
  without AM the hop adds nothing.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding_bag, pad

from variations.models.memory.base import EMPTY, Reader, initialise
from variations.models.memory.stories import Stories

QUESTION, FOUND, SCORED = range(3)
"""The three identities of a word, by where it occurs. Further identities are for facts found in later hops."""

WEAK_HOPS = 2
"""Hops that weak supervision has a rule for."""


class Embedding(nn.Module):
    """U Φ, or tanh(W tanh(U Φ)) (NL), of R restarts."""

    def __init__(self, restarts: int, words: int, d: int, nonlinear: bool, identities: int) -> None:
        super().__init__()
        self.words, self.identities = words, identities
        self.U = nn.Parameter(torch.empty(restarts, identities * words, d))
        self.W = nn.Parameter(torch.empty(restarts, d, d)) if nonlinear else None

    def bag(self, identity: int, words: Tensor, restart: Tensor) -> Tensor:
        """U Φ (N, d) of bags of words (N, J); `restart` (N) is each bag's restart."""
        row = (restart * self.identities + identity) * self.words
        return embedding_bag(words + row.unsqueeze(1), self.U.flatten(0, 1), mode="sum")

    def embed(self, bags: Tensor) -> Tensor:
        """E (R, B, d) of sums U Φ (R, B, d)."""
        return bags if self.W is None else torch.tanh(torch.tanh(bags) @ self.W)

    def each(self, bags: Tensor, restart: Tensor) -> Tensor:
        """E (N, d) of sums U Φ (N, d), each of a restart (N), in the order of restarts."""
        if self.W is None:
            return bags
        count = restart.bincount(minlength=len(self.W))
        most = int(count.amax())
        place = torch.arange(len(restart), device=restart.device) + (
            restart * most - (count.cumsum(0) - count)[restart]
        )
        padded = bags.new_zeros(len(count) * most, bags.shape[1]).index_copy(0, place, bags)
        return self.embed(padded.view(len(count), most, -1)).flatten(0, 1).index_select(0, place)


class MemNN(Reader):
    """R memory networks.

    Args:
        words: number of features, with the empty word.
        d: n, the dimension of the embeddings.
        facts: k, the number of supporting facts; with `adaptive`, the largest number.
        seeds: one for each restart.
        adaptive: AM.
        nonlinear: NL.
        margin: γ.
        ordered: Whether a word has another vector in the fact of each hop.
        answer_words: (words, A) the words that an answer consists of, 0 after the last, for weak supervision; None:
            strong supervision.
    """

    answer_words: Tensor | None

    def __init__(
        self,
        words: int,
        d: int,
        facts: int,
        seeds: list[int],
        adaptive: bool = True,
        nonlinear: bool = False,
        margin: float = 0.1,
        ordered: bool = False,
        answer_words: Tensor | None = None,
    ) -> None:
        super().__init__()
        if answer_words is not None and facts != WEAK_HOPS:
            raise ValueError(f"facts={facts}: weak supervision has {WEAK_HOPS} hops.")
        R = len(seeds)
        self.words, self.facts, self.margin = words, facts, margin
        self.register_buffer("answer_words", answer_words, persistent=False)
        identities = 2 + (facts if ordered else 1)
        self.output, self.response = (Embedding(R, words, d, nonlinear, identities) for _ in range(2))
        self.time = nn.Parameter(torch.empty(R, 3, d))
        """U Φ_t for each of the three features."""
        self.none = nn.Parameter(torch.empty(R, 1, d)) if adaptive else None
        """U Φ_y of the fact that ends the search."""
        initialise(self, seeds)
        with torch.no_grad():
            self.time.zero_()
        self.after_update()

    @final
    @torch.no_grad()
    def after_update(self) -> None:
        """Reset the empty word's vectors to 0."""
        for part in (self.output, self.response):
            part.U.unflatten(1, (-1, self.words))[:, :, EMPTY] = 0

    def forward(self, stories: Stories) -> tuple[Tensor, list[Tensor]]:
        """See `Reader.forward`: a hop's attention is 1 for the fact found, and 0 everywhere for none."""
        search = _Search(self, stories)
        for _ in range(self.facts):
            search.follow(search.choose(search.compare()))
        slots = torch.arange(1, stories.n + 1, device=stories.times.device)
        return search.respond(), [(fact.unsqueeze(-1) == slots).float() for fact in search.found]

    def loss(self, stories: Stories) -> Tensor:
        """(R) the margin ranking loss, summed over the batch."""
        search = _Search(self, stories)
        ranks = self._strong(search) if self.answer_words is None else self._weak(search, self.answer_words)
        return torch.stack([*ranks, search.rank_words()]).sum(0)

    def _strong(self, search: "_Search") -> Iterator[Tensor]:
        """(R) each hop's sums, with the true facts; a fact that is no longer in memory counts as none."""
        true = search.stories.supports[..., : self.facts].clamp(min=0)
        candidates = torch.arange(search.stories.n + 1, device=true.device)
        for k, fact in enumerate(pad(true, (0, 1)).unbind(-1)[: self.facts]):
            yield search.rank(search.compare(), candidates == fact.unsqueeze(-1))
            if k < true.shape[-1]:
                search.follow(fact)

    def _weak(self, search: "_Search", answer_words: Tensor) -> Iterator[Tensor]:
        """(R) each hop's sums, with the valid facts."""
        for _ in range(self.facts):
            compared, valid = search.compare(), search.valid(answer_words[search.stories.answers])
            yield search.rank(compared, valid)
            search.follow(search.choose(compared, valid))


class _Search:
    """A search and what it has found. Candidate 0 is none, candidate i slot i; facts are such numbers (R, B)."""

    def __init__(self, net: MemNN, stories: Stories) -> None:
        self.net, self.stories = net, stories
        R, B, _ = stories.questions.shape
        self.shape = (R, B, -1)
        self.of_text = stories.place // stories.n
        """(N) the question (R·B) that each sentence belongs to."""
        of_sentence = self.of_text // B
        self.of_question = torch.arange(R, device=of_sentence.device).repeat_interleave(B)
        self.sentences = pad(stories.sentences, (0, 0, 1, 0), value=EMPTY)
        """(1 + N, J), none before the sentences."""
        self.number = pad(stories.spread(torch.arange(1, len(self.sentences), device=of_sentence.device)), (1, 0))
        """(R, B, n + 1): each candidate's place among `sentences`."""
        self.facts = net.output.each(net.output.bag(SCORED, stories.sentences, of_sentence), of_sentence)
        """E(y) (N, d) of the sentences."""
        self.age = pad(stories.spread(stories.times), (1, 0))  # (R, B, n + 1)
        self.possible = self.age > 0
        if net.none is not None:
            self.possible[..., 0] = True
        self.found: list[Tensor] = []
        asked = stories.questions.flatten(0, 1)
        self.bags = {part: part.bag(QUESTION, asked, self.of_question) for part in (net.output, net.response)}
        """U Φ_x (R·B, d) of the question and the facts found, for O and R."""

    def follow(self, fact: Tensor) -> None:
        """Add a fact to those found."""
        words = self.sentences[_pick(self.number, fact).flatten()]  # (R·B, J)
        for part, bag in self.bags.items():
            identity = SCORED + len(self.found) if self.found and part.identities > SCORED + 1 else FOUND
            self.bags[part] = bag + part.bag(identity, words, self.of_question)
        self.found.append(fact)

    def compare(self) -> "_Comparison":
        """The candidates compared, given what was found."""
        state = self.net.output.embed(self.bags[self.net.output].view(self.shape))  # (R, B, d)
        of_facts = (self.facts * state.flatten(0, 1).index_select(0, self.of_text)).sum(-1)
        score = pad(self.stories.spread(of_facts), (1, 0))
        if self.net.none is not None:
            score[..., 0] = (state @ self.net.output.embed(self.net.none).mT).squeeze(-1)
        time = state @ self.net.time.mT  # (R, B, 3)
        age_x = _pick(self.age, self.found[-1]) if self.found else torch.zeros_like(self.age[..., 0])
        newer = age_x.unsqueeze(-1) > self.age
        return _Comparison(score + time[..., :1] * newer, score - time[..., 1:2] * newer, time[..., 2], self.age)

    def choose(self, compared: "_Comparison", among: Tensor | None = None) -> Tensor:
        """The fact of `among` (R, B, n + 1), or of all, preferred when compared one by one; none after none."""
        best = compared.preferred(self.possible if among is None else among)
        return torch.where(self.found[-1] == 0, 0, best) if self.found and self.net.none is not None else best

    def valid(self, answers: Tensor) -> Tensor:
        """(R, B, n + 1) the facts that weak supervision takes for supporting ones, or none if there is no such fact."""
        if not self.found:
            valid = self._shares(self.stories.questions)
        else:
            first = self.sentences[_pick(self.number, self.found[0])]  # (R, B, J)
            valid = self._shares(first) & self._shares(answers)
        valid[..., 0] = ~valid.any(-1)
        return valid

    def _shares(self, texts: Tensor) -> Tensor:
        """(R, B, n + 1) whether a candidate shares a word with the text of its question (R, B, ...); none does not."""
        texts = texts.flatten(0, 1)
        said = torch.zeros(len(texts), self.net.words, dtype=torch.bool, device=texts.device).scatter(1, texts, True)
        said[:, EMPTY] = False
        shares = self.stories.spread(said[self.of_text.unsqueeze(1), self.stories.sentences].any(1))
        return pad(shares, (1, 0))

    def rank(self, compared: "_Comparison", wanted: Tensor) -> Tensor:
        """(R) both sums of a hop, over false facts, as a mean over those `wanted` (R, B, n + 1).

        Nothing where the search has ended, and without AM nothing where none is wanted.
        """
        due = wanted & self.possible
        if self.found:
            due = due & (self.found[-1] > 0).unsqueeze(-1)
        text, fact = due.flatten(0, 1).nonzero(as_tuple=True)  # each fact that is ranked
        false = (self.possible & ~wanted).flatten(0, 1)[text]
        sums = (compared.sums(text, fact, self.net.margin) * false).sum(1) / wanted.sum(-1).flatten()[text]
        return sums.new_zeros(len(wanted)).index_add(0, self.of_question[text], sums)

    def respond(self) -> Tensor:
        """s_R of each word (R, B, words)."""
        part = self.net.response
        words = part.embed(part.U.unflatten(1, (-1, self.net.words))[:, SCORED])  # (R, words, d)
        return part.embed(self.bags[part].view(self.shape)) @ words.mT

    def rank_words(self) -> Tensor:
        """(R) the sum over false words."""
        score = self.respond()
        answer = self.stories.answers.unsqueeze(-1)
        wrong: Tensor = (self.net.margin - score.gather(-1, answer) + score).relu()
        out: Tensor = wrong.scatter(-1, answer, 0).sum((1, 2))
        return out


@dataclass(frozen=True)
class _Comparison:
    """s_Ot(x, y, y') of all pairs: `first` of y, less `second` of y', plus `older` if y is older than y'."""

    first: Tensor
    """(R, B, n + 1) Φ_xᵀUᵀU Φ_y, and the feature whether x is older than y."""
    second: Tensor
    """(R, B, n + 1) Φ_xᵀUᵀU Φ_y', less the feature whether x is older than y'."""
    older: Tensor
    """(R, B)."""
    age: Tensor
    """(R, B, n + 1)."""

    def preferred(self, among: Tensor) -> Tensor:
        """(R, B) the candidate of `among` that is preferred when they are compared one by one, in their order."""
        best = among.int().argmax(-1)  # the first
        older, second, age = self.older.detach(), _pick(self.second.detach(), best), _pick(self.age, best)
        columns = (values.detach().unbind(-1) for values in (self.first, self.second, self.age, among))
        for candidate, (first, its_second, its_age, possible) in enumerate(zip(*columns, strict=True)):
            better = (first + older * (its_age > age) > second) & possible
            best = torch.where(better, candidate, best)
            second, age = torch.where(better, its_second, second), torch.where(better, its_age, age)
        return best

    def sums(self, text: Tensor, fact: Tensor, margin: float) -> Tensor:
        """(V, n + 1) both hinges of the true `fact` (V) of question `text` (V), each candidate as the false one."""
        first, second, age = (
            values.flatten(0, 1).index_select(0, text) for values in (self.first, self.second, self.age)
        )
        older = self.older.flatten().index_select(0, text).unsqueeze(1)
        its_first, its_second, its_age = (values.gather(1, fact.unsqueeze(1)) for values in (first, second, age))
        for_true = its_first - second + older * (its_age > age)
        for_false = first - its_second + older * (age > its_age)
        return (margin - for_true).relu() + (margin + for_false).relu()


def _pick(values: Tensor, number: Tensor) -> Tensor:
    """values (R, B, n) at the numbers (R, B)."""
    return values.gather(2, number.unsqueeze(-1)).squeeze(-1)
