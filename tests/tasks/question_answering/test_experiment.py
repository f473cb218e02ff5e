"""Restarts side by side: each equals a single run, and an interrupted run resumes as if uninterrupted."""

import dataclasses
import json
import re
import signal
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from suite import sampled
from torch.utils.flop_counter import FlopCounterMode

from variations.commands.plan import PlanConfig, render
from variations.commands.run import execute
from variations.configuration.compose import compose_run, to_dict
from variations.configuration.faults import faults
from variations.models.memory.scan import GRUScan, LSTMScan
from variations.models.memory.stories import LOST
from variations.store.ledger import RunFolder
from variations.sweeping.jobs import expand
from variations.sweeping.outcomes import Outcome, idle_rows
from variations.system.errors import DataError, Interrupted, RunFailedError, UserError
from variations.tasks.base import Asked, TestedRun
from variations.tasks.question_answering.config import QuestionAnsweringConfig
from variations.tasks.question_answering.data import QuestionAnsweringData
from variations.tasks.question_answering.experiment import IN_PLACE, QuestionAnsweringExperiment
from variations.tasks.question_answering.pictures import Reading, heat_map, reading
from variations.tasks.question_answering.task import TASK, updates_of_epoch
from variations.tasks.question_answering.training import answers
from variations.training import checkpoints, memory
from variations.training.fit import fit
from variations.training.interrupt import Interrupt
from variations.training.loop import Loop
from variations.training.schedule import optimizer
from variations.training.weights import final_weights, load_network

TINY = ["task=question_answering", "data.tasks=[1,15]", "data.toy_questions=80", "model.d=6", "recipe.batch_size=16"]


def config(*overrides: str, restarts: int = 3) -> QuestionAnsweringConfig:
    composed: Any = compose_run([*TINY, *overrides])
    return dataclasses.replace(composed, model=dataclasses.replace(composed.model, restarts=restarts))


def trained(of: QuestionAnsweringConfig, updates: int) -> QuestionAnsweringExperiment:
    """Train as `Step` does: gradients are of the loss divided by the number of questions."""
    data = QuestionAnsweringData(of)
    data.setup()
    experiment = QuestionAnsweringExperiment(of, data)
    learner, rates = optimizer(experiment.parameter_groups(), of)
    batches = iter(data.train_dataloader())
    for step in range(1, updates + 1):
        batch = next(batches, None)
        if batch is None:
            batches = iter(data.train_dataloader())
            batch = next(batches)
        learner.zero_grad()
        (experiment.losses(batch)[0] / len(batch)).backward()
        experiment.before_update(len(batch))
        learner.step()
        rates.step()
        experiment.after_update(step)
    return experiment


@pytest.mark.slow
@pytest.mark.parametrize(
    "overrides",
    [
        ["recipe.linear_epochs=1", "recipe.noise=0.2", "recipe.norm=5"],
        ["model.code=paper", "model.tying=layer_wise", "model.empty_slots=masked", "data.joint=true"],
        ["model=memnn", "model.d=6", "recipe=weston2015", "recipe.batch_size=16"],
        [
            "model=memnn",
            "model.d=6",
            "recipe=weston2015",
            "recipe.batch_size=16",
            "model.supervision=weak",
            "model.facts=2",
        ],
        ["model=dmn", "model.d=6", "model.d_word=5", "recipe=readers_adam", "recipe.batch_size=16"],
    ],
    ids=["memn2n", "joint", "memnn", "weak", "dmn"],
)
def test_restarts_are_what_they_would_be_alone(overrides: list[str]) -> None:
    """The first of three restarts has the seeds of a single one; all are compared by omitting the last ones."""
    of = config("trainer.precision=64-true", *overrides)
    three = trained(of, 12)
    for restarts in (1, 2):
        fewer = trained(dataclasses.replace(of, model=dataclasses.replace(of.model, restarts=restarts)), 12)
        for many, few in zip(three.network.parameters(), fewer.network.parameters(), strict=True):
            torch.testing.assert_close(many[:restarts], few, atol=1e-6, rtol=0)
    weights = next(three.network.parameters())
    assert not torch.allclose(weights[0], weights[1])


@pytest.mark.slow
def test_a_validation_is_the_mean_over_networks_as_its_convention_says() -> None:
    of = config()
    data = QuestionAnsweringData(of)
    data.setup()
    second = data.groups[1]
    few = {name: getattr(second.valid, name)[:2] for name in ("end", "count", "questions", "answers", "supports")}
    data.groups[1] = dataclasses.replace(second, valid=dataclasses.replace(second.valid, **few))
    experiment = QuestionAnsweringExperiment(of, data)
    losses = [answers(experiment.network.reader(group.name), group.valid, 3)[1] for group in data.groups]
    assert [loss.shape for loss in losses] == [(3, 8), (3, 2)]
    found = experiment.validate(cast(Any, None))["dev/loss"]
    assert found == pytest.approx((losses[0].mean().item() + losses[1].mean().item()) / 2)
    assert found != pytest.approx(torch.cat(losses, 1).mean().item())
    assert "mean over networks (one for each task, or for all) and restarts" in str(TASK.measure("dev_nll").convention)


@pytest.mark.slow
def test_the_linear_start_ends() -> None:
    of = config("recipe.linear_epochs=2")
    data = QuestionAnsweringData(of)
    data.setup()
    assert data.batches() == 4
    assert all(bool(net.linear.all()) for net in trained(of, 7).network.values())
    assert not any(bool(net.linear.any()) for net in trained(of, 8).network.values())


def test_gradients_are_each_networks_own_sum() -> None:
    """The mean over all questions is converted back to the sum over one network's batch: the authors' loss."""
    of = config("recipe.norm=1e9", restarts=2)
    data = QuestionAnsweringData(of)
    data.setup()
    experiment = QuestionAnsweringExperiment(of, data)
    batch = next(iter(data.train_dataloader()))
    (experiment.losses(batch)[0] / len(batch)).backward()
    experiment.before_update(len(batch))
    net = experiment.network.reader("15")
    loss = net.loss(batch.stories["15"]).sum()
    wanted = torch.autograd.grad(loss, list(net.parameters()))
    for parameter, gradient in zip(net.parameters(), wanted, strict=True):
        torch.testing.assert_close(parameter.grad, gradient, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("facts", [1, 8])
def test_weak_supervision_has_a_rule_for_two_facts(facts: int) -> None:
    overrides = ["task=question_answering", "model=memnn", "model.supervision=weak"]
    text = f"model.supervision=weak guesses exactly two facts, but model.facts={facts}: set model.facts=2."
    assert text in faults(compose_run([*overrides, f"model.facts={facts}"]))
    assert not faults(compose_run([*overrides, "model.facts=2"]))


@pytest.mark.parametrize(("scan", "gates"), [(LSTMScan, 4), (GRUScan, 3)])
def test_all_products_of_a_recurrence_are_counted(scan: Any, gates: int) -> None:
    """Forward, for the gradient of U, and for that of all states but the first, which is 0."""
    T, R, B, d = 30, 2, 8, 50
    projected = torch.randn(T, R, B, gates * d, requires_grad=True)
    U = torch.randn(R, d, gates * d, requires_grad=True)
    with FlopCounterMode(display=False, custom_mapping=IN_PLACE) as counter:
        scan.apply(projected, U, [B] * T).sum().backward()
    assert counter.get_total_flops() == (3 * T - 1) * 2 * R * B * d * gates * d


@pytest.mark.slow
def test_a_guessed_fact_costs_as_much_as_a_true_one() -> None:
    def flops(supervision: str) -> int:
        of = config("model=memnn", "model.facts=2", f"model.supervision={supervision}", "recipe=weston2015")
        data = QuestionAnsweringData(of)
        data.setup()
        return QuestionAnsweringExperiment(of, data).flops_per_question

    assert flops("weak") == flops("strong") > 0


@pytest.mark.slow
def test_batches_go_on_from_any_place() -> None:
    of = config("recipe.noise=0.2")

    def data() -> QuestionAnsweringData:
        made = QuestionAnsweringData(of)
        made.setup()
        return made

    def times(batch: Any) -> list[list[int]]:
        return [stories.times.tolist() for stories in batch.stories.values()]

    loader = data().train_dataloader()
    whole = [times(batch) for _ in range(2) for batch in loader]
    assert len(whole) == 8
    assert whole[:4] != whole[4:]
    for place in range(1, 8):
        first = data().train_dataloader()
        batches = iter(first)
        for number in range(place):
            if number == 4:
                assert next(batches, None) is None
                batches = iter(first)
            next(batches)
        second = data().train_dataloader()
        second.load_state_dict(first.state_dict())
        rest = [times(batch) for batch in second]
        rest += [times(batch) for batch in second] if place < 4 else []
        assert rest == whole[place:]


def test_without_a_held_out_question_nothing_is_trained() -> None:
    """A loss over no question would be 0, which looks perfect."""
    with pytest.raises(DataError, match=r"No question is left for validation: data\.valid=0\.001 of \d+ training"):
        QuestionAnsweringData(config("data.valid=0.001")).setup()


@pytest.mark.slow
def test_a_run_from_end_to_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    overrides = ["trainer.max_steps=80", "trainer.val_every=40", "logger=none", "trainer.progress=false"]
    of = config(*overrides, "model.d=20", f"runs={tmp_path}")
    folder = RunFolder(execute(of))
    result = folder.result()
    assert result is not None
    scores = {name: entry["value"] for name, entry in result["scores"]["test"].items()}
    assert scores["error"] == pytest.approx((scores["task_1"] + scores["task_15"]) / 2)
    assert scores["task_1"] < 60  # six places: guessing is wrong five times out of six
    assert result["networks"]["1"]["chosen"] in range(3)
    measure = TASK.metric("error")
    assert measure.value(result) == scores["error"]
    items = TASK.items(TestedRun(folder, {}, {}), measure)
    assert items.shape == (160, 4)
    assert TASK.aggregate(measure, items.sum(0)) == pytest.approx(scores["error"])
    failed = TASK.metric("failed")
    assert TASK.aggregate(failed, TASK.items(TestedRun(folder, {}, {}), failed).sum(0)) == scores["failed"]
    card = json.loads((folder.path / "stories.json").read_text(encoding="utf-8"))
    assert card["groups"]["15"]["tasks"] == [15]
    assert TASK.changed_inputs(of, folder) == []
    babi = dataclasses.replace(of.data, kind="babi", root=None, cache=str(folder.path / "empty"))
    away = dataclasses.replace(of, data=babi)
    monkeypatch.setattr("variations.tasks.question_answering.data.download", None)  # a look downloads nothing
    assert TASK.changed_inputs(away, folder) == []
    folder.write_result({**(folder.result() or {}), "not_of_babi": [15]})
    (told,) = TASK.changed_inputs(away, folder)
    assert "the stories of task 15 in data.root were not those of bAbI 1.2" in told
    whole = (folder.path / "stories.json").read_text(encoding="utf-8")
    for damaged in ("{", "[]", "{}"):
        (folder.path / "stories.json").write_text(damaged, encoding="utf-8")
        (told,) = TASK.changed_inputs(of, folder)
        assert told.startswith(f"{folder.path}/stories.json is damaged: restore it")
    (folder.path / "stories.json").write_text(whole, encoding="utf-8")
    data = TASK.data(of)
    data.setup()
    drawn = TASK.pictures(folder, TASK.experiment(of, data, "cpu"))
    assert sorted(drawn) == ["question 1-2", "question 15-1"]  # per task, the first with at least three sentences
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in drawn.values())
    read = json.loads((folder.path / "attention.json").read_text(encoding="utf-8"))["sentences"]
    assert len(read) == 6  # three questions per task
    first = read[0]
    assert first["target_tokens"] == ["hop 1", "hop 2", "hop 3"]
    assert len(first["layers"][0]["weights"][0]) == len(first["source_tokens"])
    trained_network, _ = load_network(folder.path)
    shown = dict(TASK.attended(folder, of, trained_network, Asked(items=["15-2"])))
    assert list(shown) == ["reading-15-2"]
    with pytest.raises(UserError, match=r"no test question 15-81. Valid: 1-1 to 1-80, 15-1 to 15-80"):
        dict(TASK.attended(folder, of, trained_network, Asked(items=["15-81"])))
    network = TASK.network(of, folder)
    assert sum(p.numel() for p in network.parameters()) == result["parameters"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("places", "further"),
    sampled(
        [((4, 8), []), ((3,), []), ((4,), []), ((5,), []), ((3, 6), ["trainer.extra={limit_train_batches: 3}"])], 4
    ),
)
def test_an_interrupted_run_is_the_run_that_was_not(
    places: tuple[int, ...], further: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stop within an epoch, at its end, after the next one's first batch, and at two ends; each epoch has four batches.

    Where Lightning takes only three of them at a time, they follow one another as they would otherwise.
    """
    overrides = ["recipe.noise=0.2", "recipe.linear_epochs=1", "trainer.max_steps=10", "trainer.log_every=1"]
    of = config(*overrides, *further, "logger=none", "trainer.progress=false")
    folders = []
    for name in ("whole", "parts"):
        folders.append(RunFolder(tmp_path / name))
        folders[-1].create(to_dict(of))
    whole, parts = folders
    fit(of, whole, Interrupt())
    agree = Loop._agree
    for place in places:
        interrupt = Interrupt()

        def agree_then_stop(self: Loop, trainer: Any, task: Any, last: bool, at: int = place) -> bool:
            if trainer.global_step == at:
                self.interrupt.received = signal.SIGTERM
            return agree(self, trainer, task, last)

        monkeypatch.setattr(Loop, "_agree", agree_then_stop)
        with pytest.raises(Interrupted):
            fit(of, parts, interrupt)
        assert checkpoints.full(parts.checkpoints)[-1][0] == place
    monkeypatch.setattr(Loop, "_agree", agree)
    assert fit(of, parts, Interrupt()).steps == 10
    states = [checkpoints.load(checkpoints.full(folder.checkpoints)[-1][1])["state_dict"] for folder in folders]
    assert states[0].keys() == states[1].keys()
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])
    losses = [
        [line["train/loss"] for line in map(json.loads, (folder.path / "metrics.jsonl").read_text().splitlines())]
        for folder in folders
    ]
    assert losses[0] == losses[1]
    assert len(losses[0]) == 10


@pytest.mark.slow
def test_an_update_that_is_split_for_memory_is_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    overrides = ["trainer.max_steps=4", "trainer.log_every=1", "trainer.precision=64-true", "recipe.norm=1e9"]
    of = config(*overrides, "logger=none", "trainer.progress=false")
    losses, largest = QuestionAnsweringExperiment.losses, 0
    found = []
    for name in ("whole", "split"):

        def limited(self: Any, batch: Any, name: str = name) -> Any:
            nonlocal largest
            largest = max(largest, len(batch))
            if name == "split" and len(batch) > 0.6 * largest:
                raise MemoryError
            return losses(self, batch)

        monkeypatch.setattr(QuestionAnsweringExperiment, "losses", limited)
        folder = RunFolder(tmp_path / name).create(to_dict(of))
        found.append(fit(of, folder, Interrupt()))
    whole, split = found
    assert whole.step.budget.oom_splits == 0 < split.step.budget.oom_splits
    for name, weights in whole.step.model.state_dict().items():
        torch.testing.assert_close(split.step.model.state_dict()[name], weights, rtol=1e-9, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize(("epochs", "told"), [(1, False), (2, True)])
def test_a_run_that_ends_within_its_linear_start_says_so(
    epochs: int, told: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """An epoch has four batches."""
    words = ["trainer.max_steps=5", f"recipe.linear_epochs={epochs}", "logger=none", f"runs={tmp_path}"]
    result = RunFolder(execute(config(*words))).result() or {}
    text = "training ended within its linear start (8 updates), so it was tested without the softmax over memories"
    assert result.get("remarks", []) == [text] * told
    before = "seed 1: training ends within the linear start (8 updates), so no network learns with the softmax"
    assert sum(before in message for message in caplog.messages) == told


@pytest.mark.slow
def test_plan_and_sweep_say_which_rows_will_end_within_their_linear_start(tmp_path: Path) -> None:
    words = [*TINY, "trainer.max_steps=8", "recipe.linear_epochs=0,1,2,3", f"runs={tmp_path}"]
    clauses = [
        f"training ends within the linear start ({4 * epochs} updates), so no network learns with the softmax "
        "over memories: raise trainer.max_steps, or lower recipe.linear_epochs."
        for epochs in (2, 3)
    ]
    jobs = expand(words)
    found = [f"{job.row}: {clause}" for job, clause in zip(jobs[2:], clauses, strict=True)]
    assert idle_rows(map(Outcome.of, jobs)) == found
    told = json.loads(render(words, PlanConfig(format="json", measure=False)))["remarks"]
    assert [text for text in told if "linear start" in text] == found
    assert idle_rows(Outcome.of(job) for job in expand([*words, "debug=limit"])) == []  # twenty updates on purpose


@pytest.mark.parametrize(
    "words", [[], ["data.joint=true"], ["data.toy_questions=83", "data.valid=0.33"], ["recipe.batch_size=512"]]
)
def test_the_configuration_tells_the_updates_of_an_epoch(words: list[str]) -> None:
    data = QuestionAnsweringData(config(*words))
    data.setup()
    assert updates_of_epoch(config(*words)) == data.batches()


@pytest.mark.slow
def test_a_run_that_diverges_names_the_keys_of_its_task_and_no_questions(tmp_path: Path) -> None:
    of = config("trainer.max_steps=8", "recipe.lr=1e30", "logger=none", f"runs={tmp_path}")
    with pytest.raises(RunFailedError) as failed:
        execute(of)
    told = r"not finite at step \d \(epoch \d, batch \d\)\. Lower recipe\.lr \(with .*\) or recipe\.norm, or "
    assert re.search(told, str(failed.value))


@pytest.mark.slow
def test_the_moving_average_of_a_linear_start_can_be_tested(tmp_path: Path) -> None:
    of = config("recipe.ema=0.9", "trainer.max_steps=8", "recipe.linear_epochs=1", "logger=none")
    folder = RunFolder(tmp_path / "run").create(to_dict(of))
    trained = fit(of, folder, Interrupt())
    weights, steps = final_weights(of, folder)
    assert steps == [8]
    trained.step.model.load_state_dict(weights)


def test_what_is_read_for_a_question() -> None:
    of = config(restarts=2)
    data = QuestionAnsweringData(of)
    data.setup()
    group = next(group for group in data.groups if group.name == "15")
    net = QuestionAnsweringExperiment(of, data).network.reader("15")
    found = reading(net, group.vocabulary, group.tests[15], 5, restart=1)
    assert len(found.sentences) == 8
    assert found.question.startswith("what does")
    name = found.question.removesuffix("?").split()[2]
    first, second = (found.sentences[at].split() for at in found.supports)
    assert first[0] == name  # first its kind, then what that kind fears
    assert second[0].startswith(first[-1][:3])
    assert [len(read) for read in found.reads] == [8, 8, 8]
    assert all(sum(read) == pytest.approx(1, abs=1e-5) for read in found.reads)
    with pytest.raises(UserError, match="questions 0 to 79"):
        reading(net, group.vocabulary, group.tests[15], 80, restart=1)


def test_sentences_are_shown_without_their_ngrams() -> None:
    def first(ngrams: int) -> Reading:
        of = config(f"data.ngrams={ngrams}", restarts=1)
        data = QuestionAnsweringData(of)
        data.setup()
        (group,) = (group for group in data.groups if group.name == "1")
        net = QuestionAnsweringExperiment(of, data).network.reader("1")
        return reading(net, group.vocabulary, group.tests[1], 1, restart=0)

    plain = first(1)
    for ngrams in (2, 3):
        shown = first(ngrams)
        assert (shown.sentences, shown.question, shown.answer) == (plain.sentences, plain.question, plain.answer)


def test_only_supporting_facts_that_are_still_in_memory_are_marked() -> None:
    of = config("data.memory=4", restarts=1)
    data = QuestionAnsweringData(of)
    data.setup()
    group = next(group for group in data.groups if group.name == "15")
    tested = group.tests[15]
    lost = next(at for at, slots in enumerate(tested.supports.tolist()) if LOST in slots and max(slots) > 0)
    net = QuestionAnsweringExperiment(of, data).network.reader("15")
    found = reading(net, group.vocabulary, tested, lost, restart=0)
    assert found.supports == [4 - slot for slot in tested.supports[lost].tolist() if slot != LOST]


@pytest.mark.slow
def test_a_question_that_does_not_fit_ends_the_run_instead_of_being_halved_for_ever() -> None:
    of = config(restarts=2)
    data = QuestionAnsweringData(of)
    data.setup()
    experiment = QuestionAnsweringExperiment(of, data)
    batch = next(iter(data.train_dataloader()))
    tried: list[int] = []

    def exhausted(part: Any) -> None:
        assert len(part)
        tried.append(len(part))
        raise MemoryError

    with pytest.raises(RunFailedError, match=r"out of memory with a single item of .*: lower the batch size"):
        memory.accumulate([(1, batch)], lambda: None, exhausted, experiment, "lower the batch size")
    assert tried[-1] == 2 * of.model.restarts  # one question of each of two tasks, which all restarts answer


def test_weights_of_a_linear_start_are_drawn_with_their_signs() -> None:
    found = Reading(["a", "b", "c"], "where?", "here", "here", [0], [[-2.0, 3.0, 0.0]])
    panel = heat_map(found).axes[0]
    assert panel.images[0].get_clim() == (-2.0, 3.0)
    assert [text.get_text() for text in panel.texts] == ["-2.00", "3.00"]


def test_stories_that_are_too_short_to_be_chosen_are_not_blamed_on_the_model(tmp_path: Path) -> None:
    of = config("data.memory=2", restarts=1)
    data = QuestionAnsweringData(of)
    data.setup()
    network = QuestionAnsweringExperiment(of, data).network
    folder = RunFolder(tmp_path / "run").create(to_dict(of))
    with pytest.raises(UserError, match=r"no test story has 3 to 12 sentences in memory; .* items=\[1-1\]"):
        dict(TASK.attended(folder, of, network, Asked()))
    assert list(dict(TASK.attended(folder, of, network, Asked(items=["1-1"])))) == ["reading-1-1"]


@pytest.mark.parametrize("asked", [None, ["1-2"]])
def test_a_model_without_weights_is_named(asked: list[str] | None, tmp_path: Path) -> None:
    of = config("model=story_lstm", restarts=1)
    data = QuestionAnsweringData(of)
    data.setup()
    network = QuestionAnsweringExperiment(of, data).network
    folder = RunFolder(tmp_path / "run").create(to_dict(of))
    with pytest.raises(UserError, match="model=lstm gives sentences no weights"):
        dict(TASK.attended(folder, of, network, Asked(items=asked)))
