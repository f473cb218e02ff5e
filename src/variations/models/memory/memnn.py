"""Memory networks, MemNN (Weston, Chopra, Bordes 2015), with extensions of the bAbI paper, R of them side by side.

I turns a sentence into a bag of features Φ; G writes it to the next slot; O looks for supporting facts, one after the
other; R looks for the answer's word:

    o_1 = argmax_i s_O(x, m_i),    o_2 = argmax_i s_O([x, m_o1], m_i),   …   r = argmax_w s_R([x, m_o1, m_o2, …], w)
    s(x, y) = Φ_x(x)ᵀ Uᵀ U Φ_y(y)

U has n × D entries, D = 3|W|: a word has one vector in the question, another in a fact
found already, and a third in what is scored. O and R have a U each.

As it matters when a sentence was told, facts are compared in pairs (section 3.4): y is preferred to y' where

    s_Ot(x, y, y') = Φ_x(x)ᵀ Uᵀ U (Φ_y(y) - Φ_y(y') + Φ_t(x, y, y')) > 0

with three features Φ_t: whether x is older than y, x older than y', y older than y' (x: the fact found last; the
question is as new as can be). Training has the true facts o_1, … at hand (strong supervision) and minimises, for a
margin γ, over all false facts ȳ and false words w̄

    Σ_k Σ_ȳ max(0, γ - s_Ot(x_k, m_ok, ȳ)) + max(0, γ + s_Ot(x_k, ȳ, m_ok))  +  Σ_w̄ max(0, γ - s_R(x, r) + s_R(x, w̄)) .

The authors sample one ȳ and one w̄ a time; at bAbI's sizes the sums themselves cost little.

Extensions (Weston et al. 2016, section 5): AM, a fact "none" that ends the search; NL, E(x) = tanh(W tanh(U Φ(x))) in
place of U Φ(x). NG, n-grams, is a matter of the features: see `Vocabulary.build`.

With one identity for all found facts, R sees them as one bag, and cannot tell whether "kitchen" was in the first or in
the second. With `ordered`, which the papers do not mention, the facts of each hop have an identity of their own:
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

from typing import final

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding_bag, pad

from variations.models.memory.base import EMPTY, Reader, initialise
from variations.models.memory.stories import Stories

QUESTION, FOUND, SCORED = range(3)
"""Where a word occurs: the three identities of each. Further ones are of facts found in the second hop and later."""

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
        """U Φ (N, d) of bags of words (N, J), each of a restart (N)."""
        row = (restart * self.identities + identity) * self.words
        return embedding_bag(words + row.unsqueeze(1), self.U.flatten(0, 1), mode="sum")

    def forward(self, bags: Tensor) -> Tensor:
        """E (R, B, d) of sums U Φ (R, B, d)."""
        return bags if self.W is None else torch.tanh(torch.tanh(bags) @ self.W)


class MemNN(Reader):
    """R memory networks.

    Args:
        words: features of a sentence, with the empty word.
        d: n, the dimension of the embeddings.
        facts: k, the number of supporting facts that are looked for; with `adaptive`, the largest number.
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
        """Set the empty word's vectors to 0 again."""
        for part in (self.output, self.response):
            part.U.unflatten(1, (-1, self.words))[:, :, EMPTY] = 0

    def forward(self, stories: Stories) -> tuple[Tensor, list[Tensor]]:
        """See `Reader.forward`: what a hop reads is 1 for the fact found, and nothing for none."""
        search = _Search(self, stories)
        found: list[Tensor] = []
        for _ in range(self.facts):
            chosen = search.choose(found)
            found.append(chosen)
        slots = torch.arange(1, stories.n + 1, device=stories.times.device)
        return search.respond(found), [(fact.unsqueeze(-1) == slots).float() for fact in found]

    def loss(self, stories: Stories) -> Tensor:
        """(R) the margin ranking sums, over the batch."""
        search = _Search(self, stories)
        if self.answer_words is not None:
            return self._weak_loss(search, self.answer_words[stories.answers])
        true = list(stories.supports[..., : self.facts].unbind(-1))
        loss = search.rank_words(true)
        for k in range(min(self.facts, len(true) + 1)):
            wanted = true[k] if k < len(true) else torch.zeros_like(stories.answers)
            loss = loss + search.rank_facts(true[:k], wanted)
        return loss

    def _weak_loss(self, search: "_Search", answers: Tensor) -> Tensor:
        """(R) the sums with valid facts in place of true ones; `answers` are the words of the answers (R, B, A)."""
        found: list[Tensor] = []
        loss = torch.zeros((), device=answers.device)
        for _ in range(self.facts):
            valid = search.valid(found, answers)
            loss = loss + search.rank_valid(found, valid)
            with torch.no_grad():
                found.append(search.choose(found, valid))
        return loss + search.rank_words(found)


class _Search:
    """Facts and words scored for a batch. Candidate 0 is none, candidate i slot i; facts are such numbers (R, B)."""

    def __init__(self, net: MemNN, stories: Stories) -> None:
        self.net, self.stories = net, stories
        R, B, _ = stories.questions.shape
        self.shape = (R, B, -1)
        self.of_text = stories.place // stories.n
        """(N) the question (R·B) that each sentence belongs to."""
        of_sentence = self.of_text // B
        self.of_question = torch.arange(R, device=of_sentence.device).repeat_interleave(B)
        asked = stories.questions.flatten(0, 1)
        self.asked = {part: part.bag(QUESTION, asked, self.of_question) for part in (net.output, net.response)}
        """U Φ of the questions, (R·B, d), for O and R."""
        self.sentences = pad(stories.sentences, (0, 0, 1, 0), value=EMPTY)
        """(1 + N, J), none before the sentences."""
        number = stories.spread(torch.arange(1, len(self.sentences), device=of_sentence.device))
        self.number = torch.cat([torch.zeros_like(number[:, :, :1]), number], 2)
        """(R, B, n + 1): each candidate's place among `sentences`."""
        scored = stories.spread(net.output.bag(SCORED, stories.sentences, of_sentence))  # (R, B, n, d)
        nothing = (
            torch.zeros_like(scored[:, :, :1])
            if net.none is None
            else net.none.unsqueeze(1).expand_as(scored[:, :, :1])
        )
        candidates = torch.cat([nothing, scored], 2)
        self.candidates = net.output(candidates.flatten(1, 2)).view_as(candidates)
        age = stories.spread(stories.times)
        self.age = torch.cat([torch.zeros_like(age[:, :, :1]), age], 2)  # (R, B, n + 1)
        self.possible = self.age > 0
        if net.none is not None:
            self.possible[..., 0] = True

    def _state(self, part: Embedding, found: list[Tensor]) -> Tensor:
        """E(x) (R, B, d) of the question and the facts found."""
        x = self.asked[part]
        for hop, fact in enumerate(found):
            words = self.sentences[_pick(self.number, fact).flatten()]  # (R·B, J)
            identity = SCORED + hop if hop and part.identities > SCORED + 1 else FOUND
            x = x + part.bag(identity, words, self.of_question)
        out: Tensor = part(x.view(self.shape))
        return out

    def _comparisons(self, found: list[Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        """Φ_xᵀUᵀU Φ_y of each candidate (R, B, n + 1) and of each time feature (R, B, 3), and x's age (R, B, 1)."""
        x = self._state(self.net.output, found)
        age = _pick(self.age, found[-1]) if found else torch.zeros_like(self.age[..., 0])
        return (self.candidates @ x.unsqueeze(-1)).squeeze(-1), x @ self.net.time.mT, age.unsqueeze(-1)

    def choose(self, found: list[Tensor], among: Tensor | None = None) -> Tensor:
        """The fact of `among` (R, B, n + 1), or of all, preferred when compared one by one; none after none."""
        score, time, age_x = self._comparisons(found)
        among = self.possible if among is None else among
        best = among.int().argmax(-1)  # the first
        for candidate in range(1, score.shape[-1]):
            here = torch.full_like(best, candidate)
            better = self._prefer(score, time, age_x, here, best) > 0
            best = torch.where(better & among[..., candidate], here, best)
        if found and self.net.none is not None:
            best = torch.where(found[-1] == 0, 0, best)
        return best

    def _prefer(self, score: Tensor, time: Tensor, age_x: Tensor, y: Tensor, other: Tensor) -> Tensor:
        """s_Ot(x, y, y') (R, B)."""
        age_x = age_x.squeeze(-1)
        age_y, age_other = _pick(self.age, y), _pick(self.age, other)
        features = torch.stack([age_x > age_y, age_x > age_other, age_y > age_other], -1)
        return _pick(score, y) - _pick(score, other) + (time * features).sum(-1)

    def rank_facts(self, found: list[Tensor], wanted: Tensor) -> Tensor:
        """(R) both sums of a hop, over false facts; nothing where the search has ended.

        A fact that is no longer in memory counts as none, and without AM adds nothing.
        """
        score, time, age_x = self._comparisons(found)
        due = torch.ones_like(wanted, dtype=torch.bool) if self.net.none is not None else wanted > 0
        if found:
            due = due & (found[-1] > 0)
        f, age = _pick(score, wanted).unsqueeze(-1), _pick(self.age, wanted).unsqueeze(-1)
        newer, newer_other, older = age_x > age, age_x > self.age, age > self.age
        t = time.unsqueeze(-2)
        for_wanted = f - score + (t * torch.stack(torch.broadcast_tensors(newer, newer_other, older), -1)).sum(-1)
        younger = self.age > age
        for_other = score - f + (t * torch.stack(torch.broadcast_tensors(newer_other, newer, younger), -1)).sum(-1)
        numbers = torch.arange(score.shape[-1], device=wanted.device)
        false = self.possible & (numbers != wanted.unsqueeze(-1)) & due.unsqueeze(-1)
        margin = self.net.margin
        sums: Tensor = ((margin - for_wanted).relu() + (margin + for_other).relu()) * false
        out: Tensor = sums.sum((1, 2))
        return out

    def valid(self, found: list[Tensor], answers: Tensor) -> Tensor:
        """(R, B, n + 1) the facts that weak supervision takes for supporting ones, or none if there is no such fact."""
        if not found:
            valid = self._shares(self.stories.questions)
        else:
            first = self.sentences[_pick(self.number, found[0])]  # (R, B, J)
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

    def rank_valid(self, found: list[Tensor], valid: Tensor) -> Tensor:
        """(R) both sums of a hop, over pairs of a valid and another fact, as a mean over the valid ones.

        Nothing where the search has ended, and where no fact is valid without AM.
        """
        score, time, age_x = self._comparisons(found)
        due = valid & self.possible
        if found:
            due = due & (found[-1] > 0).unsqueeze(-1)
        r, b, v = due.nonzero(as_tuple=True)  # each valid fact that is ranked
        false = self.possible[r, b] & ~valid[r, b]  # (V, n + 1)
        f, other, age, age_other = (
            score[r, b, v].unsqueeze(1),
            score[r, b],
            self.age[r, b, v].unsqueeze(1),
            self.age[r, b],
        )
        newer, newer_other = age_x[r, b] > age, age_x[r, b] > age_other
        x_older, x_older_other, older = time[r, b].unsqueeze(1).unbind(-1)  # (V, 1) each
        for_valid = f - other + x_older * newer + x_older_other * newer_other + older * (age > age_other)
        for_other = other - f + x_older * newer_other + x_older_other * newer + older * (age_other > age)
        margin = self.net.margin
        sums = ((margin - for_valid).relu() + (margin + for_other).relu()) * false / valid.sum(-1)[r, b].unsqueeze(1)
        return score.new_zeros(len(score)).index_add(0, r, sums.sum(1))

    def respond(self, found: list[Tensor]) -> Tensor:
        """s_R of each word (R, B, words)."""
        part = self.net.response
        words: Tensor = part(part.U.unflatten(1, (-1, self.net.words))[:, SCORED])  # (R, words, d)
        scores: Tensor = self._state(part, found) @ words.mT
        return scores

    def rank_words(self, found: list[Tensor]) -> Tensor:
        """(R) the sum over false words."""
        score = self.respond(found)
        answer = self.stories.answers.unsqueeze(-1)
        wrong: Tensor = (self.net.margin - score.gather(-1, answer) + score).relu()
        out: Tensor = wrong.scatter(-1, answer, 0).sum((1, 2))
        return out


def _pick(values: Tensor, number: Tensor) -> Tensor:
    """values (R, B, n, ...) at the numbers (R, B)."""
    index = number.view(*number.shape, 1, *[1] * (values.dim() - 3)).expand(-1, -1, 1, *values.shape[3:])
    return values.gather(2, index).squeeze(2)
