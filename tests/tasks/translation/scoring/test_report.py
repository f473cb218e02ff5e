import gzip
import json
import shutil

import pytest
import yaml

from variations.commands.score import ScoreConfig, score
from variations.store.ledger import RunFolder
from variations.system.errors import DataError, UserError


@pytest.fixture
def files(tmp_path):
    """A file with two hypotheses, one with two references and one with two sources."""
    (tmp_path / "out.txt").write_text("Der Hund schläft heute im Garten.\n\n", encoding="utf-8")
    (tmp_path / "test.de").write_text("Der Hund schläft heute im Garten.\nJa.\n", encoding="utf-8")
    (tmp_path / "test.en").write_text("The dog is sleeping in the garden today.\nYes.\n", encoding="utf-8")
    return tmp_path


@pytest.fixture
def run(tmp_path):
    """A finished run's folder with two sets."""
    folder = tmp_path / "runs" / "single" / "demo" / "seed1"
    (folder / "hypotheses").mkdir(parents=True)
    for name in ("test", "dev"):
        for ending, text in {"hyp": "Un chat dort ici.\n", "ref": "Un chat dort ici.\n", "src": "A cat.\n"}.items():
            (folder / "hypotheses" / f"{name}.{ending}").write_text(text, encoding="utf-8")
    (folder / "config.yaml").write_text(yaml.safe_dump({"data": {"source": "en", "target": "fr"}}), encoding="utf-8")
    (folder / "result.json").write_text(
        json.dumps({"loss": {"dev_nll": 1.5, "dev_ppl": 4.5, "dev_ppl_per_word": 9.0}}), encoding="utf-8"
    )
    return folder


def config(folder, **changes):
    return ScoreConfig(**({"hyp": str(folder / "out.txt"), "ref": str(folder / "test.de")} | changes))


def document(capsys, settings):
    settings.format = "json"
    score(settings)
    return json.loads(capsys.readouterr().out)


def test_json_is_one_document_with_every_score(files, capsys):
    found = document(capsys, config(files, src=str(files / "test.en")))
    assert list(found["scores"]) == [
        "bleu", "bleu_lc", "bleu_tok", "bleu_tok_lc", "bleu_split", "chrf", "gleu", "exact_match",
    ]  # fmt: skip
    assert found["scores"]["exact_match"]["value"] == 50
    assert found["scores"]["bleu"]["signature"].startswith("nrefs:1|case:mixed|eff:no|tok:13a")
    assert (found["lines"], found["empty_hypotheses"], found["language"]) == (2, 1, "de")
    assert found["notes"] == ["1 of 2 hypotheses empty (line 2); they are scored as they are."]


def test_terminal_shows_names_values_and_conventions(files, capsys):
    score(config(files))
    shown = capsys.readouterr().out
    assert "2 lines, target language de" in shown
    assert "exact_match" in shown and "50.00" in shown
    assert "Note: 1 of 2 hypotheses empty (line 2)" in shown


def test_language_comes_from_the_key_or_the_file_name_or_is_german(files, capsys):
    (files / "reference").write_text((files / "test.de").read_text(encoding="utf-8"), encoding="utf-8")
    assert document(capsys, config(files, lang="fr"))["language"] == "fr"
    assert document(capsys, config(files, ref=str(files / "test.en")))["language"] == "en"
    assert document(capsys, config(files, ref=str(files / "reference")))["language"] == "de"


def test_lines_copied_from_the_source_are_counted(files, capsys):
    found = document(capsys, config(files, hyp=str(files / "test.en"), src=str(files / "test.en")))
    assert "2 of 2 hypotheses repeat their source unchanged." in found["notes"]


def test_a_run_is_scored_in_its_own_language_with_its_perplexity(run, capsys):
    found = document(capsys, ScoreConfig(run=str(run), set="dev"))
    assert found["language"] == "fr"
    assert found["scores"]["exact_match"]["value"] == 100
    assert found["scores"]["ppl"]["value"] == 4.5
    assert found["scores"]["ppl_per_word"]["value"] == 9.0
    assert "ppl" not in document(capsys, ScoreConfig(run=str(run)))["scores"]


def test_unknown_set_names_the_choices(run):
    with pytest.raises(DataError, match=r"set=valid; valid choices: dev, test\."):
        score(ScoreConfig(run=str(run), set="valid"))


def test_a_record_is_scored_as_its_run(run, capsys):
    expected = document(capsys, ScoreConfig(run=str(run)))["scores"]
    for text in (run / "hypotheses").iterdir():
        text.with_name(f"{text.name}.gz").write_bytes(gzip.compress(text.read_bytes()))
        text.unlink()
    assert document(capsys, ScoreConfig(run=str(run)))["scores"] == expected
    with pytest.raises(DataError, match="has no hypotheses of set=valid; valid choices: dev, test"):
        score(ScoreConfig(run=str(run), set="valid"))
    (run / "hypotheses/test.ref.gz").rename(run / "hypotheses/test.ref.sha256")
    with pytest.raises(DataError, match="lacks the references, which may not be published; its scores are in"):
        score(ScoreConfig(run=str(run)))


def test_a_run_that_lost_its_references_is_told_so(run):
    (run / "hypotheses/test.ref").unlink()
    with pytest.raises(DataError, match=r"has lost the references of set=test: restore .*hypotheses/test\.ref\."):
        score(ScoreConfig(run=str(run)))


def test_missing_run_and_run_without_hypotheses_differ(run):
    with pytest.raises(DataError, match="does not exist"):
        score(ScoreConfig(run=str(run / "nowhere")))
    with pytest.raises(DataError, match="has no hypotheses yet"):
        score(ScoreConfig(run=str(run.parent)))


def test_a_pruned_run_will_never_have_hypotheses(run):
    shutil.rmtree(run / "hypotheses")
    (run / "result.json").unlink()
    RunFolder(run).set_status("pruned")
    with pytest.raises(DataError, match="was pruned by its search before it translated anything: score another trial"):
        score(ScoreConfig(run=str(run)))


def test_damaged_result_of_a_run_is_named(run):
    (run / "result.json").write_text("{", encoding="utf-8")
    with pytest.raises(UserError, match=r"result\.json"):
        score(ScoreConfig(run=str(run)))


def test_differing_line_counts_are_named_with_both(files):
    (files / "out.txt").write_text("eins\nzwei\ndrei\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"out\.txt has 3 lines but the reference file .*test\.de has 2"):
        score(config(files))


def test_keys_that_do_not_fit_together_are_refused(files):
    with pytest.raises(UserError, match=r"run=FOLDER, or hyp=FILE ref=FILE \(missing: hyp=FILE and ref=FILE\)"):
        score(ScoreConfig())
    with pytest.raises(UserError, match=r"\(missing: ref=FILE\)"):
        score(ScoreConfig(hyp=str(files / "out.txt")))
    with pytest.raises(UserError, match="not both: leave out hyp, ref or run"):
        score(config(files, run=str(files)))


def test_a_signature_is_never_cut_on_a_narrow_terminal(files, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    score(config(files))
    assert "…" not in capsys.readouterr().out


def test_references_too_short_for_bleu_are_mentioned(tmp_path, capsys):
    (tmp_path / "out.txt").write_text("a b\n", encoding="utf-8")
    (tmp_path / "test.de").write_text("a b\n", encoding="utf-8")
    found = document(capsys, config(tmp_path))
    assert found["notes"] == ["No reference has 4 words, so BLEU is meaningless here: use `exact_match`."]


def test_a_set_without_a_run_is_refused(files):
    with pytest.raises(UserError, match="set=dev is a set of a run"):
        score(config(files, set="dev"))


def test_a_language_that_moses_does_not_know_is_said_and_a_word_is_refused(files, capsys):
    assert any("no list of abbreviations for" in note for note in document(capsys, config(files, lang="xx"))["notes"])
    assert not any("abbreviations" in note for note in document(capsys, config(files, lang="fr"))["notes"])
    with pytest.raises(UserError, match="lang=German is not a language code"):
        score(config(files, lang="German"))
