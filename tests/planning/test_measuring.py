"""Measuring: once per shape, a fault does not stop the others, finished runs are left out."""

import json
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from suite import sampled

from variations.commands.plan import PlanConfig, render
from variations.configuration.compose import compose_run, to_dict
from variations.models import build
from variations.planning import formats, measuring, price
from variations.planning.measuring import Measured, Shape, measured, one_device
from variations.planning.price import bill
from variations.planning.rows import launch, plan_rows
from variations.store.checksums import file_sha256, sidecar
from variations.store.inputs import remember
from variations.store.ledger import RunFolder
from variations.store.naming import run_folder
from variations.system import processes
from variations.system.errors import ConfigError
from variations.system.quantities import hours_text
from variations.tasks.sequences.decoding.beam import beam_search
from variations.tasks.sequences.timing import Paced
from variations.tasks.translation.rehearsal import InventedPairs, is_here


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, values: dict[str, Any]) -> list[str]:
    """Replace the measuring processes; return a list of the measured models. M=3 fails, M=5 runs out of memory."""
    asked: list[str] = []

    def answer(shape: Shape, limit: float) -> Measured:
        asked.append(shape.config.model.kind)
        branches = shape.config.branch.M if shape.config.model.kind == "weighted" else None
        if branches == 3:
            return Measured(fault="the cat sat on it")
        if branches == 5:
            return Measured(fault="it was killed", exhausted=True)
        return Measured(values)

    monkeypatch.setattr(measuring, "_measure", answer)
    monkeypatch.setattr(measuring, "_place", lambda shape, key: tmp_path / "plan" / f"{key}.json")
    # Takes a second per size and is not tested here.
    monkeypatch.setattr(formats, "_COUNTED", {})
    monkeypatch.setattr("variations.tasks.sequences.counting.activation_bytes", lambda *_: None)
    return asked


def shape(*words: str) -> Shape:
    return Shape(compose_run(words))


@pytest.mark.slow
def test_names_rates_lengths_and_seeds_are_no_other_shape() -> None:
    same = [
        "seed=3",
        "model.dropout=0.3",
        "recipe.lr=2",
        "trainer.max_steps=7",
        "name=x",
        "branch.M=4",
        "runs=elsewhere",
    ]
    base = shape("model.dropout=0.1").key()
    assert [shape("model.dropout=0.1", words).key() == base for words in same] == [True] * len(same)
    others = ["model.dropout=0.0", "model.h=2", "recipe.batch_tokens=99", "trainer.threads=1", "data.vocabulary=99"]
    keys = {shape("model.dropout=0.1", words).key() for words in others}
    assert len(keys | {base}) == 1 + len(others)
    assert Shape(compose_run(["model.dropout=0.1"]), at_once=2).key() != base


@pytest.mark.slow
def test_an_edited_class_of_ones_own_is_measured_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "their_heads.py").write_text("WAIT = 0\n")
    monkeypatch.syspath_prepend(tmp_path)
    own = shape("model.attention=their_heads:Slow")
    before = own.key()
    (tmp_path / "their_heads.py").write_text("WAIT = 0.05\n")
    assert own.key() not in (before, shape().key())


@pytest.mark.slow
def test_a_shape_is_measured_once_and_kept(
    known: list[str], values: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    measuring._tell_of_wait.cache_clear()
    shapes = {"a": shape("seed=1"), "b": shape("seed=2"), "c": shape("model=weighted")}
    found = measured(shapes, 1.0, told=True)
    assert known == ["transformer", "weighted"]
    assert {key: answer.values for key, answer in found.items()} == {s.key(): values for s in shapes.values()}
    assert measured(shapes, 1.0).keys() == found.keys()
    assert len(known) == 2
    measured(shapes, 1.0, fresh=True, told=True)
    assert len(known) == 4
    lines = [line for line in capsys.readouterr().err.splitlines() if not line.startswith("warning")]
    assert lines[0].startswith("Measuring step times that are not known yet: about 1 s of updates for each network")
    assert lines[1:] == ["[1/2] a", "[2/2] c"] * 2


@pytest.mark.slow
def test_a_row_that_is_slow_for_its_flops_is_told(known: list[str], tmp_path: Path) -> None:
    words = ["model.N=1,6", f"runs={tmp_path}"]  # whose updates take equally long here
    remarks = json.loads(render(words, PlanConfig(format="json", measure=True)))["remarks"]
    (told,) = [remark for remark in remarks if remark.startswith("A FLOP takes up to")]
    assert "times as long in model.N=1 as in another row" in told
    words = ["model.N=5,6", f"runs={tmp_path}"]
    assert "A FLOP takes" not in render(words, PlanConfig(format="json", measure=True))


@pytest.mark.slow
def test_a_fault_is_told_and_the_other_rows_are_measured(
    known: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["sweep=quickstart", "rows=[transformer,weighted]", "branch.M=3", f"runs={tmp_path}"]
    found = json.loads(render(words, PlanConfig(format="json")))
    said = capsys.readouterr().err
    assert said.startswith("2 rows, 2 of 2 runs left.\n")  # before anything is measured
    assert said.index("quickstart/weighted: the cat sat on it\n") > said.index("] quickstart/weighted\n")
    by_row = {row["row"]: row for row in found["rows"]}
    assert by_row["weighted"]["fault"] == "the cat sat on it" and by_row["weighted"]["seconds"] is None
    assert by_row["transformer"]["seconds"] > 0
    assert found["totals"]["unknown"] == ["quickstart/weighted"]
    assert "weighted: could not be measured: the cat sat on it" in found["remarks"]
    with pytest.raises(ConfigError, match="the cat sat on it"):  # it is that of every row
        render([word for word in words if not word.startswith("rows")] + ["rows=[weighted]"], PlanConfig())


@pytest.mark.slow
def test_rows_that_do_not_fit_are_named(known: list[str], tmp_path: Path) -> None:
    text = render(["sweep=quickstart", "branch.M=5", f"runs={tmp_path}"], PlanConfig())
    assert "weighted: will not fit, memory ran out (it was killed); lower trainer.tokens_per_batch, in all rows" in text
    assert "will not fit" in next(line for line in text.splitlines() if line.startswith(" uniform"))


@pytest.mark.slow
@pytest.mark.parametrize("form", ["terminal", "markdown", "csv", "json"])
def test_every_format_has_the_costs(known: list[str], tmp_path: Path, form: str) -> None:
    text = render(["sweep=quickstart", f"runs={tmp_path}", "seeds=[1,2]"], PlanConfig(format=form))
    assert ("seconds" if form in ("csv", "json") else "2 of 2") in text


@pytest.mark.slow
@pytest.mark.parametrize(
    ("typed", "cores"),
    [
        ([], None),
        (["hydra/launcher=slurm"], 4),
        (["hydra/launcher=slurm", "hydra.launcher.cpus=1"], 1),
        (["hydra/launcher=ray"], 1),
        (["hydra/launcher=ray", "hydra.launcher.cpus=0.5"], 0.5),
        (["hydra/launcher=ray", "hydra.launcher.cpus=2", "hydra.launcher.address=auto"], 2),
    ],
)
def test_a_run_that_gets_a_job_of_its_own_is_measured_with_the_cores_of_the_job(
    typed: list[str], cores: float | None, known: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two at a time, as the sweep's file says, are two jobs; here, or under a Ray of this machine, they share it."""
    asked: list[Shape] = []
    answers = price.measured

    def seen(shapes: dict[str, Shape], *more: Any, **named: Any) -> Any:
        asked.extend(shapes.values())
        return answers(shapes, *more, **named)

    monkeypatch.setattr(price, "measured", seen)
    words = ["sweep=quickstart", f"runs={tmp_path}", "sweep.at_once=2", *typed]
    found = json.loads(render(words, PlanConfig(format="json")))
    elsewhere = "hydra/launcher=slurm" in typed or "hydra.launcher.address=auto" in typed
    assert {one.at_once for one in asked} == {1 if elsewhere else 2}
    assert cores is None or {one.threads for one in asked} == {max(1, int(cores))}
    assert found["totals"]["cores_each"] == cores and found["totals"]["places"] == 2
    said = render(words, PlanConfig())
    total = found["totals"]["device_hours"]
    assert cores is None or f"process-hours ({hours_text(total * cores)} core-hours, {cores:g} core" in said
    assert cores is not None or "core-hours" not in said


def test_a_run_in_a_job_of_slurm_has_the_cores_that_it_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """`srun --cpus-per-task=1` need not confine its processes to one core."""
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.delenv("SLURM_CPUS_ON_NODE", raising=False)
    assert processes.threads_each(1) is None
    monkeypatch.setattr(processes, "cores", lambda: 8)
    assert processes.threads_each(2) == 4
    monkeypatch.setenv("SLURM_CPUS_ON_NODE", "2")
    assert (processes.threads_each(1), processes.threads_each(2)) == (2, 1)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert processes.threads_each(1) is None  # torch obeys it


@pytest.mark.slow
def test_finished_runs_are_not_counted_again(known: list[str], tmp_path: Path) -> None:
    words = ["sweep=quickstart", f"runs={tmp_path}"]
    before = bill(plan_rows(words), None, 1.0, fresh=False)
    assert (before.places, len(before.path.critical), before.unknown) == (2, 2, [])
    (row,) = (row for row in plan_rows(words) if row.definition.row == "transformer")
    assert row.config is not None
    folder = RunFolder(run_folder(row.config)).create(to_dict(row.config))
    folder.set_status("finished")
    assert launch(row.config).left is True  # its result is missing
    (folder.path / "result.json").write_text("{", encoding="utf-8")
    assert launch(row.config).left is True
    (folder.path / "result.json").write_text('{"scores": 5}', encoding="utf-8")
    assert (launch(row.config).state, launch(row.config).left) == ("refused", False)
    folder.write_result({"schema": 1})
    assert launch(row.config).left is False
    after = bill(plan_rows(words), None, 1.0, fresh=False)
    assert after.seconds == pytest.approx(0.75 * before.seconds)
    forced = bill(plan_rows([*words, "force=true"]), None, 1.0, fresh=False)
    assert forced.seconds == pytest.approx(before.seconds)


@pytest.mark.slow
def test_what_will_be_refused_is_neither_left_nor_finished(known: list[str], tmp_path: Path) -> None:
    words = ["sweep=quickstart", f"runs={tmp_path}", "rows=[transformer]", "seeds=[1,2]"]
    (row,) = plan_rows(words)
    assert row.config is not None
    folder = RunFolder(run_folder(row.config)).create(to_dict(row.config))
    folder.write_result({"schema": 1})
    folder.set_status("finished")
    text = render([*words, "recipe.label_smoothing=0.2"], PlanConfig())
    assert "transformer, seed 1 will be refused, and no run of the sweep will start: " in text
    assert "recipe.label_smoothing" in text
    assert "Left: 1 run, " in text and "1 of 2" in text
    (again,) = plan_rows([*words, "recipe.label_smoothing=0.2", "force=true"])
    assert [run.state for run in again.launches] == ["absent", "absent"]
    second = replace(row.config, seed=2)
    other = RunFolder(run_folder(second)).create(to_dict(second))
    other.write_result({"schema": 1})
    other.set_status("finished")
    text = render([*words, "recipe.label_smoothing=0.2"], PlanConfig())
    assert "transformer, seed 1; transformer, seed 2 will be refused, and no run of the sweep will start: " in text
    assert text.count("recipe.label_smoothing: 0.1") == 1 and "The same holds for the others." in text


@pytest.mark.slow
def test_texts_that_were_edited_since_are_told_before_anything_is_trained(
    known: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = tmp_path / "text"
    text.mkdir()
    for name in ("train", "valid", "test"):
        for side in ("en", "de"):
            (text / f"{name}.{side}").write_text("a b c\n" * 40)
    words = ["sweep=quickstart", f"runs={tmp_path}", "rows=[transformer]", "seeds=[1,2,3]", "data=files"]
    words += [f"data.root={text}", "data.vocabulary=32"]
    (row,) = plan_rows(words)
    assert row.config is not None
    for seed in (1, 2):
        config = replace(row.config, seed=seed)
        folder = RunFolder(run_folder(config)).create(to_dict(config))
        remember(folder, {"train.en": "another"})
        folder.set_status("interrupted", checkpoint=50)
        if seed == 1:
            folder.write_result({"schema": 1})
            folder.set_status("finished")
        (folder.checkpoints / "step50.ckpt").write_bytes(b"")
    capsys.readouterr()
    told = render([*words, "data=files"], PlanConfig())
    assert f"seed 2 will be refused, and no run of the sweep will start: {folder.path} cannot continue" in told
    assert f"train.en in {text} changed after this run was" in told
    assert "Left: 1 run (1 finished)" in told
    assert "warning: transformer, seed 1: train.en" in capsys.readouterr().err


@pytest.mark.slow
def test_counted_flops_are_those_of_the_updates_that_are_left(tmp_path: Path) -> None:
    words = ["sweep=quickstart", f"runs={tmp_path}", "rows=[transformer]", "seeds=[1,2]"]

    def left() -> float:
        told = re.search(r"Left: 2 runs, (\S+) FLOPs in all", render(words, PlanConfig(measure=False)))
        assert told is not None
        return float(told[1])

    whole = left()
    (row,) = plan_rows(words)
    assert row.config is not None
    config = replace(row.config, seed=1)
    folder, half = RunFolder(run_folder(config)).create(to_dict(config)), config.trainer.max_steps // 2
    folder.set_status("interrupted")
    path = folder.checkpoints / f"step{half}.ckpt"
    path.write_bytes(b"")
    sidecar(path).write_text(file_sha256(path))
    assert left() == pytest.approx(0.75 * whole, rel=0.05)  # two figures are printed


def test_a_run_that_has_come_halfway_needs_the_other_half(tmp_path: Path) -> None:
    config = compose_run([f"runs={tmp_path}", "trainer.max_steps=200", "name=half"])
    assert launch(config).state == "absent"
    folder = RunFolder(run_folder(config)).create(to_dict(config))
    folder.set_status("interrupted")
    for name in ("step50.ckpt", "step100.ckpt"):
        (folder.checkpoints / name).write_bytes(b"")
        sidecar(folder.checkpoints / name).write_text(file_sha256(folder.checkpoints / name))
    assert (launch(config).state, launch(config).done) == ("interrupted", 0.5)
    assert launch(replace(config, seed=2)).state == "absent"
    other = replace(config, decode=replace(config.decode, beam=7))
    assert launch(other).state == "refused"
    assert [launch(replace(each, force=True)).state for each in (config, other)] == ["interrupted", "absent"]
    (folder.checkpoints / "step100.ckpt").write_bytes(b"damaged")
    assert launch(replace(config, force=True)).state == "interrupted"  # from the one before it
    (folder.checkpoints / "step50.ckpt").write_bytes(b"damaged")
    assert launch(replace(config, force=True)).state == "absent"


@pytest.mark.slow
def test_checkpoint_tests_cost_no_training_and_wait(known: list[str], tmp_path: Path) -> None:
    found = bill(plan_rows(["sweep=weighted_table3", f"runs={tmp_path}", "seeds=[1]"]), 8, 1.0, fresh=False)
    learned, *others = found.prices
    assert learned.cost is not None
    assert found.seconds == pytest.approx(
        learned.cost.seconds() + len(others) * (learned.cost.start + learned.cost.test)
    )
    assert found.path.critical[0].endswith("/learned seed 1")
    assert len(found.path.critical) == 2
    rows = plan_rows(["sweep=weighted_table3", f"runs={tmp_path}", "seeds=[1]"])
    lines = [formats.line(row, None, price) for row, price in zip(rows, found.prices, strict=True)]
    printed = formats.terminal(lines, found, width=200)
    named = ("learned seed 1 → random seed 1.", "learned seed 1 → uniform seed 1.")
    assert any(f"when the sweep ends: {chain}" in printed for chain in named)


def test_the_share_of_one_of_several_devices() -> None:
    config = one_device(compose_run(["trainer=ddp", "trainer.devices=4", "recipe.batch_tokens=1000"]))
    assert (config.trainer.devices, config.trainer.strategy, config.recipe.batch_tokens) == (1, "auto", 250)


def test_an_untrained_network_says_outputs_of_the_wanted_lengths() -> None:
    torch.manual_seed(1)
    network: Any = build(compose_run([]), 50).eval()
    source = torch.randint(4, 50, (4, 9))
    source[:, -1] = 2
    for beam in (1, 3):
        found = beam_search(Paced(network, [1, 4, 7, 12]), source, beam=beam, alpha=0.6, max_extra=50)
        assert [len(nbest[0].tokens) + 1 for nbest in found] == [1, 4, 7, 12]


def test_invented_lengths_stay_within_the_limit_and_repeat() -> None:
    config = compose_run(["data.max_length=40", "data.vocabulary=100"])
    pairs = InventedPairs(2_000, config, seed=0)
    assert (pairs.source_lengths.max(), pairs.target_lengths.min() >= 2) == (40, True)
    assert 22 < pairs.source_lengths.mean() < 32
    index, source, target = pairs[7]
    assert (index, len(source), len(target)) == (7, pairs.source_lengths[7], pairs.target_lengths[7])
    assert (source[-1], source[:-1].min() >= 4, source.max() < 100) == (2, True, True)
    assert np.array_equal(pairs[7][1], source)


@pytest.mark.slow
def test_a_corpus_that_would_have_to_be_downloaded_is_not_here(tmp_path: Path) -> None:
    assert is_here(compose_run([]).data)
    assert not is_here(compose_run(["data=multi30k", f"data.cache={tmp_path}"]).data)
    assert not is_here(compose_run(["data=wmt14_en_de", f"data.cache={tmp_path}"]).data)
    assert is_here(compose_run(["data=wmt14_en_de", "data.root=here"]).data)


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    sampled([["data=multi30k"], ["data=toy", "data.train_pairs=400", "data.vocabulary=200"]], 2),
)
def test_a_tiny_run_is_measured_in_a_process_of_its_own(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Meanwhile the clock is set an hour forward, which no measurement sees."""
    (tmp_path / "sitecustomize.py").write_text(
        "import time\nnow, began = time.time, time.monotonic()\n"
        "time.time = lambda: now() + (3600 if time.monotonic() - began > 0.5 else 0)\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    small = [
        "size=tiny",
        "recipe=quick",
        "recipe.batch_tokens=256",
        "logger=none",
        "trainer.limit_test=8",
        "trainer.val_bleu=4",
    ]
    config = compose_run([*words, *small, f"data.cache={tmp_path}", "trainer.threads=1"])
    answer = measuring._measure(Shape(config), 0.2)
    assert answer.fault is None and answer.values is not None
    values = answer.values
    positive = ("update_seconds", "startup_seconds", "validation_seconds", "test_seconds", "memory_bytes")
    assert all(0 < values[name] < 3000 for name in positive[:-1]) and values["memory_bytes"] > 0
    assert values["test_seconds"] > values["validation_seconds"]
    assert (values["invented"], values["read"]) == (words[0] != "data=toy", 1)
    assert not list(tmp_path.glob("multi30k*"))


@pytest.mark.slow
def test_a_corpus_at_fault_is_a_sentence(tmp_path: Path) -> None:
    words = ["data.train_pairs=50", "data.vocabulary=30000", "logger=none", f"data.cache={tmp_path}"]
    answer = measuring._measure(Shape(compose_run(words)), 0.2)
    assert answer.fault is not None and "data.vocabulary=30000 is too large" in answer.fault
    assert not answer.exhausted
