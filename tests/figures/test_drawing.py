"""`figures.py` draws stored runs: its files, their contents, and its response to invalid arguments."""

import gzip
import json
import os
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path

import pytest
from stored_runs import babi_configuration

from variations.commands.figures import FiguresConfig, draw
from variations.configuration.compose import compose_run
from variations.configuration.schema import SweepConfig
from variations.figures.canvas import COLOURS, MADE_BY, colour, linestyle, unit_of
from variations.figures.learning import learning_curves, loss_against_loss
from variations.figures.traces import TracedRow, run_row
from variations.figures.weights import branch_weights, sublayers, words
from variations.store.ledger import RunFolder
from variations.store.rows import define
from variations.system.errors import UserError
from variations.tables.table import build

ROOT = Path(__file__).resolve().parents[2]
Q = SweepConfig(name="q", rows=["a", "w"], seeds=[1, 2])


def texts(path):
    """All words of an SVG."""
    return " ".join("".join(node.itertext()) for node in ElementTree.parse(path).iter() if node.tag.endswith("text"))


def drawn(capsys, store, **keys):
    draw(FiguresConfig(sweep=Q, runs=str(store), **keys))
    return [Path(line) for line in capsys.readouterr().out.splitlines()]


@pytest.mark.slow
def test_all_figures_of_a_sweep_stand_in_its_folder(sweep, store, capsys):
    files = drawn(capsys, store)
    assert [path.name for path in files] == [
        "learning_curves-dev_bleu.svg",
        "loss_against_loss.svg",
        "branch_weights-w-seed1.svg",
        "branch_weights-w-seed2.svg",
        "convergence-dev_bleu.md",
        "convergence-dev_bleu.json",
    ]
    assert {path.parent for path in files} == {store / "q" / "figures"}
    curves = texts(files[0])
    for word in ("dev BLEU", "steps", "source and target tokens", "training time", "training FLOPs", "2 seeds"):
        assert word in curves
    assert "training loss, nats per sub-word (in training mode)" in texts(files[1])
    weights = texts(files[2])
    assert "encoder layer 2, self-attention: κ" in weights and "decoder layer 2, cross-attention: α" in weights
    assert "moving average over 5 measurements, 500 steps" in weights and "w, seed 1" in weights
    change = json.loads(files[5].read_text(encoding="utf-8"))["rows"][0]["change"]
    assert change["step"] == pytest.approx(0.0) and change["seconds"] == pytest.approx(0.1)


@pytest.mark.slow
@pytest.mark.parametrize("compared", ["dev_ppl", "dev_nll", "bleu"])
def test_scores_of_rows_whose_losses_alone_differ_in_scale_are_compared(sweep, store, capsys, compared):
    for row, size in (("a", 1000), ("w", 2000)):
        for folder in map(RunFolder, (store / "q" / row).iterdir()):
            folder.write_result(folder.result() | {"vocabulary": size})
    by_loss = replace(Q, metric=compared)
    draw(FiguresConfig(sweep=by_loss, runs=str(store), figure="convergence", metric="dev/bleu"))
    assert "convergence-dev_bleu.md" in capsys.readouterr().out
    with pytest.raises(UserError, match="Nothing to draw"):
        draw(FiguresConfig(sweep=by_loss, runs=str(store), figure="convergence", metric="dev/nll"))
    assert "leaves w out: its losses depend on the vocabulary" in capsys.readouterr().err


@pytest.mark.slow
def test_rows_that_have_no_runs_are_named(sweep, store, capsys):
    rows = replace(Q, rows=["a", "w", "later"])
    draw(FiguresConfig(sweep=rows, runs=str(store), figure="learning_curves"))
    assert capsys.readouterr().err == "Left out, because they have no runs here: later.\n"


@pytest.mark.slow
def test_curves_are_those_of_the_task_whose_base_row_has_no_run(tmp_path, capsys):
    shutil.copytree(ROOT / "records" / "parsing_small" / "weighted", tmp_path / "parsing_small" / "weighted")
    parsing = compose_run(["sweep=parsing_small"]).sweep
    draw(FiguresConfig(sweep=parsing, runs=str(tmp_path), figure="learning_curves"))
    (file,) = map(Path, capsys.readouterr().out.splitlines())
    assert file.name == "learning_curves-dev_f1.svg"
    assert "dev F1" in texts(file)


@pytest.mark.slow
def test_runs_of_another_task_are_left_out_of_figures_and_columns(tmp_path, capsys):
    """Their losses have other units."""
    for table, row in (("toy_attention_table3", "base"), ("parsing_small", "weighted")):
        shutil.copytree(ROOT / "records" / table / row, tmp_path / "mixed" / row)
    mixed = SweepConfig(name="mixed", rows=["base", "weighted"], seeds=[1], metric="dev_nll")
    draw(FiguresConfig(sweep=mixed, runs=str(tmp_path), figure="learning_curves", metric="dev/nll"))
    said = capsys.readouterr()
    assert "Left out: weighted is of task=parsing: 'rows=[weighted]' draws it.\n" in said.err
    assert "weighted" not in texts(Path(said.out.strip()))
    first, other = build(define(mixed, store=tmp_path), tmp_path).lines
    assert "dev_nll" in first.measured and other.measured == {}
    assert "task parsing: 'rows=[weighted]' prints its own measures, and what its costs count" in other.notes


@pytest.mark.slow
def test_a_copy_of_another_seed_is_not_drawn_as_a_seed(sweep, store, capsys):
    home = store / "q" / "w"
    shutil.rmtree(home / "seed2")
    shutil.copytree(home / "seed1", home / "seed2")
    draw(FiguresConfig(sweep=Q, runs=str(store)))
    said = capsys.readouterr()
    assert "Left out: " in said.err and "config.yaml has seed 1, so this folder is a copy of another run" in said.err
    files = {Path(line).name: Path(line) for line in said.out.splitlines()}
    assert "branch_weights-w-seed1.svg" in files and "branch_weights-w-seed2.svg" not in files
    assert "Not finished" not in texts(files["learning_curves-dev_bleu.svg"])


@pytest.mark.slow
def test_measurements_that_are_not_those_of_the_result_are_not_drawn(tmp_path, capsys):
    shutil.copytree(ROOT / "records" / "parsing_small" / "weighted", tmp_path / "p" / "weighted")
    path = tmp_path / "p" / "weighted" / "seed2" / "metrics.jsonl.gz"
    path.write_bytes(gzip.compress(gzip.decompress(path.read_bytes()).rpartition(b"\n{")[0] + b"\n"))
    sweep = SweepConfig(name="p", rows=["weighted"], seeds=[1, 2])
    draw(FiguresConfig(sweep=sweep, runs=str(tmp_path), figure="learning_curves"))
    said = capsys.readouterr()
    assert "seed2/metrics.jsonl is not the file that its result was stored with.\n" in said.err
    assert "3 seeds" not in texts(Path(said.out.strip())) and "2 seeds" in texts(Path(said.out.strip()))
    with pytest.raises(UserError, match="is not the file that its result was stored with: restore it"):
        draw(FiguresConfig(run=str(path.parent), figure="learning_curves"))


@pytest.mark.slow
def test_png_layer_part_and_out_are_obeyed(sweep, store, capsys, tmp_path):
    out = tmp_path / "new" / "folder"
    keys = {"figure": "branch_weights", "layer": 2, "part": "encoder", "window": 1}
    (first, second) = drawn(capsys, store, format="png", out=str(out), **keys)
    assert (first.name, second.name) == (
        "branch_weights-w-encoder-layer2-seed1.png",
        "branch_weights-w-encoder-layer2-seed2.png",
    )
    assert first.parent == out and first.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert sorted(out.iterdir()) == [first, second]  # no temporary file is left


@pytest.mark.slow
def test_the_same_runs_give_the_same_bytes(sweep, store, capsys):
    (path,) = drawn(capsys, store, figure="learning_curves", metric="dev/nll")
    before = path.read_bytes()
    drawn(capsys, store, figure="learning_curves", metric="dev/nll")
    assert path.read_bytes() == before


@pytest.mark.slow
def test_a_file_of_somebody_else_is_kept(sweep, store, capsys):
    files = drawn(capsys, store)
    curves = [path for path in files if path.name.startswith("learning_curves")]
    assert curves and drawn(capsys, store, figure="learning_curves") == curves  # its own files are replaced
    for path in (files[0], files[-2], files[-1]):
        theirs = path.read_text(encoding="utf-8").replace(MADE_BY, "another program")
        path.write_text(theirs, encoding="utf-8")
        figure = "convergence" if path.stem.startswith("convergence") else "learning_curves"
        with pytest.raises(UserError, match=r"was not made by this command: rename it, or choose another folder"):
            drawn(capsys, store, figure=figure)
        assert path.read_text(encoding="utf-8") == theirs
        path.unlink()


@pytest.mark.slow
def test_a_single_run_is_drawn_in_its_own_folder(sweep, store, capsys):
    run = store / "q" / "w" / "seed1"
    draw(FiguresConfig(run=str(run), figure="all"))
    files = [Path(line) for line in capsys.readouterr().out.splitlines()]
    assert {path.parent for path in files} == {run / "figures"}
    assert [path.name for path in files][-1] == "branch_weights-w-seed1.svg"  # there is nothing to compare it with


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"sweep": SweepConfig()}, "Give either sweep=NAME or run=FOLDER"),
        ({"run": "x"}, "Give either sweep=NAME or run=FOLDER"),
        ({"figure": "attention"}, "give run=FOLDER instead of a sweep"),
        ({"figure": "branch_weights", "layer": 7}, "another layer or part"),
        ({"rows": ["a"], "figure": "convergence"}, "no row and its base row both measured dev/bleu"),
        ({"metric": "dev.bleu"}, "metric=dev.bleu: no run recorded it. Did you mean 'dev/bleu'? Valid: dev/bleu"),
        (
            {"figure": "learning_curves", "line": 3},
            "line is for figure=attention and figure=drawings, not for figure=learning_curves: leave it out.",
        ),
        ({"heads": [1]}, "heads is for figure=attention, not for figure=all: leave it out."),
        ({"figure": "attention", "set": "dev"}, "set is for figure=drawings, not for figure=attention: leave it out."),
        ({"rows": ["b"]}, "has no row 'b'; valid: a, w"),
    ],
)
def test_faults_say_what_to_do(sweep, store, keys, message):
    with pytest.raises(UserError) as caught:
        draw(FiguresConfig(**({"sweep": Q, "runs": str(store)} | keys)))
    assert message in str(caught.value)


def test_runs_without_measurements_are_said_to_be_empty(make_run, store):
    make_run("a", 1, [])
    with pytest.raises(UserError, match="None of these runs has measured anything yet"):
        draw(FiguresConfig(sweep=Q, runs=str(store)))


@pytest.mark.slow
def test_a_folder_that_cannot_be_written_is_named(sweep, store, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"choose another folder with out=DIR"):
        draw(FiguresConfig(sweep=Q, runs=str(store), out=str(tmp_path / "file" / "x")))


@pytest.mark.slow
def test_drawing_stored_runs_loads_no_torch(sweep, store):
    code = (
        "import sys; from variations.commands.figures import *; "
        "from variations.configuration.schema import SweepConfig; "
        f"draw(FiguresConfig(sweep=SweepConfig(name='q', rows=['a', 'w']), runs={str(store)!r}, figure='all')); "
        "assert 'torch' not in sys.modules"
    )
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_learning_curves_hold_means_bands_and_thin_ends(make_run):
    row = TracedRow("a", "costs $5 and $6", metrics={1: [{"step": s, "dev/bleu": s} for s in (1, 2, 3)]})
    row.metrics[2] = [{"step": s, "dev/bleu": s + 2} for s in (1, 2)]
    figure = learning_curves([row], "dev/bleu")
    panel = figure.axes[0]
    assert [list(line.get_ydata()) for line in panel.lines] == [[2, 3], [2, 3]]
    assert panel.lines[0].get_linewidth() > panel.lines[1].get_linewidth()  # the mean, then the continuation of seed 1
    assert len(panel.collections) == 1
    assert figure.legends[0].get_texts()[0].get_text() == r"costs \$5 and \$6"
    assert learning_curves([row], "dev/nll") is None
    assert len(figure.axes) == 1  # steps alone were counted
    for costs in (["seconds"], ["seconds", "flops"], ["seconds", "flops", "tokens"]):
        lines = {seed: [line | dict.fromkeys(costs, line["step"]) for line in own] for seed, own in row.metrics.items()}
        assert len(learning_curves([replace(row, metrics=lines)], "dev/bleu").axes) == 1 + len(costs)
    averaged, told = (
        replace(row, label="A", averaged=True),
        "current weights are drawn, and their moving average is tested.",
    )
    for rows, start in (([averaged], "The "), ([row, averaged], "Of A, the ")):
        assert f"{start}{told}" in learning_curves(rows, "dev/bleu").get_supxlabel().replace("\n", " ")
    assert "moving average" not in figure.get_supxlabel()
    (alone,) = learning_curves([row], "dev/bleu", ["step"]).axes
    assert alone.get_xlabel() == panel.get_xlabel()
    assert [list(line.get_xdata()) for line in alone.lines] == [list(line.get_xdata()) for line in panel.lines]


def test_loss_against_loss_leaves_out_the_start_and_marks_the_test_loss():
    lines = [{"step": s, "train/nll": 10.0 / s, "dev/nll": 11.0 / s} for s in (1, 5, 10)]
    row = TracedRow("a", "A", metrics={1: lines}, results={1: {"loss": {"test_nll": 1.3}}})
    panel = loss_against_loss([row], 0.2).axes[0]
    curve, end, test, diagonal = panel.lines
    assert list(curve.get_xdata()) == [2.0, 1.0] and list(curve.get_ydata()) == [2.2, 1.1]
    assert (end.get_xdata()[0], end.get_ydata()[0]) == (1.0, 1.1)
    assert (test.get_xdata()[0], test.get_ydata()[0]) == (1.0, 1.3)
    assert list(diagonal.get_xdata()) == list(diagonal.get_ydata())
    assert loss_against_loss([TracedRow("b", "B", metrics={1: [{"step": 1}]})], 0.1) is None


def test_branch_weights_are_filtered_and_coloured_by_branch():
    lines = [{"step": 10 * i, "branch/encoder.1.self.kappa": [v, 1 - v]} for i, v in enumerate((0.0, 0.3, 0.6, 0.0))]
    lines = [line | {"branch/encoder.1.self.alpha": [0.5, 0.5]} for line in lines]
    panel = branch_weights(lines, sublayers(lines), 3).axes[0]
    first, second, alike = panel.lines
    assert list(first.get_ydata()) == pytest.approx([0.0, 0.3, 0.3, 0.0])
    assert list(second.get_ydata()) == pytest.approx([1.0, 0.7, 0.7, 1.0])
    assert first.get_color() != second.get_color()
    assert alike.get_ydata()[0] == pytest.approx(0.5)  # 1 / M


def test_negative_branch_weights_are_in_the_picture():
    """Without a constraint, weights may become negative."""
    lines = [{"step": i, "branch/encoder.0.self.kappa": [0.5, -0.1 * i]} for i in range(4)]
    panel = branch_weights(lines, sublayers(lines), 1).axes[0]
    assert panel.get_ylim()[0] == pytest.approx(1.06 * -0.3)


def test_sublayers_are_found_in_order_and_chosen_by_part_and_layer():
    keys = ("decoder.1.cross", "encoder.10.self", "encoder.2.self", "decoder.1.self")
    line = {f"branch/{key}.kappa": [1.0] for key in keys} | {"branch/dead": 0}
    assert sublayers([line]) == ["encoder.2.self", "encoder.10.self", "decoder.1.cross", "decoder.1.self"]
    assert sublayers([line], "encoder") == ["encoder.2.self", "encoder.10.self"]
    assert sublayers([line], layer=2) == ["decoder.1.cross", "decoder.1.self"]
    assert words("encoder.10.self") == "encoder layer 11, self-attention"


def test_units_keep_numbers_short():
    assert (unit_of("seconds", 90_000).factor, unit_of("seconds", 1200).name) == (3600, "training time, minutes")
    assert unit_of("tokens", 2.5e6).name == "millions of source and target tokens"
    assert unit_of("flops", 3.2e13).factor == 1e13
    assert (unit_of("step", 100_000).factor, unit_of("step", 1200).name) == (1e3, "steps")


def measured(step, **more):
    """Return a line of metrics with a dev score and its costs."""
    costs = {"source_tokens": 100 * step, "target_tokens": 110 * step, "seconds": 2 * step, "flops": 1e9 * step}
    return {"step": step, "tokens": 210 * step, "dev/bleu": step / 10} | costs | more


@pytest.mark.slow
def test_constant_branch_weights_are_named_and_not_drawn(make_run, store, capsys):
    weights = {"branch/encoder.0.self.kappa": [0.5, 0.5], "branch/encoder.0.self.alpha": [0.5, 0.5]}
    make_run("w", 1, [measured(step, **weights) for step in (100, 200)])
    draw(FiguresConfig(sweep=Q, runs=str(store)))
    shown = capsys.readouterr()
    assert "branch_weights-" not in shown.out
    assert "w, seed 1: its branch weights are constant, so they are not drawn." in shown.err


def test_a_run_that_is_not_finished_is_named_below_its_curve():
    lines = [measured(step) for step in (100, 200)]
    rows = [TracedRow("a", "A", metrics={1: lines}, results={1: {}}), TracedRow("b", "B", metrics={1: lines})]
    assert learning_curves(rows, "dev/bleu").get_supxlabel() == "One seed per row. Not finished: B."
    rows.append(TracedRow("c", "gated convolution, k = 5", metrics={1: lines}))
    told = "One seed per row. Not finished: B; gated convolution, k = 5."
    assert learning_curves(rows, "dev/bleu").get_supxlabel() == told


@pytest.mark.slow
def test_a_row_whose_losses_are_not_comparable_is_named_below_its_curve():
    lines = [measured(step) | {"dev/nll": 2.0, "train/nll": 2.1} for step in (100, 200)]
    row = TracedRow("b", "B", "a", {1: lines}, {1: {}}, other_losses="another vocabulary")
    note = "One seed per row."
    assert learning_curves([row], "dev/bleu").get_supxlabel() == note
    assert learning_curves([row], "dev/nll").get_supxlabel() == f"{note} Not comparable with the base row: B."
    assert loss_against_loss([row], 0.0).get_supxlabel().endswith("\nNot comparable with the base row: B.")


@pytest.mark.slow
def test_seeds_that_were_not_trained_alike_are_named_below_their_curve():
    lines = [measured(step) | {"dev/nll": 2.0, "train/nll": 2.1} for step in (100, 200)]
    row = TracedRow("b", "B", None, {1: lines}, {1: {}}, mixed=True)
    note = "Seeds that were not trained or validated alike: those of B."
    assert learning_curves([row], "dev/bleu").get_supxlabel().endswith(note)
    assert loss_against_loss([row], 0.0).get_supxlabel().endswith(note)


def test_rows_are_told_apart_beyond_the_palette() -> None:
    styles = {(colour(i), linestyle(i)) for i in range(3 * len(COLOURS))}
    assert len(styles) == 3 * len(COLOURS)


def make_parts(store, row, **changes):
    """Write a run on two tasks of bAbI; `changes` replace groups of its configuration."""
    run = store / "babi_memn2n_1k" / row / "seed1"
    run.mkdir(parents=True)
    (run / "config.yaml").write_text(json.dumps(babi_configuration([1, 2]) | changes), encoding="utf-8")
    (run / "status.json").write_text(json.dumps({"state": "finished", "step": 1}), encoding="utf-8")
    (run / "metrics.jsonl").write_text('{"step": 1, "dev/loss": 0.5}\n', encoding="utf-8")
    scores = {"error": {"value": 12.5}, "task_1": {"value": 0.5}, "task_2": {"value": 24.5}}
    (run / "result.json").write_text(json.dumps({"scores": {"test": scores}, "loss": {}}), encoding="utf-8")


@pytest.mark.slow
def test_parts_have_a_panel_a_row_and_marks_of_what_was_published(tmp_path):
    """Draw two rows of the bAbI table; the published figures of the second are quoted from memory."""
    make_parts(tmp_path, "pe")
    make_parts(tmp_path, "pe_ls", model={"kind": "memn2n", "restarts": 3})
    sweep = SweepConfig(name="babi_memn2n_1k", table="babi_memn2n_1k", rows=["pe", "pe_ls", "bow"], metric="error")
    draw(FiguresConfig(sweep=sweep, runs=str(tmp_path), figure="parts", out=str(tmp_path)))
    words = texts(tmp_path / "parts.svg")
    for word in (
        "MemN2N 3 hops PE",
        "2 two supporting facts",
        "error %",
        "published",
        "published, quoted from memory",
    ):
        assert word in words
    assert "BoW" not in words and "3 three supporting facts" not in words  # they have no measurements
    assert "MemN2N 3 hops PE LS: best of 3 restarts, not of 10." in words


@pytest.mark.slow
def test_published_parts_are_not_drawn_beside_bars_that_they_are_not_compared_with(tmp_path, capsys):
    make_parts(tmp_path, "pe", data={"kind": "toy", "name": "babi_toy", "tasks": [1, 2]})
    sweep = SweepConfig(name="babi_memn2n_1k", table="babi_memn2n_1k", rows=["pe"], metric="error")
    draw(FiguresConfig(sweep=sweep, runs=str(tmp_path), figure="parts", out=str(tmp_path)))
    words = texts(tmp_path / "parts.svg")
    assert "measured" in words and "published" not in words
    why = "published figures are not drawn beside its own: the run was tested on generated stories."
    assert f"MemN2N 3 hops PE: {why}\n" in capsys.readouterr().err


@pytest.mark.slow
def test_a_run_with_damaged_measurements_is_named_and_the_others_are_drawn(
    sweep: None, store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    damaged = min((store / "q").glob("*/seed*/metrics.jsonl"))
    damaged.write_text("[1]\n" + damaged.read_text(encoding="utf-8"), encoding="utf-8")
    draw(FiguresConfig(sweep=Q, runs=str(store)))
    told = capsys.readouterr()
    assert f"Left out: {damaged}, line 1: not a JSON object with a number as its step; delete that line." in told.err
    assert "learning_curves-dev_bleu.svg" in told.out


def test_a_copied_or_linked_run_is_drawn_with_its_own_seed(tmp_path):
    folder = RunFolder(tmp_path / "runs" / "q" / "a" / "seed3").create({"seed": 3})
    folder.measurements.append({"step": 1, "dev/nll": 2.0})
    (tmp_path / "best").symlink_to(folder.path)
    assert run_row(RunFolder(tmp_path / "best")).metrics.keys() == {3}
