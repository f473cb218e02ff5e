"""The dashboard's payloads agree with the run folders."""

import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, NotRequired, Union, get_args, get_origin, get_type_hints, is_typeddict

import pytest
import yaml
from sacrebleu.metrics.bleu import BLEU

from variations.dashboard import sweeps
from variations.dashboard.api import Api, MissingError
from variations.dashboard.metrics import Glance, Metrics, glance, thinned
from variations.dashboard.payload import runs as of_runs
from variations.dashboard.payload import sweeps as of_sweeps
from variations.dashboard.store import Store

Maker = Callable[..., Path]


def fits(value: Any, kind: Any, where: str = "") -> list[str]:
    """Return the places where a JSON value does not match a type."""
    if kind is Any:
        return []
    origin = get_origin(kind)
    if origin in (Union, UnionType):
        return [] if any(not fits(value, part) for part in get_args(kind)) else [f"{where}: {value!r} is no {kind}"]
    if is_typeddict(kind):
        if not isinstance(value, dict):
            return [f"{where}: no object"]
        hints = get_type_hints(kind, include_extras=True)
        wanted = {key: hint for key, hint in hints.items() if get_origin(hint) is not NotRequired or key in value}
        faults = [f"{where}.{key}" for key in wanted.keys() ^ value.keys()]
        plain = {key: get_args(hint)[0] if get_origin(hint) is NotRequired else hint for key, hint in wanted.items()}
        return faults + [
            f for key in plain.keys() & value.keys() for f in fits(value[key], plain[key], f"{where}.{key}")
        ]
    if origin in (list, dict) and not isinstance(value, origin):
        return [f"{where}: {value!r} is no {kind}"]
    if origin is list:
        return [f for i, item in enumerate(value) for f in fits(item, get_args(kind)[0], f"{where}[{i}]")]
    if origin is dict:
        return [f for key, item in value.items() for f in fits(item, get_args(kind)[1], f"{where}[{key}]")]
    allowed = {float: (int, float), NoneType: (NoneType,), None: (NoneType,)}.get(kind, (kind,))
    right = isinstance(value, allowed) and not (isinstance(value, bool) and kind is not bool)
    return [] if right else [f"{where}: {value!r} is no {kind}"]


@pytest.mark.usefixtures("pair")
def test_every_payload_has_the_type_that_was_agreed(client: Any) -> None:
    one, two = "q/wide/seed1", "q/base/seed2"
    for path, kind in {
        "index": of_sweeps.Index,
        "sweep/q": of_sweeps.Sweep,
        "sweep/q?significance=1": of_sweeps.Sweep,
        "importance/q": of_sweeps.Importance,
        f"run/{one}": of_runs.Run,
        f"curves/{one}": of_runs.Curves,
        f"curves?ids={one},{two}&metrics=dev/bleu&x=flops": of_runs.SomeCurves,
        f"branches/{one}": of_runs.Branches,
        f"branches/{two}": of_runs.Branches,
        f"attention/{one}": of_runs.Attention,
        f"drawings/{one}": of_runs.Drawings,
        f"compare?ids={two},{one}": of_runs.Compare,
    }.items():
        assert fits(client.json(f"/api/{path}"), kind, path) == []


@pytest.mark.usefixtures("pair")
def test_the_index_counts_rows_runs_and_states(client: Any, run: Maker) -> None:
    run("other", "a", 1, state="failed", reason="the loss is not finite")
    index = client.json("/api/index")
    entries = {entry["name"]: entry for entry in index["sweeps"]}
    assert (entries["q"]["rows"], entries["q"]["runs"], entries["q"]["states"]) == (2, 4, {"finished": 4})
    assert entries["other"]["states"] == {"failed": 1}
    assert index["live"] is True and index["broken"] == []


def test_an_empty_store_and_one_that_is_not_there_have_no_sweeps(client: Any, root: Path) -> None:
    assert client.json("/api/index")["sweeps"] == []
    root.rmdir()
    assert client.json("/api/index")["sweeps"] == []
    assert "no sweep 'q'" in client.fault("/api/sweep/q", 404)


@pytest.mark.usefixtures("pair")
def test_a_sweep_that_is_deleted_during_an_answer_is_one_that_is_missing(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = Api(Store(root))
    found = sweeps.sweep

    def deleted(*arguments: Any, **named: Any) -> Any:
        shutil.rmtree(root / "q", ignore_errors=True)
        answers.store.snapshot(fresh=True)
        return found(*arguments, **named)

    monkeypatch.setattr(sweeps, "sweep", deleted)
    with pytest.raises(MissingError, match="has no sweep 'q'"):
        answers.answer("sweep/q", {})


@pytest.mark.usefixtures("pair")
def test_the_table_is_that_of_the_table_command_with_values_to_sort_by(client: Any) -> None:
    table = client.json("/api/sweep/q")["table"]
    base, wide = table["rows"]
    assert wide["measured"]["test.bleu"] == {"mean": 85.5, "sd": pytest.approx(math.sqrt(0.5)), "n": 2}
    assert wide["delta"]["test.bleu"]["mean"] == 4.0
    assert (base["base"], wide["base"]) == (None, "base")
    assert {change["key"]: (change["old"], change["new"]) for change in wide["changed_keys"]}["model.h"] == (8, 16)
    assert "heads 8→16" in wide["changes"]
    cells = dict(zip((column["key"] for column in table["columns"]), wide["cells"], strict=True))
    assert (cells["test.bleu"]["text"], cells["test.bleu"]["value"]) == ("85.50 ± 0.71", 85.5)
    assert cells["seconds"]["value"] == 600.0 and cells["seconds"]["text"] == "10 min 00 s"
    assert table["metric"] == "test.bleu" and wide["color_index"] == 1


def test_a_change_of_a_list_is_one_change(run: Any, client: Any) -> None:
    for row, widths in (("base", [1, 2]), ("narrow", [1])):
        path = run("q", row, rows=["base", "narrow"]) / "config.yaml"
        config = yaml.safe_load(path.read_text())
        config["model"] |= {"d_ff": 64 * len(widths), "options": {"widths": widths}}
        path.write_text(yaml.safe_dump(config))
    (_, narrow) = client.json("/api/sweep/q")["table"]["rows"]
    assert narrow["changes"] == ["d_ff 128→64", "options.widths [1, 2]→[1]"]


@pytest.mark.usefixtures("pair")
def test_significance_comes_only_when_asked_for(client: Any) -> None:
    first = client.json("/api/sweep/q")["table"]
    assert first["tested"] is False and first["rows"][1]["ci"] is None and first["rows"][1]["significant"] is None
    assert not any("significance.show" in note for note in first["footnotes"])
    tested = client.json("/api/sweep/q?significance=1")["table"]
    low, high = tested["rows"][1]["ci"]
    assert tested["tested"] is True and low < high
    assert tested["rows"][1]["marks"] == (["*"] if tested["rows"][1]["p"] < 0.05 else [])


def test_runs_outside_a_sweep_are_rows_that_are_not_compared(client: Any, run: Maker) -> None:
    run("single", "one", 1)
    run("single", "two", 2)
    table = client.json("/api/sweep/single")["table"]
    assert [(row["row"], row["base"], row["missing"]) for row in table["rows"]] == [
        ("one", None, []),
        ("two", None, []),
    ]
    assert "delta" not in [column["key"] for column in table["columns"]]


def test_seeds_and_rows_that_only_the_store_has_are_shown(client: Any, run: Maker) -> None:
    run("q", "base", 1, rows=["base", "never"])
    run("q", "more", 4, rows=["base", "never"])
    sweep = client.json("/api/sweep/q")
    rows = {row["row"]: row for row in sweep["table"]["rows"]}
    assert list(rows) == ["base", "never", "more"]
    assert rows["never"]["missing"] == [
        "never, seed 4: missing, and the row has no file"
    ]  # the newest run requested it
    assert [entry["id"] for entry in sweep["runs"]] == ["q/base/seed1", "q/more/seed4"]


def test_a_running_row_says_how_far_it_is_and_how_long_it_takes(client: Any, run: Maker) -> None:
    run("q", "base", 1, state="running", step=600)
    (entry,) = client.json("/api/sweep/q")["runs"]
    assert (entry["state"], entry["step"], entry["max_steps"]) == ("running", 600, 1200)
    assert entry["eta_seconds"] == pytest.approx(300.0)  # half a second per step
    assert entry["score"] is None and entry["live_score"] == pytest.approx(80 * (1 - math.exp(-2)))


@pytest.mark.parametrize("other", ["reused", "copied"])
def test_costs_of_a_training_are_counted_once(client: Any, run: Maker, other: str) -> None:
    trained, tested = (run("q", name, 1, rows=["base", "wide"]) / "result.json" for name in ("base", "wide"))
    tested.write_text(json.dumps(json.loads(trained.read_text()) | {other: "q/base/seed1"}), encoding="utf-8")
    first, second = client.json("/api/sweep/q")["runs"]
    assert first["seconds"] == 600.0 and first["flops"] > 0
    assert (second["state"], second["seconds"], second["flops"]) == ("finished", None, None)


def test_a_failed_run_shows_the_end_of_its_log(client: Any, run: Maker) -> None:
    folder = run("q", "base", 1, state="failed", reason="out of memory")
    (folder / "train.log").write_text("".join(f"line {n}\n" for n in range(100)), encoding="utf-8")
    (entry,) = client.json("/api/sweep/q")["runs"]
    assert entry["reason"] == "out of memory"
    assert len(entry["log_tail"]) == 40 and entry["log_tail"][-1] == "line 99"


def test_the_latest_finished_attempt_is_the_one_of_the_table(client: Any, run: Maker) -> None:
    folder = run("q", "base", 1, score=70.0)
    shutil.copytree(folder, folder.with_name("seed1-attempt2"))
    runs = client.json("/api/sweep/q")["runs"]
    assert [(entry["id"], entry["attempt"], entry["latest"]) for entry in runs] == [
        ("q/base/seed1", 1, False),
        ("q/base/seed1-attempt2", 2, True),
    ]


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("config.yaml", "a: [", "Cannot read"),
        ("config.yaml", "- 1\n", "does not contain a configuration"),
        ("status.json", '{"state": "lost"}', "has state 'lost'"),
        ("result.json", "{", "Cannot read"),
    ],
)
def test_a_broken_run_is_named_and_does_not_hide_the_others(
    client: Any, run: Maker, name: str, text: str, words: str
) -> None:
    run("q", "base", 1, rows=["base", "bad"])
    (run("q", "bad", 1, rows=["base", "bad"]) / name).write_text(text, encoding="utf-8")
    sweep = client.json("/api/sweep/q")
    states = {entry["row"]: (entry["state"], entry["reason"]) for entry in sweep["runs"]}
    assert states["base"] == ("finished", None)
    assert states["bad"][0] == "broken" and words in states["bad"][1]
    assert client.json("/api/run/q/bad/seed1")["state"] == "broken"
    assert sweep["broken"][0]["path"] == "q/bad/seed1"


def test_values_of_the_wrong_kind_are_faults_of_their_run_alone(client: Any, run: Maker) -> None:
    names = ["base", "bad"]
    run("q", "base", 1, rows=names)
    folder = run("q", "bad", 1, rows=names)
    (folder / "result.json").write_text('{"scores": [], "loss": 3, "steps": "many", "seconds": null}', encoding="utf-8")
    (folder / "config.yaml").write_text("model: 3\nsweep: x\ntrainer: [1]\nvariation: 7\n", encoding="utf-8")
    sweep = client.json("/api/sweep/q")
    assert sweep["runs"][0]["id"] == "q/base/seed1"
    assert sweep["runs"][1]["reason"] == "config.yaml: model does not contain keys and values"
    assert client.json("/api/run/q/bad/seed1")["config"] == {}
    assert client.json("/api/compare?ids=q/base/seed1,q/bad/seed1")["runs"][1]["label"] == "bad"


# Curves ---------------------------------------------------------------------------------------------------------------


def test_curves_are_columns_of_what_was_measured(client: Any, run: Maker) -> None:
    run("q", "base", 1, points=6, steps=600)
    curves = client.json("/api/curves/q/base/seed1")
    assert curves["step"] == [100, 200, 300, 400, 500, 600]
    assert curves["tokens"][0] == 100 * 210
    places, values = curves["metrics"]["dev/bleu"]
    assert places == [2, 5] and values[1] == pytest.approx(80 * (1 - math.exp(-4)))


def test_curves_of_several_runs_have_only_what_was_asked_for(client: Any, run: Maker) -> None:
    for seed in (1, 2):
        run("q", "base", seed, points=6, steps=600)
    bad = run("q", "base", 3, points=6, steps=600)
    (bad / "metrics.jsonl").unlink()
    (bad / "metrics.jsonl.gz").write_bytes(b"no gzip")
    ids = [f"q%2Fbase%2Fseed{seed}" for seed in (2, 1, 3, 9)]
    found = client.json(f"/api/curves?ids={','.join(ids)}&metrics=dev%2Fbleu,none%2Csuch&x=tokens")
    assert [curves["id"] for curves in found["runs"]] == ["q/base/seed2", "q/base/seed1"]
    assert found["runs"][0].keys() == {"id", "step", "tokens", "metrics", "revision"}
    assert found["runs"][1]["step"] == [300, 600] and found["runs"][1]["tokens"] == [300 * 210, 600 * 210]
    whole = client.json("/api/curves/q/base/seed1")["metrics"]["dev/bleu"][1]
    assert found["runs"][1]["metrics"] == {"dev/bleu": [[0, 1], whole]}
    assert {item["path"]: item["reason"] for item in found["broken"]} == {
        "q/base/seed3": f"{bad / 'metrics.jsonl.gz'} cannot be read (Not a gzipped file (b'no'))",
        "q/base/seed9": "is no longer in the run store",
    }


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("ids=q/base/seed1", "Name runs and what they measured"),
        ("metrics=dev/bleu", "Name runs and what they measured"),
        ("ids=q/base/seed1&metrics=dev/bleu&x=epoch", "x=epoch: must be one of step, seconds"),
    ],
)
def test_curves_of_nothing_are_refused(client: Any, query: str, told: str) -> None:
    assert told in client.fault(f"/api/curves?{query}", 400)


def test_thinned_curves_keep_their_ends(client: Any, run: Maker) -> None:
    run("q", "base", 1, points=100, steps=1000)
    curves = client.json("/api/curves/q/base/seed1?points=5")
    places, values = curves["metrics"]["train/loss"]
    assert [curves["step"][place] for place in places] == [10, 260, 510, 750, 1000]
    assert len(values) == 5
    assert thinned(range(3), 5) == [0, 1, 2]
    assert "points=x" in client.fault("/api/curves/q/base/seed1?points=x", 400)


def test_measurements_are_read_as_they_are_appended(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    metrics = Metrics(path)
    metrics.update()
    assert metrics.lines == 0
    path.write_text('{"step": 1, "lr": 1.0}\n{"step": 2, "l', encoding="utf-8")
    metrics.update()
    assert metrics.costs["step"] == [1.0]
    with path.open("a", encoding="utf-8") as file:
        file.write('r": 2.0}\nnonsense\n{"step": 3, "lr": NaN, "dev/bleu": null}\n')
    metrics.update()
    assert metrics.costs["step"] == [1.0, 2.0, 3.0]
    assert metrics.scalars == {"lr": ([0, 1], [1.0, 2.0])}
    assert metrics.damaged == [3]


def test_a_file_that_was_cut_back_is_read_anew(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text("".join(f'{{"step": {n}, "lr": 1.0}}\n' for n in range(1, 6)), encoding="utf-8")
    metrics = Metrics(path)
    metrics.update()
    other = tmp_path / "new"
    other.write_text("".join(f'{{"step": {n}, "lr": 2.0}}\n' for n in range(1, 9)), encoding="utf-8")
    other.replace(path)  # longer than before, so only the file's identity reveals the change
    metrics.update()
    assert metrics.costs["step"] == [1, 2, 3, 4, 5, 6, 7, 8]
    assert set(metrics.scalars["lr"][1]) == {2.0}


@pytest.mark.parametrize("length", [5, 8])
def test_a_file_that_has_its_former_inode_again_is_read_anew(length: int, tmp_path: Path) -> None:
    """After several resumes between two reads, the number of the inode may come back, and the file may be longer."""
    path = tmp_path / "metrics.jsonl"
    path.write_text("".join(f'{{"step": {n}, "lr": 1.0}}\n' for n in range(1, 6)), encoding="utf-8")
    metrics = Metrics(path)
    metrics.update()
    before = path.stat().st_ino
    path.write_text("".join(f'{{"step": {n}, "lr": 2.0}}\n' for n in range(1, length + 1)), encoding="utf-8")
    assert path.stat().st_ino == before
    metrics.update()
    assert metrics.costs["step"] == [*range(1, length + 1)]
    assert set(metrics.scalars["lr"][1]) == {2.0}
    metrics.update()
    assert metrics.lines == length


def test_the_time_left_of_a_running_row_ends_with_its_minutes(client: Any, run: Maker) -> None:
    run("q", "base", 1, state="running", step=600, config={"trainer": {"max_steps": 1200, "max_minutes": 6}})
    (entry,) = client.json("/api/sweep/q")["runs"]
    assert entry["eta_seconds"] == pytest.approx(60.0)  # of 6 minutes, it has used 5


def test_a_glance_at_a_long_file_reads_its_ends(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    lines = [{"step": n, "lr": 0.5, "filler": "x" * 90} for n in range(2000)]
    lines[0]["first/only"] = 1.0
    lines[-1]["dev/bleu"] = 7.0
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    found = glance(path)
    assert found.values == {"first/only": 1.0, "dev/bleu": 7.0, "lr": 0.5}
    assert found.costs == {"step": 1999.0}
    assert glance(tmp_path / "none") == Glance()


def test_a_glance_sees_a_line_that_is_longer_than_the_ends(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    lines = [{"step": n, "dev/bleu": float(n), "x.kappa": [0.01] * 20_000} for n in range(4)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    assert path.stat().st_size > 4 * 100_000
    assert glance(path) == Glance({"dev/bleu": 3.0}, {"step": 3.0}, branched=True)


# Drawings -------------------------------------------------------------------------------------------------------------


def test_drawings_are_those_of_the_runs_task(client: Any, run: Maker) -> None:
    run("q", "base", 1)
    folder = run("single", "parser", 1, config={"task": "parsing"})
    gold = "(TOP (S (NP (DT the) (NN <b>)) (VP (VBD sat))))\n"
    for side, text in {"ref": gold * 2, "hyp": gold + gold.replace("NP", "VP"), "src": "the <b> sat\n" * 2}.items():
        (folder / f"hypotheses/test.{side}").write_text(text, encoding="utf-8")
    assert [entry["drawings"] for entry in client.json("/api/sweep/q")["runs"]] == [False]
    assert client.json("/api/drawings/q/base/seed1")["drawings"] == []
    assert [entry["drawings"] for entry in client.json("/api/sweep/single")["runs"]] == [True]
    found = client.json("/api/drawings/single/parser/seed1")
    assert fits(found, of_runs.Drawings, "drawings") == []
    (drawing,) = found["drawings"]
    assert (drawing["line"], drawing["title"]) == (2, "the <b> sat")
    assert "&lt;b&gt;" in drawing["svg"] and "<b>" not in drawing["svg"]
    (folder / "hypotheses/test.hyp").write_text("(TOP\n(TOP\n", encoding="utf-8")
    assert "never closed" in client.fault("/api/drawings/single/parser/seed1", 400)


# Branches and attention -----------------------------------------------------------------------------------------------


def test_branch_weights_by_layer_with_the_dead_ones_named(client: Any, run: Maker) -> None:
    folder = run("q", "wide", 1, branches=2, points=2, steps=20)
    lines = [
        {"step": 10, "branch/decoder.0.cross.kappa": [0.4, 0.6], "branch/decoder.0.cross.alpha": [0.5, 0.5]},
        {"step": 20, "branch/decoder.0.cross.kappa": [0.0, 1.0], "branch/decoder.0.cross.alpha": [0.0, 1.0]},
        {"step": 20, "branch/encoder.1.self.kappa": [0.0, 1.0], "branch/dead": 2},
    ]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    found = client.json("/api/branches/q/wide/seed1")
    assert found["steps"] == [10, 20, 20]
    assert [(layer["name"], layer["label"]) for layer in found["layers"]] == [
        ("encoder.1.self", "encoder layer 2, self"),
        ("decoder.0.cross", "decoder layer 1, cross"),
    ]
    assert found["layers"][1]["kappa"] == [[0.4, 0.6], [0.0, 1.0], None]
    assert found["dead"] == [
        {"layer": "encoder.1.self", "branch": 0, "weight": "kappa"},
        {"layer": "decoder.0.cross", "branch": 0, "weight": "both"},
    ]
    assert found["dead_counts"] == [None, None, 2]


def test_attention_is_what_the_run_stored(client: Any, run: Maker) -> None:
    run("q", "base", 1)
    assert client.fault("/api/attention/q/base/seed1", 404) == "This run has no stored attention maps."
    folder = run("q", "wide", 1, attention=True)
    (sentence,) = client.json("/api/attention/q/wide/seed1")["sentences"]
    assert [layer["name"] for layer in sentence["layers"]][:2] == ["encoder.0", "encoder.1"]
    stored = json.loads((folder / "attention.json").read_text())
    for more in ({"references": True}, {"note": "The targets are references: no stored translation is short enough."}):
        (folder / "attention.json").write_text(json.dumps(stored | more), encoding="utf-8")
        found = client.json("/api/attention/q/wide/seed1")
        assert found["references"] is True and fits(found, of_runs.Attention) == []
    (folder / "attention.json").write_text("[]", encoding="utf-8")
    assert "cannot be read" in client.fault("/api/attention/q/wide/seed1", 400)


# Compare --------------------------------------------------------------------------------------------------------------


def true_score(folder: Path) -> float:
    """Write the BLEU of a run's stored text into its result, and return it."""
    texts = [(folder / f"hypotheses/test.{end}").read_text(encoding="utf-8").splitlines() for end in ("hyp", "ref")]
    score = float(BLEU().corpus_score(texts[0], [texts[1]]).score)
    result = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    result["scores"]["test"]["bleu"]["value"] = score
    (folder / "result.json").write_text(json.dumps(result), encoding="utf-8")
    return score


def compared(root: Path, *ids: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """What is compared, read anew, and its test BLEU."""
    found = json.loads(Api(Store(root)).answer("compare", {"ids": ",".join(ids)}))
    return found, next(item for item in found["scores"] if (item["set"], item["name"]) == ("test", "bleu"))


@pytest.mark.usefixtures("pair")
def test_compare_shows_only_what_differs(client: Any, root: Path) -> None:
    base, wide = (true_score(root / f"q/{row}/seed1") for row in ("base", "wide"))
    found = client.json("/api/compare?ids=q/base/seed1,q/wide/seed1")
    settings = {item["key"]: item["values"] for item in found["config"]}
    assert settings["model.h"] == [8, 16] and "model.N" not in settings and "seed" not in settings
    assert not any(key.startswith("variation") for key in settings)
    assert found["environment"] == []
    score = next(item for item in found["scores"] if (item["set"], item["name"]) == ("test", "bleu"))
    assert score["values"] == [base, wide] and score["difference"] == [None, wide - base] and found["notes"] == []
    low, high = score["ci"][1]
    assert score["ci"][0] is None and 0 < low < high  # from the stored text, where `wide` has fewer errors
    loss = next(item for item in found["scores"] if item["label"] == "dev PPL")
    assert loss["higher_is_better"] is False and loss["difference"] == [None, 0.0]


@pytest.mark.usefixtures("pair")
def test_compared_sentences_are_those_with_the_largest_differences(client: Any) -> None:
    found = client.json("/api/compare?ids=q/base/seed1,q/wide/seed1")
    differences = [abs(item["difference"]) for item in found["sentences"]]
    assert differences == sorted(differences, reverse=True) and 0 < len(differences) <= 20
    first = found["sentences"][0]
    assert first["difference"] > 0  # `wide` is right where `base` has an error
    assert first["hypotheses"][1] == first["reference"] and first["scores"][1] == 100.0


def test_runs_with_other_references_are_said_to_be_incomparable(client: Any, run: Maker) -> None:
    run("q", "base", 1, sentences=40)
    run("q", "other", 1, sentences=30, config={"debug": {"name": "limit"}})
    run("q", "started", 1, state="running", step=300)
    found = client.json("/api/compare?ids=q/base/seed1,q/other/seed1,q/started/seed1")
    assert found["sentences"] == []
    assert any("q/other/seed1 was tested with other references" in note for note in found["notes"])
    assert any("q/started/seed1 has stored no texts" in note for note in found["notes"])
    assert "q/other/seed1: debug=limit: a trial run, not a result" in found["notes"]


@pytest.mark.usefixtures("pair")
def test_compare_says_which_seed_is_not_trained_by_itself(root: Path) -> None:
    path = root / "q/wide/seed1/metrics.jsonl"
    lines = [{"step": 100 * place, "dev/nll": 3.0 - 0.1 * place} for place in range(1, 11)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    for row in ("base", "wide"):
        true_score(root / f"q/{row}/seed1")
    found, score = compared(root, "q/base/seed1", "q/wide/seed1")
    [note] = [note for note in found["notes"] if "not trained" in note]
    assert note.startswith("q/wide/seed1 by itself is not trained: dev perplexity fell by ")
    assert note.endswith(
        " % in the last fifth of its steps. Its differences are not tested. "
        "The table judges the seeds of a row together."
    )
    assert score["difference"][1] is not None
    assert score["ci"] == score["p"] == [None, None]


@pytest.mark.usefixtures("pair")
def test_what_a_table_does_not_compare_has_no_difference(root: Path) -> None:
    ids = ("q/base/seed1", "q/wide/seed1")
    true_score(root / "q/base/seed1")
    found, score = compared(root, *ids)
    assert score["difference"] == [None, None] and score["ci"] == [None, None]
    told = "q/wide/seed1: the score in result.json is 85.00, but that of its stored sentences"
    assert any(told in note for note in found["notes"])

    true_score(root / "q/wide/seed1")
    for row, digest in (("base", "1"), ("wide", "2")):
        path = root / f"q/{row}/seed1/environment.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {"data": {"valid.de": digest}}), encoding="utf-8")
    found, score = compared(root, *ids)
    assert [item["label"] for item in found["scores"] if item["difference"] != [None, None]] == []
    assert found["notes"] == ["q/wide/seed1 is not compared with q/base/seed1: its inputs differ (valid.de)."]

    (root / "q/wide/seed1/hypotheses/test.ref").write_text("Anders.\n" * 60, encoding="utf-8")
    found, score = compared(root, *ids)
    assert score["difference"] == [None, None]
    assert "q/wide/seed1 is not compared with q/base/seed1: it has other test references." in found["notes"]


@pytest.mark.usefixtures("pair")
def test_a_run_of_another_task_has_no_scores_to_compare(root: Path) -> None:
    path = root / "q/base/seed1/config.yaml"
    config = yaml.safe_load(path.read_text(encoding="utf-8")) | {"task": "question_answering"}
    config["sweep"]["metric"] = "test.error"
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    path = root / "q/base/seed1/result.json"
    scores = {"test": {"error": {"value": 5.0, "convention": "percent"}}}
    path.write_text(json.dumps(json.loads(path.read_text()) | {"scores": scores, "loss": {}}), encoding="utf-8")
    for ids in (("q/base/seed1", "q/wide/seed1"), ("q/wide/seed1", "q/base/seed1")):
        found = json.loads(Api(Store(root)).answer("compare", {"ids": ",".join(ids)}))
        assert all(score["values"][1] is None for score in found["scores"])
        assert f"{ids[1]} has another task than {ids[0]}: its scores are not shown." in found["notes"]


@pytest.mark.usefixtures("pair")
def test_losses_of_other_cases_have_no_difference(root: Path) -> None:
    ids = ("q/base/seed1", "q/wide/seed1")
    path = root / f"{ids[1]}/config.yaml"
    config = yaml.safe_load(path.read_text(encoding="utf-8"))
    config["data"]["lowercase"] = True
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    found, _ = compared(root, *ids)
    losses = {score["label"]: score["difference"] for score in found["scores"] if score["label"] == "dev PPL"}
    assert losses == {"dev PPL": [None, None]}
    told = f"{ids[1]} is not compared with {ids[0]}: dev PPL depends on data.lowercase, which differs."
    assert told in found["notes"]


@pytest.mark.usefixtures("pair")
def test_a_table_shows_edited_texts_and_row_files(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stamps = iter(["1", "1", "2"])
    monkeypatch.setattr("variations.dashboard.api.files_stamp", lambda: next(stamps))
    api = Api(Store(root))
    first = api.answer("sweep/q", {"significance": "1"})
    assert api.answer("sweep/q", {"significance": "1"}) is first
    assert api.answer("sweep/q", {"significance": "1"}) is not first  # the file of a row was edited
    monkeypatch.setattr("variations.dashboard.api.files_stamp", lambda: "2")
    notes = json.loads(api.answer("sweep/q", {"significance": "1"}))["table"]["rows"][1]["notes"]
    path = root / "q/wide/seed1/hypotheses/test.hyp"
    path.write_text("Anders.\n" * 60, encoding="utf-8")
    edited = json.loads(api.answer("sweep/q", {"significance": "1"}))["table"]["rows"][1]["notes"]
    assert edited != notes


def test_compare_wants_known_runs_and_at_least_two(client: Any, run: Maker) -> None:
    run("q", "base", 1)
    assert "2 to 12 runs" in client.fault("/api/compare?ids=q/base/seed1", 400)
    assert "no run 'q/x/seed1'" in client.fault("/api/compare?ids=q/base/seed1,q/x/seed1", 404)


def test_commas_in_names_are_told_from_commas_between_them(client: Any, run: Maker) -> None:
    run("grid", "h=8,N=2", 1)
    run("grid", "h=4,N=2", 1, h=4)
    ids = ",".join(
        name.replace(",", "%2C").replace("/", "%2F") for name in ("grid/h=8,N=2/seed1", "grid/h=4,N=2/seed1")
    )
    assert [item["id"] for item in client.json(f"/api/compare?ids={ids}")["runs"]] == [
        "grid/h=8,N=2/seed1",
        "grid/h=4,N=2/seed1",
    ]


# The store ------------------------------------------------------------------------------------------------------------


def test_the_revision_changes_with_any_file_of_a_run_and_only_then(run: Maker, root: Path) -> None:
    folder = run("q", "base", 1)
    store = Store(root)
    seen = [store.snapshot(fresh=True).revision]
    assert store.snapshot(fresh=True).revision == seen[0]
    with (folder / "metrics.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"step": 1300}\n')
    seen.append(store.snapshot(fresh=True).revision)
    run("q", "more", 1)
    seen.append(store.snapshot(fresh=True).revision)
    shutil.rmtree(root / "q" / "more")
    assert store.snapshot(fresh=True).revision == seen[1]
    assert len(set(seen)) == 3


@pytest.mark.slow
def test_the_first_view_of_200_runs_tests_nothing_and_reads_no_curve(
    fabricate: Callable[..., list[str]], client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = fabricate(100, 2, points=8, sentences=5)

    def never(*arguments: Any, **options: Any) -> Any:
        raise AssertionError("too slow for a first view")

    monkeypatch.setattr(Store, "metrics", never)
    monkeypatch.setattr("variations.tables.chance.paired_tests", never)
    assert client.json("/api/index")["sweeps"][0]["runs"] == 200
    sweep = client.json("/api/sweep/big")
    assert [entry["id"] for entry in sweep["runs"]] == ids
    assert len(sweep["table"]["rows"]) == 100
    assert {"dev/bleu", "train/loss", "branch/dead"} <= set(sweep["metrics"])


@pytest.mark.parametrize("number", ["1e999", "9" * 400, "-1E+0400"])
def test_a_line_with_a_number_that_no_float_holds_is_left_out(client: Any, run: Maker, number: str) -> None:
    folder = run("q", "base", 1, points=6, steps=600)
    before = client.json("/api/curves/q/base/seed1")["metrics"]["dev/bleu"][1]
    with (folder / "metrics.jsonl").open("a") as file:
        file.write(f'{{"step": 700, "dev/bleu": {number}}}\n{{"step": 800, "dev/bleu": 1e30}}\n')
    assert client.json("/api/curves/q/base/seed1")["metrics"]["dev/bleu"][1] == [*before, 1e30]
