"""Measures that translation and parsing share."""

import math

from variations.tasks.sequences.experiment import perplexity


def test_the_perplexity_of_a_network_that_has_diverged_is_not_a_number() -> None:
    assert perplexity(0.0) == 1.0
    assert math.isnan(perplexity(math.nan))
    assert perplexity(math.inf) == perplexity(1e9) == math.exp(700)
