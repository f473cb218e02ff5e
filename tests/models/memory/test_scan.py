"""The hand-written gradients of GRU and LSTM, over texts that end at different times."""

import pytest
import torch
from torch import Tensor

from variations.models.memory.recurrent import longest_first, states_at
from variations.models.memory.scan import GRUScan, LSTMScan

LENGTHS = [9, 8, 8, 6, 5, 3, 3, 2, 1]
ACTIVE = [sum(length > time for length in LENGTHS) for time in range(9)]  # two stretches and more in fours
READ = (torch.arange(9).unsqueeze(1) < torch.tensor(LENGTHS)).view(9, 1, 9, 1)


@pytest.mark.slow
@pytest.mark.parametrize(("scan", "parts"), [(GRUScan, 3), (LSTMScan, 4)])
@pytest.mark.parametrize("fast", [True, pytest.param(False, marks=pytest.mark.exhaustive)])
def test_gradients_and_texts_that_have_ended(scan: type[torch.autograd.Function], parts: int, fast: bool) -> None:
    """Fast: one random direction in place of each input by itself."""
    generator = torch.Generator().manual_seed(3)
    projected = torch.randn(9, 2, 9, parts * 2, generator=generator, dtype=torch.float64, requires_grad=True)
    U = torch.randn(2, 2, parts * 2, generator=generator, dtype=torch.float64, requires_grad=True)

    def states(projected: Tensor, U: Tensor) -> Tensor:
        return scan.apply(projected, U, ACTIVE) * READ

    assert torch.autograd.gradcheck(states, (projected, U), fast_mode=fast)
    with torch.no_grad():
        in_full = scan.apply(projected, U, [9] * 9) * READ
        torch.testing.assert_close(states(projected, U), in_full, atol=1e-12, rtol=0)


def test_states_are_found_again_after_sorting() -> None:
    words = torch.tensor([[[1, 2, 0], [3, 0, 0], [4, 5, 6]], [[7, 0, 0], [8, 9, 1], [2, 3, 0]]])
    told, place, active = longest_first(words)
    assert told[0].tolist() == [[4, 1, 3], [8, 2, 7]]
    assert active == [3, 2, 1]
    last = (words > 0).sum(-1, keepdim=True) - 1
    found = states_at(told.unsqueeze(-1).double(), place, last)
    assert found.view(2, 3).tolist() == [[2, 3, 6], [7, 1, 3]]
