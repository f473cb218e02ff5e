"""Which sentence each hop reads, as in the MemN2N paper's Figure 2 and the DMN paper's tables: story × hop."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from variations.errors import UserError

LONGEST = 12
"""Sentences of a story that is drawn unasked."""


@dataclass(frozen=True)
class Reading:
    """A question of a test, how it was answered, and what was read for it."""

    sentences: Sequence[str]
    """The memory, oldest first."""
    question: str
    answer: str
    told: str
    """The network's answer."""
    supports: Sequence[int]
    """Of `sentences`, which support the answer."""
    reads: Sequence[Sequence[float]]
    """For each hop how much it reads of each sentence."""


def reading(net: Any, vocabulary: Any, data: Any, question: int, restart: int) -> Reading:
    """What a restart of `net` reads for a question of `data`.

    Raises:
        UserError: there is no such question.
    """
    import torch

    from variations.tasks.question_answering.batching import gather

    if not 0 <= question < len(data):
        raise UserError(f"There is no question {question}: the test has questions 0 to {len(data) - 1}.")
    restarts = len(next(net.parameters()))
    with torch.no_grad():
        stories = gather(data, torch.full((restarts, 1), question))
        scores, reads = net(stories)

    def text(words: Any) -> str:
        return " ".join(vocabulary.words[word] for word in words.tolist() if word)

    n = stories.n
    return Reading(
        sentences=[text(words) for words in stories.sentences[:n].flip(0)],
        question=text(stories.questions[restart, 0]) + "?",
        answer=text(stories.answers[restart]),
        told=vocabulary.words[told] if (told := int(scores[restart, 0].argmax())) < len(vocabulary) else "",
        supports=[n - slot for slot in stories.supports[restart, 0].tolist() if slot],
        reads=[read[restart, 0].flip(0).tolist() for read in reads],
    )


def draw(found: Reading, path: Path) -> Path:
    """A heat map of the story's sentences by hops, in a PNG or SVG file; supporting facts bear a dot."""
    from variations.figures.canvas import save, style

    with style():
        from matplotlib.figure import Figure

        hops = len(found.reads)
        figure = Figure(figsize=(5.0 + 0.5 * hops, 1.2 + 0.24 * len(found.sentences)), layout="constrained")
        axes = figure.subplots()
        image = axes.imshow(list(zip(*found.reads, strict=True)), cmap="Blues", vmin=0, vmax=1, aspect="auto")
        axes.set_xticks(range(hops), [f"hop {hop}" for hop in range(1, hops + 1)])
        marked = [f"● {sentence}" if at in found.supports else sentence for at, sentence in enumerate(found.sentences)]
        axes.set_yticks(range(len(marked)), marked)
        for hop, read in enumerate(found.reads):
            for at, share in enumerate(read):
                axes.text(hop, at, f"{share:.2f}", ha="center", va="center", color="white" if share > 0.6 else "black")
        verdict = "" if found.told == found.answer else f", told: {found.told}"
        axes.set_title(f"{found.question} {found.answer}{verdict}")
        figure.colorbar(image, ax=axes, label="how much is read")
        return save(figure, path)
