"""The dashboard's payloads agree with the run folders."""

import errno
import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, NotRequired, Union, get_args, get_origin, get_type_hints, is_typeddict

import pytest
import yaml

from variations.dashboard import sweeps
from variations.dashboard.api import Api, MissingError
from variations.dashboard.metrics import thinned
from variations.dashboard.payload import runs as of_runs
from variations.dashboard.payload import sweeps as of_sweeps
from variations.dashboard.store import Store
from variations.store.lease import Lease
from variations.store.ledger import RunFolder
from variations.tables.collect import stored

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


def test_a_search_is_compared_by_what_it_optimises(client: Any, run: Maker) -> None:
    search = {"metrics": ["flops", "dev.bleu"], "trials": 2, "space": {}}
    for row in ("trial0", "trial1"):
        folder = run(
            "tuned",
            row,
            1,
            config={"sweep": {"name": "tuned", "search": search}, "search": {"trial": 0, "study": "tuned"}},
        )
        result = json.loads((folder / "result.json").read_text())
        del result["scores"]["test"]  # decode.sets=[dev]
        (folder / "result.json").write_text(json.dumps(result))
    found = client.json("/api/sweep/tuned")
    assert found["table"]["metric"] == "dev.bleu"
    assert [entry["score"] for entry in found["runs"]] == [80.0, 80.0]
    assert client.json("/api/importance/tuned")["measure"] == "dev.bleu"


def test_what_is_measured_and_counted_has_the_tasks_names(client: Any, run: Maker) -> None:
    folder = run("stories", "base", 1, config={"task": "question_answering"})
    lines = [{"step": n, "train/loss": 1.0, "dev/error": 50.0, "flops": 9.0 * n} for n in (1, 2)]
    (folder / "metrics.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    found = client.json("/api/sweep/stories")
    assert found["labels"]["train/loss"] == "training loss per question, mean over restarts (memnn: margins)"
    assert found["labels"]["dev/error"] == "dev error, %, mean over networks and restarts"
    assert found["axes"] == ["step", "flops"]
    run("q", "base", 1)
    assert client.json("/api/sweep/q")["axes"] == ["step", "target_tokens", "tokens", "seconds", "flops"]


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


def test_seeds_that_the_sweep_does_not_ask_for_are_mentioned_as_in_the_printed_table(client: Any, run: Maker) -> None:
    run("q", "base", 7)
    run("q", "base", 1)  # the newest, which asks for its own seed
    sweep = client.json("/api/sweep/q")
    assert [entry["seed"] for entry in sweep["runs"]] == [1, 7]
    told = "Included are runs with seeds that the sweep does not ask for (7); seeds=[1] leaves them out."
    assert told in sweep["table"]["footnotes"]


def test_a_running_row_says_how_far_it_is_and_how_long_it_takes(client: Any, run: Maker) -> None:
    run("q", "base", 1, state="running", step=600)
    (entry,) = client.json("/api/sweep/q")["runs"]
    assert (entry["state"], entry["step"], entry["max_steps"]) == ("running", 600, 1200)
    assert entry["eta_seconds"] == pytest.approx(300.0)  # half a second per step
    assert entry["score"] is None and entry["live_score"] == pytest.approx(80 * (1 - math.exp(-2)))


def test_a_validation_of_another_score_than_the_sweeps_is_not_shown_as_one(client: Any, run: Maker) -> None:
    """Validations measure BLEU."""
    config = {"sweep": {"name": "q", "rows": ["base"], "seeds": [1], "metric": "test.chrf"}}
    run("q", "base", 1, state="running", step=600, config=config)
    (entry,) = client.json("/api/sweep/q")["runs"]
    assert entry["live_score"] is None


def test_runs_of_another_task_have_their_own_drawings_and_no_score_of_the_tables(client: Any, run: Maker) -> None:
    run("single", "a", 1)
    run("single", "b", 1, config={"task": "parsing"})
    entries = {entry["row"]: entry for entry in client.json("/api/sweep/single")["runs"]}
    assert {row: (entry["score"] is None, entry["drawings"]) for row, entry in entries.items()} == {
        "a": (False, False),
        "b": (True, True),
    }


def test_without_a_table_the_attempts_that_it_would_read_are_shown(client: Any, run: Maker) -> None:
    config = {"sweep": {"name": "q", "rows": ["base"], "seeds": [1], "metric": "test.nonsense"}}
    first = run("q", "base", 1, config=config)
    shutil.copytree(first, first.with_name("seed1-attempt2"))
    run("q", "base", 2, config=config)
    sweep = client.json("/api/sweep/q")
    assert sweep["table"] is None
    assert {entry["id"]: entry["latest"] for entry in sweep["runs"]} == {
        "q/base/seed1": False,
        "q/base/seed1-attempt2": True,
        "q/base/seed2": True,
    }


def test_a_running_row_keeps_its_latest_validation_however_many_lines_follow(client: Any, run: Maker) -> None:
    folder = run("q", "base", 1, state="running", step=600)
    with (folder / "metrics.jsonl").open("a", encoding="utf-8") as file:
        for step in range(601, 1101):
            file.write(json.dumps({"step": step, "seconds": step / 2, "lr": 0.1, "filler": "x" * 200}) + "\n")
    sweep = client.json("/api/sweep/q")
    (entry,) = sweep["runs"]
    assert (entry["step"], entry["live_score"]) == (1100, pytest.approx(80 * (1 - math.exp(-2))))
    assert "dev/bleu" in sweep["metrics"]


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


def test_a_log_that_cannot_be_read_is_named_and_the_rest_is_shown(
    client: Any, run: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("q", "base", 1, state="failed", reason="out of memory")

    def refused(found: Any) -> list[str]:
        raise PermissionError(errno.EACCES, "Permission denied", "log.txt")

    monkeypatch.setattr("variations.dashboard.sweeps._end_of_log", refused)
    (entry,) = client.json("/api/sweep/q")["runs"]
    assert entry["log_tail"] == ["out of memory", "Its log cannot be read: Permission denied."]


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


def test_measurements_that_are_not_those_of_the_result_have_no_curves(client: Any, run: Maker) -> None:
    folder = RunFolder(run("q", "base", 1, points=6, steps=600))
    run("q", "base", 2, points=6, steps=600)
    folder.write_result(folder.result() or {})
    lines = folder.measurements.path.read_text().splitlines(keepends=True)
    folder.measurements.path.write_text("".join(lines[:-1]))
    found = client.json("/api/curves?ids=q%2Fbase%2Fseed1,q%2Fbase%2Fseed2&metrics=dev%2Fbleu&x=step")
    reason = "q/base/seed1: metrics.jsonl is not the file that its result was stored with"
    assert [curves["id"] for curves in found["runs"]] == ["q/base/seed2"]
    assert found["broken"] == [{"path": "q/base/seed1", "reason": reason}]


def test_a_copy_of_another_seed_has_no_curves_and_no_score(client: Any, run: Maker) -> None:
    folder = run("q", "base", 1, branches=2)
    shutil.copytree(folder, folder.with_name("seed2"))
    first, copy = client.json("/api/sweep/q")["runs"]
    assert (first["state"], copy["state"]) == ("finished", "broken")
    assert first["score"] is not None and first["branched"]
    assert (copy["score"], copy["live_score"], copy["branched"]) == (None, None, False)
    found = client.json("/api/curves?ids=q%2Fbase%2Fseed1,q%2Fbase%2Fseed2&metrics=dev%2Fbleu&x=step")
    assert [curves["id"] for curves in found["runs"]] == ["q/base/seed1"]
    (lost,) = found["broken"]
    assert lost["path"] == "q/base/seed2" and "seed 1, so this folder is a copy of another run" in lost["reason"]


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
        ("ids=q/base/seed1&metrics=dev/bleu&x=epoch", "x=epoch: must be one of step, target_tokens"),
    ],
)
def test_curves_of_nothing_are_refused(client: Any, query: str, told: str) -> None:
    assert told in client.fault(f"/api/curves?{query}", 400)


def test_thinned_curves_keep_their_ends(client: Any, run: Maker) -> None:
    run("q", "base", 1, points=100, steps=1000)
    curves = client.json("/api/curves/q/base/seed1?points=5")
    places, values = curves["metrics"]["train/loss"]
    assert [curves["step"][place] for place in places] == [10, 330, 650, 970, 1000]
    assert len(values) == 5
    assert thinned(range(3), 5) == [0, 1, 2]
    assert "points=x" in client.fault("/api/curves/q/base/seed1?points=x", 400)


def test_the_time_left_of_a_running_row_ends_with_its_minutes(client: Any, run: Maker) -> None:
    run("q", "base", 1, state="running", step=600, config={"trainer": {"max_steps": 1200, "max_minutes": 6}})
    (entry,) = client.json("/api/sweep/q")["runs"]
    assert entry["eta_seconds"] == pytest.approx(60.0)  # of 6 minutes, it has used 5


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


# The store ------------------------------------------------------------------------------------------------------------


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


def test_a_run_in_a_queue_is_queued_in_table_and_dashboard(client: Any, run: Maker) -> None:
    folders = {state: run("q", state, 1, state=state, step=600) for state in ("interrupted", "finished", "failed")}
    for folder in folders.values():
        Lease.claim(folder, None, "queued", pool="slurm", key="onehost/abc_0")
    states = {entry["row"]: entry["state"] for entry in client.json("/api/sweep/q")["runs"]}
    assert states == {"interrupted": "queued", "finished": "finished", "failed": "failed"}
    assert {state: stored(RunFolder(folder)).state for state, folder in folders.items()} == states


def test_a_run_that_is_tested_has_no_time_left_to_train(client: Any, run: Maker) -> None:
    run("q", "base", 1, state="running", step=1200)
    (entry,) = client.json("/api/sweep/q")["runs"]
    assert (entry["state"], entry["eta_seconds"]) == ("running", None)
