"""Position weights against the papers' formulas."""

import pytest
import torch

from variations.models.memory.sentence import AuthorsPositions, BagOfWords, PaperPositions


def weights(code: torch.nn.Module, words: list[int], d: int, timed: bool = False) -> torch.Tensor:
    """Return l_kj (d, J) of one sentence."""
    alpha, beta = code(torch.tensor([words]), timed)
    one = torch.ones(1, len(words))
    a = torch.zeros(d) if code.a is None else code.a
    return (alpha * one) + a.unsqueeze(1) * (beta * one)


def test_the_papers_weights_by_hand() -> None:
    # d = 2, J = 2: l_11 = (1 - 1/2) - (1/2)(1 - 2/2) = 1/2, l_12 = (1 - 1) - (1/2)(1 - 2) = 1/2,
    #               l_21 = (1 - 1/2) - 1 (1 - 1) = 1/2,       l_22 = 0 - 1 (1 - 2) = 1
    assert torch.allclose(weights(PaperPositions(2, 3), [5, 6, 0], 2)[:, :2], torch.tensor([[0.5, 0.5], [0.5, 1.0]]))


@pytest.mark.parametrize("J", [1, 3, 6])
def test_the_papers_formula(J: int) -> None:
    d, longest = 5, 6
    l = weights(PaperPositions(d, longest), [1] * J + [0] * (longest - J), d)  # noqa: E741 - the paper's symbol
    for k in range(1, d + 1):
        for j in range(1, J + 1):
            assert l[k - 1, j - 1].item() == pytest.approx((1 - j / J) - (k / d) * (1 - 2 * j / J), abs=1e-6)


def test_the_papers_time_is_added_unweighted() -> None:
    assert torch.equal(weights(PaperPositions(4, 3), [1, 2, 0, 9], 4, timed=True)[:, -1], torch.ones(4))


@pytest.mark.parametrize("timed", [False, True])
def test_the_authors_formula(timed: bool) -> None:
    d, longest = 5, 6
    J = longest + 1  # the time counts as a word
    l = weights(AuthorsPositions(d, longest), [1] * (J if timed else longest), d, timed)  # noqa: E741
    assert l.shape == (d, J if timed else longest)
    for k in range(1, d + 1):
        for j in range(1, l.shape[1] + 1):
            expected = 1 + 4 * (k - (d + 1) / 2) * (j - (J + 1) / 2) / (d * J)
            assert l[k - 1, j - 1].item() == pytest.approx(expected, abs=1e-6)


def test_bag_of_words() -> None:
    assert torch.equal(weights(BagOfWords(3, 4), [1, 2, 3, 0], 3), torch.ones(3, 4))
