"""GLEU of Wu et al. 2016 ("Google's Neural Machine Translation System", section 5.2).

All 1- to 4-grams of hypothesis and reference are pooled; the GLEU of a sentence is the number of matches over the
larger of the two numbers of n-grams, that is min(precision, recall). There is no brevity penalty, and swapping the
sides changes nothing. The paper defines it for a sentence. That of a corpus is NLTK's: both numbers are summed over the
sentences, so it may lie below the lower of the corpus's precision and recall.
"""

from collections import Counter
from collections.abc import Sequence

MAX_ORDER = 4


def ngrams(tokens: Sequence[str]) -> Counter[tuple[str, ...]]:
    """Counts of all n-grams of 1 to MAX_ORDER tokens, pooled."""
    return Counter(tuple(tokens[i : i + n]) for n in range(1, MAX_ORDER + 1) for i in range(len(tokens) - n + 1))


def gleu_counts(hypothesis: Sequence[str], reference: Sequence[str]) -> tuple[int, int]:
    """Numerator and denominator of one sentence: matches, and the larger number of n-grams."""
    ours, theirs = ngrams(hypothesis), ngrams(reference)
    return (ours & theirs).total(), max(ours.total(), theirs.total())


def sentence_gleu(hypothesis: Sequence[str], reference: Sequence[str]) -> float:
    """GLEU of one tokenised sentence, between 0 and 1; 0 when both sides are empty."""
    matches, total = gleu_counts(hypothesis, reference)
    return matches / total if total else 0.0


def corpus_gleu(hypotheses: Sequence[Sequence[str]], references: Sequence[Sequence[str]]) -> float:
    """GLEU of tokenised sentences, between 0 and 1: the sum of matches over the sum of the larger numbers of n-grams.

    Raises ValueError when the two sides differ in length.
    """
    counts = [gleu_counts(hypothesis, reference) for hypothesis, reference in zip(hypotheses, references, strict=True)]
    matches, total = sum(pair[0] for pair in counts), sum(pair[1] for pair in counts)
    return matches / total if total else 0.0
