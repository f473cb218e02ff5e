"""A third-party network answers questions: trained, tested, and loaded from its run."""

from pathlib import Path
from typing import Any

import pytest
import torch

from variations.commands.run import execute
from variations.configuration.compose import compose_run
from variations.configuration.faults import faults
from variations.store.ledger import RunFolder
from variations.system.errors import UserError
from variations.tasks.question_answering.encoding import Vocabulary
from variations.tasks.question_answering.networks import build
from variations.tasks.question_answering.task import TASK

MODULE = '''
from dataclasses import dataclass

import torch
from torch import nn

from variations.configuration.foreign import options_of
from variations.configuration.schema import number
from variations.models.memory.base import Reader, initialise


class Last(Reader):
    """Answers from the words of the newest sentence."""

    @dataclass
    class Options:
        width: int = number(8, ge=1)

    def __init__(self, words, width, seeds):
        super().__init__()
        self.embedding = nn.Parameter(torch.empty(len(seeds), words, width))
        self.output = nn.Parameter(torch.empty(len(seeds), width, words))
        initialise(self, seeds)

    @classmethod
    def from_config(cls, config, words, memory, longest, seeds):
        return cls(words, options_of(cls, config.options).width, seeds)

    def forward(self, stories):
        newest = stories.spread(stories.sentences)[:, :, 0]  # (R, B, J)
        R, B, J = newest.shape
        index = newest.reshape(R, B * J, 1).expand(-1, -1, self.embedding.shape[-1])
        return self.embedding.gather(1, index).view(R, B, J, -1).sum(2) @ self.output, []


class Running(Last):
    """Counts its batches of training."""

    def __init__(self, words, width, seeds):
        super().__init__(words, width, seeds)
        self.register_buffer("seen", torch.zeros(len(seeds)))

    def forward(self, stories):
        if self.training:
            self.seen += 1
        return super().forward(stories)


class Wide(Last):
    """Has a layer without the axis of restarts."""

    def __init__(self, words, width, seeds):
        super().__init__(words, width, seeds)
        self.layer = nn.Linear(width, width)


class Flat(Last):
    """Forgets the restarts."""

    def forward(self, stories):
        scores, reads = super().forward(stories)
        return scores[0], reads


class Alone(Last):
    """Returns no weights."""

    def forward(self, stories):
        return super().forward(stories)[0]


class Mixed(Last):
    """Adds what all restarts say."""

    def forward(self, stories):
        scores, reads = super().forward(stories)
        return scores + scores.sum(0), reads


class Scalar(Last):
    def loss(self, stories):
        return super().loss(stories).sum()


class Broken(Last):
    def forward(self, stories):
        return stories.nothing


class Unfinished(Reader):
    def forward(self, stories):
        return None


class NoReader:
    pass
'''


@pytest.fixture(autouse=True)
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "their_networks.py").write_text(MODULE, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)


@pytest.mark.slow
def test_it_is_trained_tested_and_loaded(tmp_path: Path) -> None:
    words = ["model.kind=their_networks:Last", "model.options.width=4", "model.restarts=2", "data.tasks=[1]"]
    short = ["trainer.max_steps=20", "trainer.val_every=10", "logger=none", "trainer.progress=false"]
    config = compose_run(["task=question_answering", *words, *short, f"runs={tmp_path}"])
    folder = RunFolder(execute(config))
    result = folder.result()
    assert result is not None and result["parameters"] > 0 and 0 <= result["scores"]["test"]["error"]["value"] <= 100
    assert folder.path.parent.name.startswith("Last-babi_toy-")  # without d20, a width that it lacks
    state = torch.load(next(folder.checkpoints.glob("*.ckpt")), weights_only=True)
    assert any(tuple(value.shape)[::2] == (2, 4) for value in state["state_dict"].values())  # (R, words, width)


@pytest.mark.slow
def test_only_training_changes_its_buffers(tmp_path: Path) -> None:
    """The check before training and the count of FLOPs, once in each process, also run the network."""
    words = ["model.kind=their_networks:Running", "model.restarts=2", "data.tasks=[1]"]
    short = ["trainer.max_steps=3", "trainer.val_every=3", "logger=none", "trainer.progress=false"]
    folder = RunFolder(execute(compose_run(["task=question_answering", *words, *short, f"runs={tmp_path}"])))
    state = torch.load(next(folder.checkpoints.glob("*.ckpt")), weights_only=True)["state_dict"]
    assert [value.tolist() for name, value in state.items() if name.endswith("seen")] == [[3.0, 3.0]]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Unfinished", "Unfinished does not define from_config"),
        ("NoReader", "their_networks:NoReader: lacks after_update, forward, from_config, loss: define all members of"),
    ],
)
def test_a_class_that_is_no_network_is_told(name: str, message: str) -> None:
    config = compose_run(["task=question_answering", f"model.kind=their_networks:{name}"])
    vocabulary = Vocabulary(words=("", "garden", "where"), longest=3, memory=2)
    with pytest.raises(UserError, match=message):
        build(config.model, vocabulary, [1])


def test_its_keys_are_checked_as_ours_are() -> None:
    wrong = ["model.options.width=0", "model.options.depth=2"]
    config = compose_run(["task=question_answering", "model.kind=their_networks:Last", *wrong])
    told = list(faults(config))
    assert "model.options.width=0: must be at least 1." in told
    assert "model.options.depth: Last has no such key. Did you mean 'width'? Its keys are width." in told


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "Wide",
            r"the shape of layer.weight is \(8, 8\), but the first axis of every parameter must be the restart, of",
        ),
        ("Flat", r"of shape \(3, 2, words\) for 3 restarts and 2 questions, and a list of weights. Its scores: shape "),
        ("Alone", "forward must return a pair: scores of the answers"),
        ("Mixed", "the first restart's loss depends on other restarts' weights"),
        ("Scalar", r"loss must have the shape \(3,\), one of each restart"),
        (
            "Broken",
            "cannot answer questions: AttributeError in .*their_networks.py, line .*: 'Stories' object has no att",
        ),
    ],
)
def test_what_a_network_must_do_is_checked_before_training(name: str, message: str) -> None:
    words = [f"model.kind=their_networks:{name}", "model.restarts=3", "data.tasks=[1]", "data.toy_questions=20"]
    config: Any = compose_run(["task=question_answering", *words])
    data = TASK.data(config)
    data.setup()
    with pytest.raises(UserError, match=message):
        TASK.experiment(config, data, "cpu")
