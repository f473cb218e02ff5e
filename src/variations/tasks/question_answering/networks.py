"""The networks of a configuration."""

from torch import nn

from variations.models.doors import construct, resolve
from variations.models.memory.base import Reader
from variations.models.memory.dmn import DMN
from variations.models.memory.lstm import LSTM
from variations.models.memory.memn2n import MemN2N
from variations.models.memory.memnn import MemNN
from variations.models.memory.transformer import TransformerReader
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


class Networks(nn.ModuleDict):
    """The networks of all groups, by name."""

    def reader(self, group: str) -> Reader:
        """The network of a group."""
        net = self[group]
        assert isinstance(net, Reader)  # noqa: S101 - for the type alone
        return net
