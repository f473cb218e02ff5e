"""From lines of text to translations, in input order.

Sentences are sorted by length and cut into batches by a token budget, longest first, so that a batch that is too large
fails at once, and the estimate of the time left is conservative.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Protocol
from unicodedata import category

import torch
from torch import Tensor, nn

from variations.configuration.transformer import TransformerConfig
from variations.system.errors import ConfigError
from variations.tasks.sequences.config import DecodeConfig
from variations.tasks.sequences.decoding.beam import Hypothesis, beam_search
from variations.tasks.sequences.decoding.protocol import EOS, PAD, UNK, Decodable

LONGEST_SOURCE = 1024
"""Length of the longest source, in ids with EOS, that is not cut, unless `data.max_length` is more.

It is far longer than a sentence. The limit exists because memory grows with the square of the length, and user input
may have lines of any length.
"""


class Codec(Protocol):
    """Converts lines to sub-word ids that end in EOS, and back."""

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        """One list of ids for each line, each ending in EOS."""
        ...

    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]:
        """One line for each list of ids."""
        ...


@dataclass(frozen=True)
class Output:
    """One translation of a line."""

    text: str
    hypothesis: Hypothesis


@dataclass(frozen=True)
class Translation:
    """The translation of one line."""

    source: str
    outputs: list[Output]
    """Best first; at least one."""
    source_length: int
    """Sub-words of the line, EOS included."""
    translated_length: int
    """How many of them were translated; fewer than `source_length` if the line was too long."""
    unknown: int = 0
    """How many of these are characters that never occurred in training."""

    @property
    def truncated(self) -> bool:
        """Whether the end of the line was cut off."""
        return self.translated_length < self.source_length

    @property
    def cut(self) -> str | None:
        """A note that the end of the line was cut off; None if it was not."""
        if not self.truncated:
            return None
        return (
            f"too long: of {self.source_length} sub-words only the first {self.translated_length} were read "
            "(end of sentence counted)."
        )


@dataclass
class Translator:
    """Beam search over lines of text.

    Args:
        model: the model. A module in training mode is in evaluation mode during a call.
        subwords: the model's own vocabulary.
        decode: beam, length penalty, limits, token budget of a batch, size of the n-best list.
        device: where the model is.
        max_source: longest source in sub-words, EOS included; longer ones are truncated and marked. None: no limit.
        max_target: longest output in sub-words, EOS included (rows of a learned position table). None: no limit.
        bf16: whether forward passes are those of `trainer.precision=bf16-mixed`, with matrix products in bf16.
    """

    model: Decodable
    subwords: Codec
    decode: DecodeConfig
    device: torch.device | str = "cpu"
    max_source: int | None = None
    max_target: int | None = None
    bf16: bool = False

    def __post_init__(self) -> None:
        if self.decode.nbest > self.decode.beam:
            raise ConfigError(
                [
                    f"decode.nbest={self.decode.nbest} is more than decode.beam={self.decode.beam}: "
                    f"request at most {self.decode.beam} translations or set decode.beam={self.decode.nbest}"
                ]
            )

    def translate(
        self, lines: Sequence[str], *, ids: Sequence[Sequence[int]] | None = None, progress: bool = True
    ) -> list[Translation]:
        """Translate lines; any text is accepted.

        A line without sub-words (empty, blanks, control characters) gets one empty translation with log-probability 0,
        without using the model. Control characters count as blanks.

        Args:
            lines: without line ends.
            ids: their ids, if known.
            progress: show a bar when standard error is a terminal.

        Returns:
            One translation for each line, in order.
        """
        encoded = self._encode(lines, ids)
        sources = [shortened(row, self.max_source) for row in encoded]
        empty = [Hypothesis([], 0.0, 0.0, True)]
        asked = [index for index, row in enumerate(sources) if any(token != EOS for token in row)]
        answers = dict(zip(asked, self.search([sources[index] for index in asked], progress=progress), strict=True))
        found = [answers.get(index, empty) for index in range(len(sources))]
        texts = iter(self.subwords.decode([hypothesis.tokens for nbest in found for hypothesis in nbest]))
        return [
            Translation(
                line,
                [Output(next(texts), hypothesis) for hypothesis in nbest],
                len(row),
                len(source),
                unknown=sum(token == UNK for token in source),
            )
            for line, nbest, row, source in zip(lines, found, encoded, sources, strict=True)
        ]

    def search(self, sources: Sequence[Sequence[int]], *, progress: bool = True) -> list[list[Hypothesis]]:
        """Decode sentences given as sub-words.

        Args:
            sources: ids ending in EOS, of any length; nothing is truncated here.
            progress: show a bar when standard error is a terminal.

        Returns:
            The n-best list of each sentence, in the order of `sources`.
        """
        found: list[list[Hypothesis]] = [[] for _ in sources]
        mixed = torch.autocast(torch.device(self.device).type, torch.bfloat16) if self.bf16 else nullcontext()
        with _evaluating(self.model), mixed, _bar(len(sources), progress) as advance:
            for batch in batches([len(ids) for ids in sources], self.decode.batch_tokens, self.decode.beam):
                source = pad_sources([sources[index] for index in batch]).to(self.device)
                hypotheses = beam_search(
                    self.model,
                    source,
                    beam=self.decode.beam,
                    alpha=self.decode.alpha,
                    max_extra=self.decode.max_extra,
                    nbest=self.decode.nbest,
                    max_length=self.max_target,
                )
                for index, nbest in zip(batch, hypotheses, strict=True):
                    found[index] = nbest
                advance(len(batch))
        return found

    def _encode(self, lines: Sequence[str], ids: Sequence[Sequence[int]] | None) -> list[Sequence[int]]:
        """Ids of the lines: those given, except for lines that `clean` changes, which are encoded again."""
        cleaned = [clean(line) for line in lines]
        if ids is None:
            return [*self.subwords.encode(cleaned)]
        rows = [*ids]
        changed = [number for number, line in enumerate(lines) if cleaned[number] != line]
        for number, row in zip(changed, self.subwords.encode([cleaned[i] for i in changed]), strict=True):
            rows[number] = row
        return rows


def longest_source(config: TransformerConfig) -> int:
    """The length at which a run's sources are cut, in losses, tests, `translate.py` and drawings alike."""
    return max(LONGEST_SOURCE, config.data.max_length)


def shortened(ids: Any, longest: int | None) -> Any:
    """A source, list or array, cut to `longest` ids, EOS included, if it is longer."""
    return ids if longest is None or len(ids) <= longest else [*ids[: longest - 1], EOS]


def as_tested(config: TransformerConfig) -> dict[str, Any]:
    """Longest source and output of a run's test, in sub-words with EOS, and its precision: arguments of `Translator`.

    A learned position table limits outputs; source positions beyond its end use its last row.
    """
    rows = config.positions.max_length if config.positions.kind == "learned" else None
    bf16 = config.trainer.precision == "bf16-mixed"
    return {"max_source": longest_source(config), "max_target": rows, "bf16": bf16}


def clean(line: str) -> str:
    """The line with control characters replaced by blanks, and without lone surrogates, which UTF-8 cannot express."""
    if line.isprintable():
        return line
    line = line.encode("utf-8", "replace").decode("utf-8")
    return "".join(" " if category(character) == "Cc" else character for character in line)


def batches(lengths: Sequence[int], batch_tokens: int, beam: int) -> Iterator[list[int]]:
    """Cut sentences into batches of similar length, longest first.

    Args:
        lengths: source tokens of each sentence.
        batch_tokens: largest padded source tokens times beam of a batch; one sentence may exceed it alone.
        beam: hypotheses per sentence.

    Yields:
        Indices into `lengths`; each once.
    """
    order = sorted(range(len(lengths)), key=lambda index: (-lengths[index], index))
    start = 0
    while start < len(order):
        rows = max(1, batch_tokens // (max(1, lengths[order[start]]) * beam))
        yield order[start : start + rows]
        start += rows


def pad_sources(sources: Sequence[Sequence[int]]) -> Tensor:
    """(B, S) int64: the sentences, padded at the end."""
    padded = torch.full((len(sources), max(len(ids) for ids in sources)), PAD)
    for row, ids in enumerate(sources):
        padded[row, : len(ids)] = torch.as_tensor(ids, dtype=torch.int64)
    return padded


@contextmanager
def _evaluating(model: Decodable) -> Iterator[None]:
    """A context in evaluation mode, which restores each module's mode afterwards."""
    former = {part: part.training for part in model.modules()} if isinstance(model, nn.Module) else {}
    if isinstance(model, nn.Module):
        model.eval()
    try:
        yield
    finally:
        for part, training in former.items():
            part.training = training


@contextmanager
def _bar(total: int, wanted: bool) -> Iterator[Callable[[int], None]]:
    """A progress bar over sentences on standard error, if `wanted` and if that is a terminal."""
    if not (wanted and total and sys.stderr.isatty()):
        yield lambda count: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = [TextColumn("translating"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()]
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=total)
        yield lambda count: bar.advance(task, count)
