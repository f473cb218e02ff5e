"""Was a row trained? A row that was not is printed as such, and takes part in no comparison.

It was not trained if it scores no better than what needs no training (a copy of the source, a word-by-word dictionary),
or if its dev perplexity was still falling steeply when it ended: by more than STEEP between four fifths of its steps
and the last one. Such a row says how far it got, not what it can do.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import expm1

STEEP = 0.05
"""Largest fall of the dev perplexity in the last fifth of the steps, as a share of it."""
LAST = 0.2


def last_fall(curve: Sequence[tuple[int, float]]) -> float | None:
    """By what share the dev perplexity fell in the last fifth of the steps; below 0 where it rose.

    Between validations the loss is interpolated linearly.

    Args:
        curve: (step, dev loss in nats) of each validation, in order.

    Returns:
        None where the curve does not reach back to four fifths of its last step, so that nothing can be said.
    """
    if len(curve) < 2:
        return None
    end, final = curve[-1]
    at = (1 - LAST) * end
    for (step, loss), (later, next_loss) in pairwise(curve):
        if step <= at <= later:
            before = loss + (next_loss - loss) * (at - step) / (later - step)
            return -expm1(final - before)
    return None


def untrained(curve: Sequence[tuple[int, float]], score: float | None, baselines: Mapping[str, float]) -> str | None:
    """Why a run counts as not trained, in words; None if it counts as trained.

    Args:
        curve: (step, dev loss in nats) of each validation, in order.
        score: Its BLEU.
        baselines: BLEU on the same text of what needs no training, by name.
    """
    beaten = {name: value for name, value in baselines.items() if score is not None and score <= value}
    if beaten:
        name = max(beaten, key=lambda key: beaten[key])
        return f"not above the {name} ({beaten[name]:.1f} BLEU)"
    fall = last_fall(curve)
    if fall is not None and fall > STEEP:
        return f"dev perplexity fell by {100 * fall:.0f} % in the last fifth of its steps"
    return None
