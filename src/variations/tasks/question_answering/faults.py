"""Combinations of keys that cannot work in a question-answering run."""

from variations.configuration.rules import Fault, Rules
from variations.tasks.question_answering.config import QuestionAnsweringConfig
from variations.tasks.question_answering.corpus import TASKS
from variations.tasks.question_answering.toy import STORIES

RULES = Rules()


@RULES.reads("data.kind", "data.tasks")
def _tasks(config: QuestionAnsweringConfig) -> list[Fault]:
    known = list(STORIES) if config.data.kind == "toy" else list(range(1, len(TASKS) + 1))
    valid = ", ".join(map(str, known)) if config.data.kind == "toy" else f"1 to {len(TASKS)}"
    faults = []
    if unknown := sorted(set(config.data.tasks) - set(known)):
        faults.append(f"data.tasks names {', '.join(map(str, unknown))}, but data={config.data.name} has only {valid}.")
    if not config.data.tasks:
        faults.append(f"data.tasks is empty: name some of {valid}.")
    if len(set(config.data.tasks)) < len(config.data.tasks):
        faults.append(f"data.tasks={config.data.tasks} names a task twice.")
    return [Fault(("data.tasks",), text) for text in faults]


@RULES.reads("model.kind", "model.d", "model.h")
def _heads(config: QuestionAnsweringConfig) -> list[Fault]:
    model = config.model
    if model.kind != "transformer" or model.d % model.h == 0:
        return []
    return [Fault(("model.d", "model.h"), f"model.d={model.d} is not a multiple of model.h={model.h} heads.")]


@RULES.reads("model.kind", "model.supervision", "model.facts")
def _weak(config: QuestionAnsweringConfig) -> list[Fault]:
    model = config.model
    if model.kind != "memnn" or model.supervision != "weak" or model.facts == 2:
        return []
    text = f"model.supervision=weak guesses exactly two facts, but model.facts={model.facts}: set model.facts=2."
    return [Fault(("model.supervision", "model.facts"), text)]


@RULES.reads("data.kind", "data.root")
def _generated(config: QuestionAnsweringConfig) -> list[Fault]:
    if config.data.kind != "toy" or config.data.root is None:
        return []
    text = (
        f"data={config.data.name} generates its stories, and reads none from data.root: set data=babi, or leave it out."
    )
    return [Fault(("data.root",), text)]


@RULES.reads("model.kind", "recipe.noise")
def _noise(config: QuestionAnsweringConfig) -> list[Fault]:
    if config.model.kind not in ("lstm", "dmn", "memnn") or not config.recipe.noise:
        return []
    if config.model.kind == "memnn":
        text = "recipe.noise changes times, of which model=memnn reads only the order, which stays: set it to 0."
        return [Fault(("recipe.noise",), text)]
    text = f"recipe.noise inserts empty memories, which model={config.model.kind} does not have: set it to 0."
    return [Fault(("recipe.noise",), text)]


@RULES.reads("model.kind", "recipe.linear_epochs")
def _linear(config: QuestionAnsweringConfig) -> list[Fault]:
    if config.model.kind == "memn2n" or not config.recipe.linear_epochs:
        return []
    text = f"recipe.linear_epochs is the linear start of MemN2N; model={config.model.kind} has none: set it to 0."
    return [Fault(("recipe.linear_epochs",), text)]


@RULES.reads("model.kind", "trainer.precision")
def _precision(config: QuestionAnsweringConfig) -> list[Fault]:
    """Sparse products (memn2n) and scans that write float32 states in place (dmn, lstm) do not work in bf16."""
    if config.model.kind not in ("memn2n", "dmn", "lstm") or config.trainer.precision != "bf16-mixed":
        return []
    text = f"trainer.precision=bf16-mixed: model={config.model.kind} needs 32-true or 64-true."
    return [Fault(("trainer.precision", "model.kind"), text)]


@RULES.reads("trainer.devices", "trainer.nodes")
def _devices(config: QuestionAnsweringConfig) -> list[Fault]:
    if config.trainer.devices * config.trainer.nodes == 1:
        return []
    return [Fault(("trainer.devices",), "Restarts are trained on one device: set trainer.devices=1 trainer.nodes=1.")]


@RULES.reads("debug.overfit_batches")
def _overfit(config: QuestionAnsweringConfig) -> list[Fault]:
    if not config.debug.overfit_batches:
        return []
    text = "debug.overfit_batches (debug=overfit) is for task=translation and task=parsing: leave it out."
    return [Fault(("debug.overfit_batches",), text)]
