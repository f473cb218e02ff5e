"""*Compare*: what differs between runs, which of their scores have a difference, and their sentences."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from sacrebleu.metrics.bleu import BLEU

from variations.dashboard.api import Api
from variations.dashboard.compare import RESTARTED
from variations.dashboard.store import Store

Maker = Callable[..., Path]


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


@pytest.mark.usefixtures("pair")
def test_runs_that_have_translated_another_set_only_are_compared_on_it(client: Any, root: Path) -> None:
    """As the trials of a search, with `decode.sets=[dev]`."""
    before = client.json("/api/compare?ids=q/base/seed1,q/wide/seed1")["sentences"]
    for row in ("base", "wide"):
        folder = root / f"q/{row}/seed1"
        result = json.loads((folder / "result.json").read_text())
        result["scores"] = {"dev": result["scores"]["test"]}
        (folder / "result.json").write_text(json.dumps(result), encoding="utf-8")
        for path in (folder / "hypotheses").glob("test.*"):
            path.rename(path.with_name(path.name.replace("test", "dev")))
    found = client.json("/api/compare?ids=q/base/seed1,q/wide/seed1")
    assert found["sentences"] == before and before
    told = "The sentences are from dev, because either q/base/seed1 or all other runs have no stored text of test."
    assert told in found["notes"]


def test_runs_with_other_references_are_said_to_be_incomparable(client: Any, run: Maker) -> None:
    run("q", "base", 1, sentences=40)
    run("q", "other", 1, sentences=30, config={"debug": {"name": "limit"}})
    run("q", "started", 1, state="running", step=300)
    found = client.json("/api/compare?ids=q/base/seed1,q/other/seed1,q/started/seed1")
    assert found["sentences"] == []
    assert any("q/other/seed1 was tested with other references" in note for note in found["notes"])
    assert "q/started/seed1 has stored no texts of test, so none of them are shown." in found["notes"]
    assert "q/other/seed1: debug=limit: a quick check, not a result" in found["notes"]


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
    scores = [item for item in found["scores"] if item["set"] == "test" and item["name"] not in ("nll", "ppl")]
    assert len(scores) > 1 and all(item["difference"] == [None, None] for item in scores)  # of the same texts

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
def test_an_edited_text_is_read_again_by_a_dashboard_that_has_compared_the_runs(root: Path) -> None:
    for row in ("base", "wide"):
        true_score(root / f"q/{row}/seed1")
    api, query = Api(Store(root)), {"ids": "q/base/seed1,q/wide/seed1"}
    assert json.loads(api.answer("compare", query))["notes"] == []
    text = root / "q/wide/seed1/hypotheses/test.hyp"
    text.write_text("Anders.\n" * len(text.read_text(encoding="utf-8").splitlines()), encoding="utf-8")
    assert "that of its stored sentences" in json.loads(api.answer("compare", query))["notes"][0]


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
def test_runs_of_several_restarts_are_told_that_their_chance_is_left_out(root: Path) -> None:
    ids = ("q/base/seed1", "q/wide/seed1")
    assert RESTARTED not in compared(root, *ids)[0]["notes"]
    path = root / f"{ids[1]}/result.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"restarts": 3}), encoding="utf-8")
    assert RESTARTED in compared(root, *ids)[0]["notes"]


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
