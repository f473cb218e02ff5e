"""The stories of a run as a Lightning data module: a group of questions for each network, and joint batches."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytorch_lightning as pl
import torch

from variations.models.memory.stories import Stories
from variations.store.atomic import write_json
from variations.store.ledger import RunFolder
from variations.system.errors import DataError
from variations.tasks.question_answering import corpus, toy
from variations.tasks.question_answering.batching import Draws
from variations.tasks.question_answering.config import DataConfig, QuestionAnsweringConfig
from variations.tasks.question_answering.corpus import Split
from variations.tasks.question_answering.download import download, is_downloaded, others
from variations.tasks.question_answering.encoding import Encoded, Vocabulary, encode
from variations.tasks.question_answering.measures import CARD

JOINT = "joint"
"""Name of the group of all tasks."""


@dataclass(frozen=True)
class Group:
    """The questions of one network: of one task, or of all."""

    name: str
    vocabulary: Vocabulary
    train: Encoded
    valid: Encoded
    tests: dict[int, Encoded]
    """By task."""


@dataclass  # not frozen: with trainer.precision=64-true, Lightning sets its fields
class Batch:
    """A batch for each group's network."""

    stories: dict[str, Stories]
    index: ClassVar[Sequence[int]] = ()
    """No items to name: each restart of each network has drawn its own."""

    def __len__(self) -> int:
        return sum(stories.answers.numel() for stories in self.stories.values())

    def to(self, device: torch.device | str) -> "Batch":
        """The batch on another device."""
        return Batch({name: stories.to(device) for name, stories in self.stories.items()})


class EpochBatches:
    """The batches of successive epochs, each epoch drawn with its own seeds; the state is the position among them.

    An iteration goes on where the last one was left, so that a part of an epoch (`limit_train_batches`) is followed by
    the next part, in a continued run as well.
    """

    def __init__(self, config: QuestionAnsweringConfig, groups: list[Group]) -> None:
        self.config, self.groups = config, groups
        self._position = (0, 0)

    def __len__(self) -> int:
        """Number of batches in an epoch: as many as the largest group fills."""
        return max(1, max(len(group.train) for group in self.groups) // self.config.recipe.batch_size)

    def __iter__(self) -> Iterator[Batch]:
        epoch, done = self._position
        if done == len(self):
            epoch, done = epoch + 1, 0
        drawn = {group.name: self._draw(group, epoch) for group in self.groups}
        for number in range(done, len(self)):
            self._position = (epoch, number + 1)  # before the yield: Lightning counts, and does not ask for another
            yield Batch({name: draws.batch(number) for name, draws in drawn.items()})

    def _draw(self, group: Group, epoch: int) -> Draws:
        recipe = self.config.recipe
        seeds = seeds_of(self.config, group.name, "batches", epoch)
        return Draws(group.train, group.vocabulary.memory, len(self), recipe.batch_size, recipe.noise, seeds)

    def state_dict(self) -> dict[str, int]:
        """The epoch, and the number of its batches that were yielded."""
        return {"epoch": self._position[0], "batches": self._position[1]}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Continue after the batches that were yielded."""
        self._position = (state["epoch"], state["batches"])


class QuestionAnsweringData(pl.LightningDataModule):
    """The questions of all groups.

    Attributes (after `setup`):
        groups: one for each network.
    """

    groups: list[Group]
    accumulate = 1

    def __init__(self, config: QuestionAnsweringConfig) -> None:
        super().__init__()
        self.config = config
        self._ready = False
        self._batches: EpochBatches | None = None
        self.not_of_babi: list[int] = []
        """Tasks whose stories have the names of bAbI's files, but are others; known after `keep_facts`."""

    def prepare_data(self) -> None:
        """Download bAbI if no folder is named and it has not been downloaded yet."""
        if self.config.data.kind == "babi":
            root_of(self.config.data)

    def setup(self, stage: str | None = None) -> None:
        """Read or generate the stories; `stage` is not used."""
        if self._ready:
            return
        data = self.config.data
        self._read = fingerprint(data)
        splits = load(data)
        parts = [(JOINT, splits)] if data.joint else [(str(split.task), [split]) for split in splits]
        self.groups = [_group(name, part, data) for name, part in parts]
        if not any(len(group.valid) for group in self.groups):
            count = sum(len(split.train) for split in splits)
            raise DataError(
                f"No question is left for validation: data.valid={data.valid} of {count} training questions is less "
                "than one question of any task. Set a larger data.valid, or use a larger corpus."
            )
        self._ready = True

    @property
    def sampler(self) -> EpochBatches:
        """The training batches."""
        if self._batches is None:
            self._batches = EpochBatches(self.config, self.groups)
        return self._batches

    def train_dataloader(self) -> EpochBatches:
        """Training batches; their state is the position in the epoch."""
        return self.sampler

    def batches(self) -> int:
        """Number of training batches in an epoch."""
        return len(self.sampler)

    def keep_facts(self, folder: RunFolder) -> dict[str, str]:
        """Store the vocabularies with the run, and return the fingerprint of its files."""
        data = self.config.data
        told = fingerprint(data)
        if told != self._read:
            raise DataError(f"The stories in {root_of(data)} changed while this run read them: run the command again.")
        if data.kind == "babi":
            self.not_of_babi = others(root_of(data), data.tasks, data.questions)
        card = {
            "fingerprint": told,
            "groups": {
                group.name: {
                    "words": group.vocabulary.words,
                    "longest": group.vocabulary.longest,
                    "memory": group.vocabulary.memory,
                    "ngrams": group.vocabulary.ngrams,
                    "tasks": sorted(group.tests),
                }
                for group in self.groups
            },
        }
        write_json(folder.path / CARD, card)
        return {"stories": told}


def load(data: DataConfig) -> list[Split]:
    """The tasks' questions.

    Raises:
        UserError: a download failed, or a task does not exist.
        DataError: files are missing or malformed.
    """
    if data.kind == "toy":
        count = data.toy_questions
        return [toy.generate(task, count, count, data.valid, data.seed) for task in data.tasks]
    return corpus.load(root_of(data), data.tasks, data.questions, data.valid, data.seed)


def fingerprint(data: DataConfig) -> str:
    """The fingerprint of the questions. Raises DataError if a file is missing."""
    if data.kind == "toy":
        return f"toy stories {data.seed} {data.toy_questions} {data.tasks}"
    return corpus.fingerprint(root_of(data), data.tasks, data.questions)


def is_present(data: DataConfig) -> bool:
    """Whether the stories are here; a download would have those of bAbI 1.2."""
    return data.kind == "toy" or data.root is not None or is_downloaded(Path(data.cache).expanduser(), data.questions)


def root_of(data: DataConfig) -> Path:
    """The folder with `en` and `en-10k`: `data.root` if it is set, else the downloaded one."""
    if data.root is not None:
        return Path(data.root).expanduser()
    return download(Path(data.cache).expanduser(), data.questions)


def seeds_of(config: QuestionAnsweringConfig, group: str, purpose: str, epoch: int = 0) -> list[int]:
    """Seeds of the restarts: each depends on the run's seed and its own number, not on the number of restarts."""
    purposes = {"weights": 0, "batches": 1}
    number = 0 if group == JOINT else int(group)
    words = [[config.seed, number, restart, purposes[purpose], epoch] for restart in range(config.model.restarts)]
    return [int(np.random.SeedSequence(word).generate_state(1, np.uint32)[0]) for word in words]


def _group(name: str, splits: list[Split], data: DataConfig) -> Group:
    questions = [q for split in splits for q in (*split.train, *split.valid, *split.test)]
    vocabulary = Vocabulary.build(questions, data.memory, data.ngrams)
    train = encode([question for split in splits for question in split.train], vocabulary)
    if len(train) == 0:
        raise DataError(f"No training questions are left: data.valid={data.valid} holds all of them out.")
    valid = encode([question for split in splits for question in split.valid], vocabulary)
    return Group(name, vocabulary, train, valid, {split.task: encode(split.test, vocabulary) for split in splits})


def vocabulary_of(card: dict[str, Any], group: str) -> Vocabulary:
    """A group's vocabulary from a run's card."""
    kept = card["groups"][group]
    return Vocabulary(tuple(kept["words"]), kept["longest"], kept["memory"], kept["ngrams"])
