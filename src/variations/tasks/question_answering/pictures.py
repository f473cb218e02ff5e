"""The weight of each sentence in each hop, as in Figure 2 of the MemN2N paper and the tables of the DMN paper."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from variations.system.errors import UserError

SHORTEST, LONGEST = 3, 12
"""Smallest and largest number of sentences in memory of a question that is drawn by default."""
SHOWN = 0.005
"""Weights below this are not printed in their cells."""
WORDS = {
    "source": "question",
    "target": "answer",
    "looking": "sentences of the story, the oldest first",
    "looked_at": "weight of each sentence in each hop",
}
"""The dashboard's names for the two texts of an item and for the two axes."""
NOTE = (
    "Dots mark supporting facts. The weights of a hop sum to at most 1, except in a DMN with model.episode=gru, and in "
    "a MemN2N whose training ended within its linear start, which has no softmax; those may be negative."
)


@dataclass(frozen=True)
class Reading:
    """A test question, its answers, and the weights of each hop."""

    sentences: Sequence[str]
    """The memory, oldest first."""
    question: str
    answer: str
    told: str
    """The network's answer."""
    supports: Sequence[int]
    """Indices of `sentences` that support the answer."""
    reads: Sequence[Sequence[float]]
    """For each hop, the weight of each sentence."""


def readings(
    network: Any, groups: Sequence[Any], chosen: Mapping[str, int], asked: Sequence[str] = (), each: int = 3
) -> Iterator[tuple[str, Reading]]:
    """Readings of test questions by the reported restarts, by task and question: `2-17`, counted from 1.

    There are none of a network that gives sentences no weights.

    Args:
        network: the run's networks.
        groups: its questions.
        chosen: the reported restart of each group.
        asked: as for `selected`.
        each: as for `selected`.

    Raises:
        UserError: there is no such question.
    """
    tests = {task: (group, data) for group in groups for task, data in group.tests.items()}
    for task, at in selected(groups, asked, each):
        group, data = tests[task]
        found = reading(network.reader(group.name), group.vocabulary, data, at - 1, chosen.get(group.name, 0))
        if found.reads:
            yield f"{task}-{at}", found


def selected(groups: Sequence[Any], asked: Sequence[str] = (), each: int = 3) -> list[tuple[int, int]]:
    """Task and number, from 1, of the test questions to be drawn.

    Args:
        groups: the questions.
        asked: names of questions, such as `2-17`; empty: of each task, the first `each` questions with a short story.
        each: questions per task.

    Raises:
        UserError: there is no such question.
    """
    tests = {str(task): data for group in groups for task, data in group.tests.items()}
    numbers: list[tuple[int, int]] = []
    for name in asked:
        task, _, number = name.partition("-")
        if task not in tests or not (number.isascii() and number.isdigit() and 1 <= int(number) <= len(tests[task])):
            known = ", ".join(f"{known}-1 to {known}-{len(data)}" for known, data in tests.items())
            raise UserError(f"There is no test question {name}. Valid: {known}.")
        numbers.append((int(task), int(number)))
    if not asked:
        for task, data in tests.items():
            short = [at for at, count in enumerate(data.count.tolist(), 1) if SHORTEST <= count <= LONGEST]
            numbers += [(int(task), number) for number in short[:each]]
    return numbers


def reading(net: Any, vocabulary: Any, data: Any, question: int, restart: int) -> Reading:
    """The reading of a question of `data` by a restart of `net`.

    Raises:
        UserError: there is no such question.
    """
    import torch

    from variations.tasks.question_answering.batching import gather
    from variations.tasks.question_answering.encoding import without_ngrams

    if not 0 <= question < len(data):
        raise UserError(f"There is no question {question}: the test has questions 0 to {len(data) - 1}.")
    restarts = len(next(net.parameters()))
    with torch.no_grad():
        stories = gather(data, torch.full((restarts, 1), question))
        scores, reads = net(stories)

    def text(words: Any) -> str:
        features = tuple(vocabulary.words[word] for word in words.tolist() if word)
        return " ".join(without_ngrams(features, vocabulary.ngrams))

    n = stories.n
    return Reading(
        sentences=[text(words) for words in stories.sentences[:n].flip(0)],
        question=text(stories.questions[restart, 0]) + "?",
        answer=text(stories.answers[restart]),
        told=vocabulary.words[told] if (told := int(scores[restart, 0].argmax())) < len(vocabulary) else "",
        supports=[n - slot for slot in stories.supports[restart, 0].tolist() if slot > 0],
        reads=[read[restart, 0].flip(0).tolist() for read in reads],
    )


def heat_map(found: Reading) -> Any:
    """A figure of weights, sentences by hops, to be drawn within `canvas.style`; dots mark supporting facts."""
    from variations.figures.canvas import new

    hops, sentences = len(found.reads), len(found.sentences)
    figure, (axes,) = new(4.6 + 0.55 * hops, 0.9 + 0.22 * sentences)
    shares = [share for read in found.reads for share in read]
    least, most = min([0.0, *shares]), max([1.0, *shares])
    image = axes.imshow(list(zip(*found.reads, strict=True)), cmap="Blues", vmin=least, vmax=most, aspect="auto")
    axes.set_xticks(range(hops), [f"hop {hop}" for hop in range(1, hops + 1)])
    marked = [f"● {sentence}" if at in found.supports else sentence for at, sentence in enumerate(found.sentences)]
    axes.set_yticks(range(sentences), marked)
    axes.tick_params(length=0)
    for hop, read in enumerate(found.reads):
        for at, share in enumerate(read):
            if abs(share) >= SHOWN:
                ink = "white" if share - least > 0.6 * (most - least) else "black"
                axes.text(hop, at, f"{share:.2f}", ha="center", va="center", fontsize=8, color=ink)
    verdict = "" if found.told == found.answer else f" (answered: {found.told})"
    figure.suptitle(f"{found.question} {found.answer}{verdict}", fontsize=10)
    figure.colorbar(image, ax=axes, label="weight")
    return figure


def stored(readings: Mapping[str, Reading]) -> dict[str, Any]:
    """Readings by name in the format of attention.json: one item each, sentences by hops."""
    sentences = []
    for name, found in readings.items():
        rows = [[round(share, 3) for share in row] for row in zip(*found.reads, strict=True)]
        label = f"task {name.partition('-')[0]}, question {name.partition('-')[2]}"
        layer = {"name": "hops", "label": label, "kind": "cross", "heads": 1, "queries": "source", "keys": "target"}
        sentences.append(
            {
                "source": found.question,
                "target": found.told if found.told == found.answer else f"{found.told} (correct: {found.answer})",
                "source_tokens": [
                    f"● {sentence}" if at in found.supports else sentence for at, sentence in enumerate(found.sentences)
                ],
                "target_tokens": [f"hop {hop}" for hop in range(1, len(found.reads) + 1)],
                "before_tokens": [],
                "layers": [layer | {"weights": [rows]}],
            }
        )
    return {"schema": 1, "sentences": sentences, "words": WORDS, "note": NOTE}
