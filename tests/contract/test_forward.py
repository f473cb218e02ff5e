"""Guarantees of every network's forward pass."""

import torch
from torch.nn import functional as F

PAD = 0
SOURCE = torch.tensor(
    [[5, 9, 7, 4, 11, 13, 6, 8, 2], [8, 21, 30, 2, PAD, PAD, PAD, PAD, PAD], [6, 6, 11, 40, 49, 2, PAD, PAD, PAD]]
)
TARGET = torch.tensor([[12, 5, 33, 8, 9, 2], [7, 2, PAD, PAD, PAD, PAD], [44, 45, 46, 2, PAD, PAD]])
REAL = TARGET.ne(PAD)


def logits(model, source, target):
    with torch.no_grad():
        return model.logits(model(source, target))


def test_a_position_sees_the_source_and_only_earlier_targets(case):
    """Earlier outputs stay bit-identical; later positions do see the change."""
    model = case.network(perturb=True).eval()
    before = logits(model, SOURCE, TARGET)
    rows = -(-50 // case.config.data.vocabulary_pad_to) * case.config.data.vocabulary_pad_to
    assert before.shape == (3, 6, rows)
    assert torch.isfinite(before).all()
    for t in (0, 2, 4):
        changed = TARGET.clone()
        changed[:, t] = 17
        after = logits(model, SOURCE, changed)
        assert torch.equal(before[:, : t + 1], after[:, : t + 1])
        assert not torch.equal(before[:, t + 1], after[:, t + 1])
    changed = SOURCE.clone()
    changed[:, 0] = 17
    assert (before - logits(model, changed, TARGET)).abs().max() > 1e-4


def test_neither_padding_nor_the_rest_of_the_batch_changes_a_sentence(case):
    """Padding adds twelve columns, more than any neighbourhood in use."""
    model = case.network(perturb=True).double().eval()
    together = logits(model, SOURCE, TARGET)
    wide = logits(model, F.pad(SOURCE, (0, 12), value=PAD), F.pad(TARGET, (0, 3), value=PAD))
    torch.testing.assert_close(wide[:, :6][REAL], together[REAL], rtol=0, atol=1e-10)
    for i in range(3):
        source, target = SOURCE[i][SOURCE[i].ne(PAD)][None], TARGET[i][REAL[i]][None]
        alone = logits(model, source, target)
        torch.testing.assert_close(together[i, : target.size(1)], alone[0], rtol=0, atol=1e-10)


def test_decoding_step_by_step_equals_the_forward_pass(case):
    model = case.network(perturb=True).double().eval()
    expected = logits(model, SOURCE, TARGET)
    with torch.no_grad():
        cache, token, steps = model.start_cache(SOURCE), torch.full((3,), model.start_id), []
        for t in range(TARGET.size(1)):
            steps.append(model.decode_step(token, cache))
            token = TARGET[:, t]
    torch.testing.assert_close(torch.stack(steps, 1)[REAL], expected[REAL], rtol=0, atol=1e-10)


def test_cache_rows_are_kept_reordered_and_repeated(case):
    """Keep two of three sentences, reordered, with two rows each; then keep only one."""
    model = case.network(perturb=True).double().eval()
    prefix = torch.tensor([[12, 5], [7, 9], [44, 45]])
    rows, then = torch.tensor([2, 2, 0, 0]), torch.tensor([[30, 31], [32, 33], [34, 35], [36, 37]])
    with torch.no_grad():
        cache = model.start_cache(SOURCE)
        for token in (torch.full((3,), model.start_id), prefix[:, 0], prefix[:, 1]):
            last = model.decode_step(token, cache)
        cache.select(rows, torch.tensor([2, 0]))
        steps = [last[rows], model.decode_step(then[:, 0], cache)]
        reordered = torch.tensor([1, 0, 3, 3])
        cache.select(reordered)
        steps.append(model.decode_step(then[:, 1], cache))
        shrunk_to = torch.tensor([3, 2])
        cache.select(shrunk_to, torch.tensor([1]))
        final = model.decode_step(torch.tensor([20, 21]), cache)
    target = torch.cat([prefix[rows], then, torch.zeros(4, 1, dtype=torch.long)], dim=1)
    expected = logits(model, SOURCE[rows], target)
    torch.testing.assert_close(torch.stack(steps[:2], 1), expected[:, 2:4], rtol=0, atol=1e-10)
    moved = torch.cat([prefix[rows], then[reordered, :1], then[:, 1:], torch.zeros(4, 1, dtype=torch.long)], dim=1)
    torch.testing.assert_close(steps[2], logits(model, SOURCE[rows], moved)[:, 4], rtol=0, atol=1e-10)
    longer = torch.cat([moved[shrunk_to, :4], torch.tensor([[20, 2], [21, 2]])], dim=1)
    torch.testing.assert_close(final, logits(model, SOURCE[rows][shrunk_to], longer)[:, 5], rtol=0, atol=1e-10)
