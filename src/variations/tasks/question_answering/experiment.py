"""Networks that answer questions: R restarts side by side, for each task or for all tasks jointly."""

import functools
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from variations.models.memory.memn2n import MemN2N
from variations.store.atomic import json_text, write_text
from variations.store.ledger import RunFolder
from variations.tasks.base import Experiment, ParameterGroup, Place
from variations.tasks.question_answering import measures
from variations.tasks.question_answering.batching import gather
from variations.tasks.question_answering.config import QuestionAnsweringConfig
from variations.tasks.question_answering.data import Batch, Group, QuestionAnsweringData, seeds_of
from variations.tasks.question_answering.measures import ranked
from variations.tasks.question_answering.networks import Networks, buffers_kept, build, check
from variations.tasks.question_answering.pictures import readings, stored
from variations.tasks.question_answering.training import answers, clip, is_linear, rate


def _in_place(total: Any, a: tuple[int, int, int], b: tuple[int, int, int], **_: Any) -> int:
    """FLOPs of `total.baddbmm_(a, b)`, from the shapes (N, m, k) and (N, k, n)."""
    return 2 * a[0] * a[1] * a[2] * b[2]


IN_PLACE = {torch.ops.aten.baddbmm_: _in_place}
"""Products of the backward recurrence (`memory.scan`), which torch's counter does not know."""


class QuestionAnsweringExperiment(Experiment):
    """The networks, their losses and their tests (see `tasks/base.py` for each member).

    Args:
        config: The run's configuration.
        data: Its questions, after `setup`.
    """

    def __init__(self, config: QuestionAnsweringConfig, data: QuestionAnsweringData) -> None:
        self.config, self.data = config, data
        self.restarts = config.model.restarts
        self.network = Networks(
            {g.name: build(config.model, g.vocabulary, seeds_of(config, g.name, "weights")) for g in data.groups}
        )
        if ":" in config.model.kind:
            for group in data.groups:
                index = torch.arange(min(2, len(group.train))).expand(self.restarts, -1)
                check(self.network.reader(group.name), config.model.kind, gather(group.train, index))
        if config.trainer.precision == "64-true":
            self.network.double()
        self.batches = data.batches()
        self._dev_scores: list[float] = []
        self._start_linearly(0)

    def parameter_groups(self) -> list[ParameterGroup]:
        """All weights, under the recipe's rate."""
        rated = functools.partial(rate, batches=self.batches, recipe=self.config.recipe)
        return [ParameterGroup("weights", list(self.network.parameters()), rated)]

    def losses(self, batch: Batch) -> tuple[Tensor]:
        """The loss, summed over questions, restarts and groups."""
        return (torch.stack([self.network.reader(name).loss(s).sum() for name, s in batch.stories.items()]).sum(),)

    def count(self, batch: Batch) -> list[int]:
        """Numbers of questions and sentences, and FLOPs of the matrix products."""
        sentences = sum(len(stories.place) for stories in batch.stories.values())
        return [len(batch), sentences, self.flops_per_question * len(batch)]

    @functools.cached_property
    def flops_per_question(self) -> int:
        """FLOPs of a training step per question, counted on each group's first questions; no look-ups or sums."""
        size, total = self.config.recipe.batch_size, 0
        for group in self.data.groups:
            index = torch.arange(min(size, len(group.train))).expand(self.restarts, -1)
            net = self.network.reader(group.name)
            with FlopCounterMode(display=False, custom_mapping=IN_PLACE) as counter, buffers_kept(net):
                loss = net.loss(gather(group.train, index)).sum()
                torch.autograd.grad(loss, list(net.parameters()), allow_unused=True)
            total += counter.get_total_flops() // index.numel()
        return total // len(self.data.groups)

    def size(self, batch: Batch) -> str:
        """`50 sentences of 12 words`."""
        stories = list(batch.stories.values())
        return f"{max(s.n for s in stories)} sentences of {max(s.sentences.shape[1] for s in stories)} words"

    def halves(self, batch: Batch) -> tuple[Batch, Batch]:
        """The first half of each network's questions, and the second; networks without a question are left out."""
        both = {name: stories.halves() for name, stories in batch.stories.items()}
        first, second = (
            {name: pair[half] for name, pair in both.items() if pair[half].answers.numel()} for half in (0, 1)
        )
        return Batch(first), Batch(second)

    def before_update(self, units: int) -> None:
        """Turn the gradient, a mean over the update's questions, into each network's sum, and clip its norm."""
        gradients = [parameter.grad for parameter in self.network.parameters() if parameter.grad is not None]
        torch._foreach_mul_(gradients, units)
        for net in self.network.values():
            clip(list(net.parameters()), self.config.recipe.norm)

    def after_update(self, step: int) -> None:
        """Reset the vectors of the empty word to 0, and end the linear start when it is due."""
        for name in self.network:
            self.network.reader(name).after_update()
        self._start_linearly(step)

    def _start_linearly(self, done: int) -> None:
        linear = is_linear(done, self.batches, self.config.recipe)
        for net in self.network.values():
            if isinstance(net, MemN2N):
                net.linear.fill_(linear)

    def validate(self, place: Place) -> dict[str, float]:
        """Loss in nats and error in percent on the held-out questions, mean over groups and restarts.

        As in the papers' mean error, all tasks count alike, also those with fewer questions.
        """
        losses, wrong = [], []
        for group in self.data.groups:
            if len(group.valid):
                told, loss = answers(self.network.reader(group.name), group.valid, self.restarts)
                losses.append(loss.mean().item())
                wrong.append((told != group.valid.answers).double().mean(0))
        self._dev_scores = torch.cat(wrong).mul(-100).tolist()
        return {"dev/loss": float(np.mean(losses)), "dev/error": 100 * float(np.mean([w.mean() for w in wrong]))}

    def dev_scores(self) -> list[float]:
        """Minus the percentage of restarts that answered each held-out question incorrectly."""
        return self._dev_scores

    def test(self, folder: RunFolder, place: Place) -> dict[str, Any]:
        """Errors of each task for the restart with the lowest training error; answers of all restarts are stored."""
        found = [self._test(group) for group in self.data.groups]
        tested = [item for group in found for item in group.pop("tasks")]
        chosen = {group["name"]: group for group in found}
        arrays = {f"wrong_{task}": wrong.numpy() for task, wrong, _ in tested}
        chosen_of = {task: chosen[name]["chosen"] for task, _, name in tested}
        measures.keep(folder, arrays, chosen_of)
        scores = measures.scores({task: wrong.numpy() for task, wrong, _ in tested}, chosen_of)
        of_group = {name: group["chosen"] for name, group in chosen.items()}
        read = dict(readings(self.network, self.data.groups, of_group))
        if read:
            write_text(folder.path / "attention.json", json_text(stored(read), indent=None) + "\n")
        dev = self.validate(place)
        return {
            "scores": {"test": scores},
            "loss": {"dev_nll": dev["dev/loss"]},
            "restarts": self.restarts,
            "networks": chosen,
        } | self._remarks()

    def _remarks(self) -> dict[str, Any]:
        found: dict[str, Any] = {"not_of_babi": self.data.not_of_babi} if self.data.not_of_babi else {}
        if any(isinstance(net, MemN2N) and bool(net.linear.any()) for net in self.network.values()):
            start = self.config.recipe.linear_epochs * self.batches
            found["remarks"] = [
                f"training ended within its linear start ({start:,} updates), so it was tested without the softmax "
                "over memories"
            ]
        return found

    def _test(self, group: Group) -> dict[str, Any]:
        """Training errors and losses of a group's restarts, and their mistakes (R, Q) in each test."""
        net = self.network.reader(group.name)
        told, losses = answers(net, group.train, self.restarts)
        errors = (told != group.train.answers).double().mean(1).mul(100).tolist()
        tasks = []
        for task, data in group.tests.items():
            told, _ = answers(net, data, self.restarts)
            tasks.append((task, told != data.answers, group.name))
        return {
            "name": group.name,
            "train_error": errors,
            "train_loss": losses.mean(1).tolist(),
            "chosen": ranked(errors, losses.mean(1).tolist())[0],
            "tasks": tasks,
        }
