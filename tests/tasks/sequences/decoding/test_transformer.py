"""Search with cached keys and values, compared with the network's own forward pass over whole sequences."""

import pytest
import torch

from variations.models import build
from variations.tasks.sequences.decoding.beam import beam_search
from variations.tasks.translation.config import TranslationConfig

PAD, BOS, EOS = 0, 1, 2
SOURCE = torch.tensor([[5, 9, 7, 4, EOS], [8, EOS, PAD, PAD, PAD], [6, 6, 11, EOS, PAD]])


def network(kind, start):
    config = TranslationConfig()
    config.model.kind, config.model.decoder_start = kind, start
    config.model.N, config.model.d_model, config.model.d_ff, config.model.h = 2, 16, 32, 4
    torch.manual_seed(3)
    return build(config, 13).double().eval()


def forced(model, source, tokens):
    """Return the sum of log P of `tokens`, from one pass over all positions."""
    target = torch.tensor([tokens])
    with torch.no_grad():
        log_p = model.logits(model(source, target)).log_softmax(-1)
    return float(log_p[0].gather(1, target[0][:, None]).sum())


@pytest.mark.parametrize("beam", [1, 5])
@pytest.mark.parametrize(("kind", "start"), [("transformer", "zero"), ("transformer", "bos"), ("weighted", "zero")])
def test_log_probabilities_are_those_of_the_forward_pass_and_free_of_the_batch(kind, start, beam):
    model = network(kind, start)
    options = {"beam": beam, "nbest": beam, "alpha": 0.6, "max_extra": 6}
    together = beam_search(model, SOURCE, **options)
    for row, found in zip(SOURCE, together, strict=True):
        alone = row[row.ne(PAD)][None]
        assert [h.tokens for h in beam_search(model, alone, **options)[0]] == [h.tokens for h in found]
        for hypothesis in found:
            tokens = hypothesis.tokens + [EOS] * hypothesis.finished
            assert hypothesis.log_probability == pytest.approx(forced(model, alone, tokens), abs=1e-9)
            assert hypothesis.score == pytest.approx(hypothesis.log_probability / ((5 + len(tokens)) / 6) ** 0.6)


def test_greedy_takes_the_best_token_of_the_forward_pass_each_time():
    model = network("transformer", "zero")
    for row in SOURCE:
        source = row[row.ne(PAD)][None]
        tokens = []
        while len(tokens) < source.size(1) + 6 and tokens[-1:] != [EOS]:
            with torch.no_grad():
                logits = model.logits(model(source, torch.tensor([[*tokens, EOS]])))[0, -1]
            logits[[PAD, BOS]] = -torch.inf
            tokens.append(int(logits.argmax()))
        ((found,),) = beam_search(model, source, beam=1, alpha=0.6, max_extra=6)
        assert found.tokens + [EOS] * found.finished == tokens
