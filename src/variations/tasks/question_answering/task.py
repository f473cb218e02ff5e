"""The task question answering. Importing it imports no torch."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from variations.configuration.rules import Fault, Rules, switched_off
from variations.configuration.schema import RunConfig
from variations.store.atomic import read_object
from variations.store.inputs import missing
from variations.store.ledger import RunFolder
from variations.system.errors import DataError, UserError
from variations.tasks.base import Asked, Recorded, Rehearsal, Size
from variations.tasks.question_answering.config import QuestionAnsweringConfig
from variations.tasks.question_answering.faults import RULES
from variations.tasks.question_answering.measures import CARD, Measures

if TYPE_CHECKING:
    from variations.tasks.question_answering.data import QuestionAnsweringData
    from variations.tasks.question_answering.experiment import QuestionAnsweringExperiment

OWN_KEYS = {
    "memn2n": ("hops", "code", "tying", "empty_slots"),
    "memnn": ("facts", "adaptive", "nonlinear", "margin", "ordered", "supervision"),
    "dmn": ("d_word", "passes", "episode", "distance", "products", "gate_weight"),
    "lstm": ("d_word",),
    "transformer": ("layers", "h"),
}
"""Keys of `model` that only some kinds have."""
OF_TASK = {"1k": 1000, "10k": 10_000}
"""Training questions of each bAbI task, validation included."""
ALWAYS_UNUSED = {
    **switched_off(
        ["trainer.limit_test", "trainer.limit_val_batches"],
        "task",
        "this task always uses its whole test and validation sets",
    ),
    **switched_off(
        ["recipe.schedule", "recipe.warmup"],
        "task",
        "in this task the rate is halved every recipe.halve_every epochs",
    ),
    **switched_off(["trainer.compile"], "task", "the networks of this task are not compiled"),
}
"""Keys that no run of this task reads, and why."""


class QuestionAnswering(Measures):
    """From a question about a story to its answer (see `tasks/task.py` for each member)."""

    name = "question_answering"
    schema: type[RunConfig] = QuestionAnsweringConfig
    rules: Rules = RULES
    symbols: Mapping[str, str] = {
        "model.kind": "model",
        "model.hops": "K",
        "model.passes": "T_M",
        "model.facts": "k",
        "recipe.linear_epochs": "LS",
        "recipe.noise": "RN",
        "data.name": "data",
    }

    losses: Sequence[str] = ("loss",)
    units: Sequence[str] = ("questions", "sentences", "flops")
    parameters_counted = "the sum over all networks and restarts of a run"
    flops_counted = (
        "counted on the first questions of each task: matrix products, 2 for each multiply-add, forward and "
        "backward pass"
    )
    loss_unit = "questions"
    monitor = "dev/loss"
    steadier = "lower recipe.lr (with recipe.linear_epochs, recipe.linear_lr) or recipe.norm"
    limited = False
    curves: Mapping[str, Recorded] = {
        "dev/error": Recorded("dev error, %, mean over networks and restarts"),
        "dev/loss": Recorded("dev loss, nats per question, mean over networks and restarts"),
        "train/loss": Recorded("training loss per question, mean over restarts (memnn: margins)"),
    }
    shown: Mapping[str, str] = {"dev/loss": "dev loss {:.3f}", "dev/error": "dev error {:.1f} %"}

    def without_effect(self, flat: Mapping[str, Any]) -> Mapping[str, Fault]:
        """Keys that the network, the stories, the optimiser and its rate, or this task do not read."""
        kind, off = str(flat.get("model.kind")), {**ALWAYS_UNUSED, **super().without_effect(flat)}
        for key in dict.fromkeys(key for keys in OWN_KEYS.values() for key in keys):
            owners = [owner for owner, keys in OWN_KEYS.items() if key in keys]
            if kind not in owners and ":" not in kind:  # a class of another package may read any of them
                reason = f"model={kind} does not have it: it is a key of {', '.join(owners)}"
                off |= switched_off([f"model.{key}"], "model.kind", reason)
        if kind == "memnn" and flat.get("model.facts") == 1:
            off |= switched_off(["model.ordered"], "model.facts", "model.facts=1 retrieves a single fact")
        if flat.get("data.kind") == "babi":
            off |= switched_off(["data.toy_questions"], "data.kind", "it is a key of data.kind=toy")
        else:
            off |= switched_off(["data.questions"], "data.kind", "it is a key of data.kind=babi")
        if flat.get("recipe.linear_epochs"):
            reason = "with recipe.linear_epochs, the rate starts at recipe.linear_lr"
            return off | switched_off(["recipe.lr"], "recipe.linear_epochs", reason)
        reason = "it is the rate with recipe.linear_epochs"
        return off | switched_off(["recipe.linear_lr"], "recipe.linear_epochs", reason)

    def foreseen(self, config: QuestionAnsweringConfig) -> list[str]:
        """That training ends within the linear start, except in quick checks, which make few updates on purpose."""
        start = config.recipe.linear_epochs * updates_of_epoch(config)
        if config.debug.name or not start or config.trainer.max_steps > start:
            return []
        return [
            f"training ends within the linear start ({start:,} updates), so no network learns with the softmax over "
            "memories: raise trainer.max_steps, or lower recipe.linear_epochs"
        ]

    def label(self, config: QuestionAnsweringConfig) -> list[str]:
        """`["memn2n", "d20", "babi"]`; a network of another package: the class, `["MyReader", "babi"]`."""
        model = config.model
        return [model.kind.rpartition(":")[2], *([] if ":" in model.kind else [f"d{model.d}"]), config.data.name]

    def unusable_files(self, configs: Sequence[QuestionAnsweringConfig]) -> list[Fault]:
        """Files of bAbI that a run needs and that are missing, each reported once."""
        from variations.tasks.question_answering.corpus import path_of

        found: dict[str, Fault] = {}
        for data in (config.data for config in configs):
            if data.kind != "babi" or data.root is None or not Path(data.root).expanduser().is_dir():
                continue
            for task in data.tasks:
                for part in ("train", "test"):
                    try:
                        path_of(Path(data.root).expanduser(), task, data.questions, part, data.tasks)
                    except DataError as error:
                        found[str(error)] = Fault(("data.root", "data.tasks", "data.questions"), str(error))
        return list(found.values())

    def data(self, config: QuestionAnsweringConfig) -> "QuestionAnsweringData":
        """The stories with their vocabularies."""
        from variations.tasks.question_answering.data import QuestionAnsweringData

        return QuestionAnsweringData(config)

    def experiment(self, config: QuestionAnsweringConfig, data: Any, device: str) -> "QuestionAnsweringExperiment":
        """The restarts of each task's network, or of one for all tasks."""
        from variations.tasks.question_answering.experiment import QuestionAnsweringExperiment

        return QuestionAnsweringExperiment(config, data)

    def network(self, config: QuestionAnsweringConfig, folder: RunFolder) -> Any:
        """The networks for the run's own vocabularies."""
        from variations.tasks.question_answering.data import vocabulary_of
        from variations.tasks.question_answering.networks import Networks, build

        card = _card(folder)
        seeds = list(range(config.model.restarts))
        return Networks({name: build(config.model, vocabulary_of(card, name), seeds) for name in card["groups"]})

    def changed_inputs(self, config: QuestionAnsweringConfig, folder: RunFolder) -> list[str]:
        """Whether the stories are still those of the run."""
        from variations.tasks.question_answering.data import fingerprint, is_present

        if not (folder.path / CARD).is_file():
            return []
        if folder.finished() and not is_present(config.data):  # a look downloads nothing
            other = self.misnamed(folder.result() or {})
            return [f"The stories are no longer the run's: {other}."] if other else []
        try:
            same = fingerprint(config.data) == _card(folder)["fingerprint"]
        except DataError as error:
            return [str(error)]
        return (
            [] if same else [f"The stories in data.root={config.data.root} are not those that the run was trained on."]
        )

    def totals(self, counted: Mapping[str, float]) -> dict[str, Any]:
        """Mean number of sentences in a question's memory."""
        return {"sentences_per_question": counted["sentences"] / max(1, counted["questions"])}

    def pictures(self, folder: RunFolder, experiment: Any) -> Mapping[str, Path]:
        """The weights of each hop for the first test question of each task that has a short story."""
        from variations.figures.canvas import save, style
        from variations.tasks.question_answering.pictures import heat_map, readings

        chosen = {name: net["chosen"] for name, net in ((folder.result() or {}).get("networks") or {}).items()}
        with style():
            return {
                f"question {name}": save(heat_map(found), folder.path / "figures" / f"reading-{name}.png")
                for name, found in readings(experiment.network, experiment.data.groups, chosen, each=1)
            }

    def attended(
        self, folder: RunFolder, config: QuestionAnsweringConfig, network: Any, asked: Asked
    ) -> Iterator[tuple[str, Any]]:
        """The weights of each hop, sentences by hops; items are named by task and question, such as `2-17`."""
        from variations.tasks.question_answering.pictures import LONGEST, SHORTEST, heat_map, readings, selected

        data = self.data(config)
        data.setup()
        if not selected(data.groups, asked.items or []):
            raise UserError(
                f"There is nothing to draw: no test story has {SHORTEST} to {LONGEST} sentences in memory; name a "
                f"question, as in items=[{config.data.tasks[0]}-1]."
            )
        chosen = {name: net["chosen"] for name, net in ((folder.result() or {}).get("networks") or {}).items()}
        count = 0
        for name, found in readings(network, data.groups, chosen, asked.items or []):
            count += 1
            yield f"reading-{name}", heat_map(found)
        if not count:
            raise UserError(f"There is nothing to draw: model={config.model.kind} gives sentences no weights.")

    def needs_download(self, config: QuestionAnsweringConfig) -> bool:
        """Whether the questions are not on this machine yet."""
        from variations.tasks.question_answering.data import is_present

        return not is_present(config.data)

    def rehearsal(self, config: QuestionAnsweringConfig) -> Rehearsal:
        """The stories, whose words and lengths decide sizes and times, if they are on this machine.

        Raises:
            UserError: They are not; nothing is downloaded.
        """
        if self.needs_download(config):
            raise UserError(
                f"the {config.data.questions} questions of bAbI are not in data.cache={config.data.cache}, and a plan "
                "downloads nothing: start a run, which downloads them, or name a copy with data.root=DIR."
            )
        return Rehearsal(self.data(config))

    untimed: Sequence[str] = (
        "recipe.halve_every",
        "recipe.linear_epochs",
        "recipe.linear_lr",
        "recipe.norm",
        "model.margin",
        "model.gate_weight",
    )

    def size_remarks(self, tables: Mapping[str, Sequence[Size]]) -> list[str]:
        """Restarts, and where the FLOPs come from."""
        parameters = f"Parameters are {self.parameters_counted}."
        return [parameters, *super().size_remarks(tables)] if any(tables.values()) else []


def updates_of_epoch(config: QuestionAnsweringConfig) -> int:
    """Number of updates in an epoch, if each task has the number of training questions that its corpus should have."""
    data = config.data
    questions = OF_TASK[data.questions] if data.kind == "babi" else data.toy_questions
    kept = (questions - int(questions * data.valid)) * (len(data.tasks) if data.joint else 1)
    return max(1, kept // config.recipe.batch_size)


def _card(folder: RunFolder) -> dict[str, Any]:
    path = folder.path / CARD
    if not path.exists():
        raise missing(folder, CARD)
    card = read_object(path)
    if card is None or "fingerprint" not in card:
        raise DataError(f"{path} is damaged: restore it, or train the run again (force=true).")
    return card


TASK = QuestionAnswering()
