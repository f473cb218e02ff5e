"""The networks of a configuration."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from variations.models.doors import call, construct, resolve
from variations.models.memory.base import Reader
from variations.models.memory.dmn import DMN
from variations.models.memory.lstm import LSTM
from variations.models.memory.memn2n import MemN2N
from variations.models.memory.memnn import MemNN
from variations.models.memory.stories import Stories
from variations.models.memory.transformer import TransformerReader
from variations.system.errors import UserError
from variations.tasks.question_answering.config import ReaderConfig
from variations.tasks.question_answering.encoding import Vocabulary

READERS: dict[str, type[Reader]] = {
    "memn2n": MemN2N,
    "memnn": MemNN,
    "dmn": DMN,
    "lstm": LSTM,
    "transformer": TransformerReader,
}
"""Values of `model.kind`."""


def build(model: ReaderConfig, vocabulary: Vocabulary, seeds: list[int]) -> Reader:
    """The restarts of a network for a vocabulary, one for each seed.

    Raises:
        UserError: `model.kind` names a class that does not exist or is not a `Reader`.
    """
    words, memory, longest = len(vocabulary), vocabulary.memory, vocabulary.longest
    match model.kind:
        case "memn2n":
            options = {"code": model.code, "tying": model.tying, "empty_slots": model.empty_slots}
            return MemN2N(words, memory, longest, model.d, model.hops, seeds, **options)  # type: ignore[arg-type]
        case "memnn":
            extensions = {"adaptive": model.adaptive, "nonlinear": model.nonlinear, "ordered": model.ordered}
            answer_words = vocabulary.answer_words() if model.supervision == "weak" else None
            return MemNN(
                words, model.d, model.facts, seeds, margin=model.margin, answer_words=answer_words, **extensions
            )
        case "dmn":
            kinds = {"distance": model.distance, "products": model.products, "episode": model.episode}
            return DMN(words, model.d, model.d_word, model.passes, seeds, gate_weight=model.gate_weight, **kinds)  # type: ignore[arg-type]
        case "lstm":
            return LSTM(words, model.d, model.d_word, seeds)
        case "transformer":
            return TransformerReader(words, memory, longest, model.d, model.layers, model.h, seeds)
        case foreign:
            made = resolve("model.kind", foreign, READERS, Reader)
            return construct("model.kind", foreign, lambda: made.from_config(model, words, memory, longest, seeds))


def check(net: Reader, name: str, stories: Stories) -> None:
    """Check that a network of another package answers a batch, with restarts that do not depend on each other.

    Args:
        net: The network.
        name: `model.kind`, for messages.
        stories: Questions for each restart.

    Raises:
        UserError: It does not, or its own code raises an exception.
    """
    R = len(stories.answers)
    for parameter, value in net.named_parameters():
        if not value.ndim or value.shape[0] != R:
            raise UserError(
                f"model.kind={name}: the shape of {parameter} is {tuple(value.shape)}, but the first axis of every "
                f"parameter must be the restart, of which there are {R} (model.restarts). {_SEE}"
            )
    with buffers_kept(net):
        _check_values(net, name, stories)


@contextmanager
def buffers_kept(net: nn.Module) -> Iterator[None]:
    """Restore a network's buffers at the end, which `forward` may update in training, as batch normalisation does."""
    before = {name: value.clone() for name, value in net.named_buffers()}
    try:
        yield
    finally:
        with torch.no_grad():
            for name, value in net.named_buffers():
                value.copy_(before[name])


def _check_values(net: Reader, name: str, stories: Stories) -> None:
    R, B = stories.answers.shape
    answer = call("model.kind", name, "cannot answer questions", lambda: net(stories))
    scores = answer[0] if isinstance(answer, tuple) and len(answer) == 2 else answer
    if not isinstance(scores, Tensor) or scores is answer or scores.ndim != 3 or scores.shape[:2] != (R, B):
        found = f"shape {tuple(scores.shape)}" if isinstance(scores, Tensor) else type(scores).__name__
        raise UserError(
            f"model.kind={name}: forward must return a pair: scores of the answers, of shape ({R}, {B}, words) for "
            f"{R} restarts and {B} questions, and a list of weights. Its scores: {found}. {_SEE}"
        )
    losses = call("model.kind", name, "has no loss", lambda: net.loss(stories))
    if losses.shape != (R,):
        raise UserError(f"model.kind={name}: loss must have the shape ({R},), one of each restart. {_SEE}")
    values = [value for value in net.parameters() if value.requires_grad]
    for gradient in torch.autograd.grad(losses[0], values, allow_unused=True) if R > 1 else ():
        if gradient is not None and gradient[1:].any():
            raise UserError(f"model.kind={name}: the first restart's loss depends on other restarts' weights. {_SEE}")


_SEE = 'See "A memory network" in docs/adding-a-variation.md.'


class Networks(nn.ModuleDict):
    """The networks of all groups, by name."""

    def reader(self, group: str) -> Reader:
        """The network of a group."""
        net = self[group]
        assert isinstance(net, Reader)  # noqa: S101 - for the type alone
        return net
