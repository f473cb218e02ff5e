"""Parsing from the configuration to a scored run, on the built-in treebank."""

import gzip
import io
import json
from collections.abc import Callable
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from variations import models
from variations.commands.run import execute
from variations.configuration.compose import compose_run, to_dict
from variations.configuration.faults import faults
from variations.models.network import Tokens
from variations.store.ledger import RunFolder
from variations.store.row_files import edited, replaced
from variations.system.errors import DataError, UserError
from variations.tasks.base import TestedRun
from variations.tasks.parsing import measures
from variations.tasks.parsing.corpus import load
from variations.tasks.parsing.module import ParsingData, changed_files
from variations.tasks.parsing.scoring import document, score_files
from variations.tasks.parsing.task import TASK
from variations.tasks.parsing.treebank import DESCRIBED
from variations.tasks.parsing.trees import parse_trees

TRAINED = ("transformer_wsj", "transformer_semi")
ROW = "variation=attention_table4/transformer_wsj"
SMALL = ["task=parsing", "logger=none", "model.d_model=32", "model.d_ff=32", "model.h=2", "model.N=1"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of four updates on 40 trees, tested on six."""
    settings = ["trainer.max_steps=4", "trainer.val_bleu=4", "trainer.progress=false", "trainer.limit_test=6"]
    data = ["data.train_trees=40", "decode.beam=2", "decode.sets=[test,dev]"]
    store = tmp_path_factory.mktemp("runs")
    return execute(compose_run([*SMALL, *settings, *data, f"runs={store}"]))


def result(run: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((run / "result.json").read_text(encoding="utf-8"))
    return found


@pytest.mark.slow
def test_a_run_ends_with_the_scores_of_its_trees(run: Path) -> None:
    found = result(run)
    assert set(found["scores"]) == {"test", "dev"}
    assert set(found["scores"]["test"]) == set(measures.SCORES)
    assert found["treebank"] == "built-in trees, generated from data.seed=1"
    assert found["parsed"]["test"]["tags"] == "predicted"
    assert sum(row["sentences"] for row in found["parsed"]["test"]["by_length"].values()) == 6
    for name in ("test", "dev"):
        files = [run / "hypotheses" / f"{name}.{ending}" for ending in ("hyp", "ref")]
        trees = [parse_trees(path.read_text(encoding="utf-8")) for path in files]
        assert [tree.words() for tree in trees[0]] == [tree.words() for tree in trees[1]]
        scored = document(*score_files(*files))["scores"]["all"]
        assert found["scores"][name]["recall"]["value"] == pytest.approx(scored["recall"])
        assert scored["errors"] == scored["skipped"] == 0


@pytest.mark.slow
def test_counts_of_sentences_add_up_to_the_scores(run: Path) -> None:
    folder, found = RunFolder.open(run), result(run)
    for score in ("f1", "recall", "precision", "exact", "tags"):
        measure = TASK.metric(score)
        counts = TASK.items(TestedRun(folder, {}, {}), measure)
        assert counts.shape == (6, 7)
        assert TASK.aggregate(measure, counts.sum(0)) == pytest.approx(measure.value(found))
        assert TASK.aggregate(measure, np.stack([counts.sum(0)] * 2)).shape == (2,)
    with pytest.raises(DataError, match="no counts by sentence"):
        TASK.items(TestedRun(folder, {}, {}), TASK.metric("valid"))
    with pytest.raises(DataError, match="has no trees of set=other"):
        TASK.items(TestedRun(folder, {}, {}), TASK.measure("other.f1"))


@pytest.mark.parametrize("kind", ["toy", "sample"])
def test_a_record_holds_no_words_of_a_treebank_and_gives_the_same_scores(run: Path, tmp_path: Path, kind: str) -> None:
    folder, copy = RunFolder.open(run), RunFolder(tmp_path)
    kept = TASK.record(TestedRun(folder, {"data": {"kind": kind}}, {}))
    for name, content in kept.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content)
    endings = {"toy": ("hyp.gz", "ref.gz", "src.gz"), "sample": ("counts.npy.gz", "ref.sha256")}[kind]
    assert sorted(kept) == [f"hypotheses/{name}.{ending}" for name in ("dev", "test") for ending in endings]
    words = {word for line in (run / "hypotheses/test.src").read_text().split("\n") for word in line.split()}
    texts = [gzip.decompress(data) if name.endswith(".gz") else data for name, data in kept.items()]
    assert any(word.encode() in text for word in words if len(word) > 4 for text in texts) == (kind == "toy")
    for measure in (TASK.metric("f1"), TASK.measure("dev.tags")):
        ours, theirs = (TASK.items(TestedRun(place, {}, {}), measure) for place in (copy, folder))
        assert np.array_equal(ours, theirs)
    assert TASK.references(copy, "test") == TASK.references(folder, "test") != TASK.references(folder, "dev")
    assert TASK.references(copy, "other") is None
    assert set(TASK.samples(copy)) == ({"test", "dev"} if kind == "toy" else set())


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda counts: b"no numbers", id="text"),
        pytest.param(lambda counts: written(counts)[:-8], id="cut off"),
        pytest.param(lambda counts: written(counts[:, :6]), id="a column is missing"),
        pytest.param(lambda counts: written(counts.ravel()), id="flat"),
        pytest.param(lambda counts: written(counts.astype(float)), id="no whole numbers"),
        pytest.param(lambda counts: written(counts).replace(b"(6, 7)", b"(9, 7)"), id="another shape"),
    ],
)
def test_damaged_counts_of_a_record_are_named(run: Path, tmp_path: Path, damage: Callable[[Any], bytes]) -> None:
    counts = TASK.items(TestedRun(RunFolder.open(run), {}, {}), TASK.metric("f1"))
    path = tmp_path / "hypotheses" / "test.counts.npy.gz"
    path.parent.mkdir()
    path.write_bytes(gzip.compress(written(counts)))
    again = TestedRun(RunFolder(tmp_path), {}, {})
    assert np.array_equal(TASK.items(again, TASK.metric("f1")), counts)
    path.write_bytes(gzip.compress(damage(counts)))
    with pytest.raises(DataError, match=f"{path} (is damaged|does not contain 7 counts)"):
        TASK.items(again, TASK.metric("f1"))


def written(counts: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, counts, allow_pickle=False)
    return file.getvalue()


@pytest.mark.slow
def test_a_stored_run_gives_its_network_and_samples_back(run: Path) -> None:
    folder, config = RunFolder.open(run), compose_run(SMALL)
    weights = torch.load(next((run / "checkpoints").glob("best*.pt")), weights_only=True)["model"]
    TASK.network(config, folder).load_state_dict(weights)
    samples = TASK.samples(folder)
    assert {name: len(found.rows) for name, found in samples.items()} == {"test": 6, "dev": 6}
    assert TASK.changed_inputs(config, folder) == []


def test_a_stored_run_is_drawn(run: Path, tmp_path: Path) -> None:
    folder = RunFolder.open(run)
    sentences = (run / "hypotheses/test.src").read_text(encoding="utf-8").splitlines()
    drawings = TASK.drawings(folder, "test")
    assert drawings  # after four updates, no parse is correct
    for each in drawings:
        assert each.title == sentences[each.line - 1]
        assert all(f">{escape(word)}</text>" in each.svg for word in each.title.split())
    (second,) = TASK.drawings(folder, "test", 2)
    assert (second.line, second.title) == (2, sentences[1])
    with pytest.raises(DataError, match="line=7: set=test has 6 sentences"):
        TASK.drawings(folder, "test", 7)
    assert TASK.drawings(folder, "other") == TASK.drawings(RunFolder(tmp_path), "test") == []


@pytest.mark.slow
def test_the_other_form_and_the_other_network_train_too(tmp_path: Path) -> None:
    settings = ["trainer.max_steps=1", "trainer.progress=false", "trainer.limit_test=3", "trainer.val_bleu=2"]
    data = ["data.train_trees=20", "data.form=vinyals", "decode.beam=1", "model=weighted"]
    found = result(execute(compose_run([*SMALL, *settings, *data, f"runs={tmp_path}"])))
    assert found["parsed"]["test"]["tags"] == "gold"
    assert sorted(found["scores"]["test"]) == ["exact", "f1", "precision", "recall", "valid"]  # the tags are not ours


def test_the_report_reads_records_and_names_what_is_missing(run: Path, tmp_path: Path) -> None:
    import parsing_report

    def put(name: str, content: bytes) -> None:
        path = tmp_path / "parsing_small" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)

    with pytest.raises(DataError, match="write it with benchmarks/parsing_baselines"):
        parsing_report.page(tmp_path)
    folder, found = RunFolder.open(run), result(run)
    counts = TASK.items(TestedRun(folder, {}, {}), TASK.metric("f1"))
    figures: dict[str, dict[str, float]] = {
        "all": {"sentences": 6, "f1": 50.0},
        "1-10": {"sentences": 4},
        "11-20": {"sentences": 2},
    }
    for row in figures.values():
        row |= dict.fromkeys(("f1", "recall", "precision", "exact", "tags", "valid"), 50.0)
    parser = {"figures": figures, "counts": counts.T.tolist(), "symbols": 7, "rules": 9, "no_tree": 0}
    baselines: dict[str, Any] = {"treebank": "built-in trees", "trees": {"train": 40, "test": 6}, "gold_sha256": "0"}
    baselines["parsers"] = {"right_branching": parser, "pcfg": parser}
    put("baselines.json", json.dumps(baselines).encode())
    assert "Transformer: seed 1 missing, seed 2 missing, seed 3 missing." in parsing_report.page(tmp_path)
    for name in ("config.yaml", "status.json", "result.json"):
        put(f"transformer/seed1/{name}", (run / name).read_bytes())
    for name, content in TASK.record(TestedRun(folder, {"data": {"kind": "sample"}}, {})).items():
        put(f"transformer/seed1/{name}", content)
    with pytest.raises(DataError, match="tested on other trees than the baselines"):
        parsing_report.page(tmp_path)
    put("baselines.json", json.dumps(baselines | {"gold_sha256": TASK.references(folder, "test")}).encode())
    page = parsing_report.page(tmp_path)
    f1, valid = (found["scores"]["test"][name]["value"] for name in ("f1", "valid"))
    (line,) = [line for line in page.splitlines() if line.startswith("| Transformer | 1 |")]
    assert line.startswith(f"| Transformer | 1 | {f1:.2f} |")
    assert line.endswith(f"| {valid:.2f} |")
    assert "| Transformer − PCFG | 0.00 | 0.00 to 0.00 |  |" in page
    assert "| right-branching | – | 50.00 | 50.00 | 50.00 | 50.00 | – | – |" in page


def test_changed_files_are_named() -> None:
    card = {"files": {"a.mrg": "1", "b.mrg": "2"}}
    assert changed_files(card, {"a.mrg": "1", "b.mrg": "2"}) == []
    assert changed_files(card, {"a.mrg": "1", "b.mrg": "3"}) == ["b.mrg has changed since the run was trained on it."]
    assert changed_files(card, {"a.mrg": "1", "c.mrg": "2"}) == [
        "b.mrg has been removed since the run was trained.",
        "c.mrg has been added since the run was trained.",
    ]


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"files": 5}'])
def test_a_damaged_list_of_files_is_told(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "treebank.json").write_text(text, encoding="utf-8")
    monkeypatch.setattr("variations.tasks.parsing.module.current_files", lambda config: {})
    (told,) = TASK.changed_inputs(compose_run([ROW]), RunFolder(tmp_path))
    assert (
        told
        == f"{tmp_path}/treebank.json is damaged, so it is not known whether the treebank is still that of the run."
    )


# Configuration --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("d_ff", "millions"), [(2048, 101.8), (4096, 135.4)])
def test_the_papers_parser_has_the_counted_size(d_ff: int, millions: float) -> None:
    """N = 4, d = 1024, 16,384 words, 512 symbols, nothing shared: the preset has the published sizes."""
    config = compose_run([ROW, f"model.d_ff={d_ff}", "data.root=treebank"])
    with torch.device("meta"):
        network = models.build(config, 16_384)
    assert models.count_parameters(network) / 1e6 == pytest.approx(millions, abs=0.05)
    assert network.output.shape == (512, 1024)


@pytest.mark.slow
def test_work_is_counted_with_the_targets_own_rows() -> None:
    tokens = Tokens(10, 20, 100, 400, 200)
    own, shared = (
        models.model_class("transformer").forward_macs(
            compose_run([ROW, f"model.target_vocabulary={v}"]), tokens, 16_384
        )
        for v in ("512", "null")
    )
    assert shared - own == 20 * 1024 * (16_384 - 512)


def test_the_rows_keep_what_the_paper_says_and_the_small_recipe_shrinks_them_alike() -> None:
    paper, small = compose_run([ROW]), compose_run([ROW, "recipe=parsing_small"])
    assert (paper.task, paper.model.N, paper.model.d_model, paper.model.d_ff) == ("parsing", 4, 1024, 2048)
    assert (paper.decode.beam, paper.decode.alpha, paper.decode.max_extra) == (21, 0.3, 300)
    assert (paper.model.dropout, paper.model.attention_dropout, paper.recipe.warmup) == (0.2, 0.2, 16_000)
    assert (small.model.N, small.model.d_model, small.model.d_ff) == (2, 128, 256)
    semi = compose_run(["variation=attention_table4/transformer_semi"])
    assert (semi.recipe.name, semi.recipe.warmup, semi.recipe.lr) == ("parsing_semi", 4000, 0.5)
    assert (semi.data.vocabulary, semi.model.d_ff, semi.model.h, semi.model.dropout) == (32_000, 4096, 16, 0.1)


@pytest.mark.parametrize(
    ("overrides", "fault"),
    [
        ([ROW], "data=ptb reads the Penn Treebank, so it needs data.root"),
        (
            ["task=parsing", "model.tying=three_way"],
            "model.tying=three_way shares one matrix between words and symbols",
        ),
        (["task=parsing", "model.target_vocabulary=null"], "set model.target_vocabulary=512"),
        (["task=parsing", "model.h=7"], "model.h=7 does not divide"),
        (["task=parsing", "data.form=latex"], "valid choices are tensor2tensor, vinyals"),
        (
            ["variation=attention_table4/transformer_semi"],
            "also trained on automatically parsed trees: set 'data.extra=[FILE,…]', files or folders of",
        ),
        (
            ["sweep=attention_table4", "variation=attention_table4/transformer_semi"],
            "parsed trees: launch rows=[transformer_semi] with 'data.extra=[FILE,…]', files or folders of bracketed "
            "trees, and rows=[transformer_wsj] without it.",
        ),
    ],
)
def test_faults_of_a_configuration(overrides: list[str], fault: str) -> None:
    assert any(fault in text for text in faults(compose_run(overrides)))
    assert faults(compose_run(["task=parsing"])) == []


@pytest.mark.slow
def test_a_null_of_a_rows_file_that_each_user_replaces_is_no_value_of_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    typed = ["sweep=attention_table4", "data.extra=[auto.txt]"]
    wsj, semi = (to_dict(compose_run([f"variation=attention_table4/{row}", *typed])) for row in TRAINED)
    assert edited("transformer_semi", "attention_table4", semi) == {}
    assert edited("transformer_wsj", "attention_table4", wsj) == {"data.extra": (["auto.txt"], [])}
    (told,) = replaced(dict(zip(TRAINED, (wsj, semi), strict=True)))
    assert told.startswith("transformer_wsj: data.extra=[] of the row's file is replaced by ['auto.txt']")

    monkeypatch.setattr("variations.configuration.doors._typed", [tmp_path])
    path = tmp_path / "variation" / "mine" / "usual.yaml"
    path.parent.mkdir(parents=True)
    path.write_text("model: {d_k: null}\n")  # which a run may have
    assert edited("usual", "mine", to_dict(compose_run(["task=parsing", "model.d_k=8"]))) == {"model.d_k": (8, None)}


@pytest.mark.slow
def test_unusable_folders_are_named_before_any_work(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    configs = [compose_run([ROW, f"data.root={tmp_path / 'empty'}", "data.extra=[nowhere.txt]"])] * 2
    first, second = (fault.text for fault in TASK.unusable_files(configs))
    assert "empty contains no file wsj_*.mrg" in first
    assert "nowhere.txt contains no trees" in second
    assert "there is no such folder" in TASK.missing(compose_run([ROW, f"data.root={tmp_path / 'absent'}"]))[0]


# Tables ---------------------------------------------------------------------------------------------------------------


def test_measures_have_names_directions_and_conventions() -> None:
    f1, loss = TASK.metric("f1"), TASK.metric("dev_ppl")
    assert (f1.key, f1.label, f1.higher_is_better) == ("test.f1", "test F1", True)
    assert (loss.key, loss.higher_is_better, loss.set) == ("dev_ppl", False, "dev")
    assert [each.key for each in TASK.columns(f1)] == ["test.f1", "test.exact", "test.valid"]
    with pytest.raises(UserError, match=r"no measure 'test\.bleu'\."):
        TASK.metric("bleu")


def test_only_section_23_is_compared_with_the_paper() -> None:
    """What counts is what the run was tested on, whatever its folder has now."""
    published = TASK.published("f1_wsj23")
    assert published.measures == ("test.f1",)
    whole = {"train": 39_832, "dev": 1_700, "test": 2_416}

    def told(kind: str, result: dict[str, Any]) -> str:
        config = {"data": {"kind": kind, "root": "somewhere"}, "recipe": {"name": "r"}}
        return TASK.conditions(config, result, scaled=True)

    def why(kind: str, split: str, **trees: int) -> str | None:
        result = {"treebank": DESCRIBED[split], "trees": whole | trees}
        return TASK.incomparable(published, {"data": {"kind": kind, "root": "somewhere"}}, result)

    assert TASK.incomparable(published, {"data": {"kind": "toy"}}, {}) == "the run was tested on built-in trees"
    assert told("treebank", {}) == "the treebank in somewhere; recipe r"
    for kind in ("treebank", "sample"):
        assert why(kind, "sample") == "the run was trained and tested on the free sample of the Penn Treebank"
    assert told("treebank", {"treebank": DESCRIBED["sample"]}).endswith("0180-0199 (test); recipe r")
    assert why("treebank", "part") == "files of section 23 were missing"
    assert why("treebank", "wsj") is None
    assert why("treebank", "wsj", test=2_400) == "the run was tested on 2,400 of the 2,416 trees of section 23"
    wsj = {"treebank": DESCRIBED["wsj"]}
    assert TASK.incomparable(published, {"data": {"kind": "treebank"}}, wsj) is None  # of before trees were counted
    assert told("treebank", wsj) == "WSJ sections 02-21 (train), 22 (dev), 23 (test); recipe r"


@pytest.mark.parametrize(
    ("data", "result", "told"),
    [
        ({}, {}, []),
        ({}, {"trees": {"train": 39_832}}, []),
        ({}, {"trees": {"train": 200}}, ["200 training trees of 39,832"]),
        ({"train_trees": 1000}, {}, ["1,000 training trees of 39,832"]),
    ],
)
def test_fewer_training_trees_are_a_caveat(data: dict[str, int], result: dict[str, Any], told: list[str]) -> None:
    config = {"task": "parsing", "data": data, "recipe": {"name": "parsing"}}
    assert TASK.caveats(TASK.published("f1_wsj23"), "test.f1", config, result) == told


@pytest.mark.slow
def test_further_trees_join_the_training_set(tmp_path: Path) -> None:
    (tmp_path / "auto.txt").write_text("(S (NP (NN snow)) (VP (VBD fell)))\n" * 2, encoding="utf-8")
    plain, more = (
        ParsingData(compose_run([*SMALL, "data.train_trees=10", f"data.extra={extra}"]))
        for extra in ("[]", f"[{tmp_path / 'auto.txt'}]")
    )
    plain.setup()
    more.setup()
    assert len(more.train_tokens) == len(plain.train_tokens) + 2
    assert more.corpus.described.endswith("further training trees from data.extra")


def test_files_of_the_same_name_have_a_fingerprint_each(tmp_path: Path) -> None:
    for number, folder in enumerate(("a", "b"), 1):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "auto.txt").write_text("(S (NP (NN snow)))\n" * number, encoding="utf-8")
    config = compose_run([*SMALL, "data.train_trees=10", f"data.extra=[{tmp_path}/a,{tmp_path}/b/auto.txt]"])
    found = load(config.data).fingerprint()
    assert list(found) == ["a/auto.txt", "b/auto.txt"]  # without the path of this machine, which records must not have
    assert len(set(found.values())) == 2


@pytest.mark.slow
def test_generated_trees_are_held_out_alike_however_many_are_trained_on() -> None:
    few, usual, many = (
        load(compose_run([*SMALL, f"data.train_trees={number}"]).data) for number in ("100", "null", "2300")
    )
    assert few.dev == usual.dev == many.dev and few.test == usual.test == many.test
    assert [len(corpus.train) for corpus in (few, usual, many)] == [100, 2000, 2300]
    assert few.train == usual.train[:100] and usual.train == many.train[:2000]


def test_more_trees_than_the_treebank_has_are_refused(tmp_path: Path) -> None:
    for section in range(25):
        (tmp_path / f"wsj_{section:02d}00.mrg").write_text("(S (NN a))\n" * 2, encoding="utf-8")
    data = ["data=ptb", f"data.root={tmp_path}"]
    assert len(load(compose_run([*SMALL, *data, "data.train_trees=40"]).data).train) == 40
    with pytest.raises(DataError, match=r"data\.train_trees=41, but the treebank has only 40 training trees: leave"):
        load(compose_run([*SMALL, *data, "data.train_trees=41"]).data)


@pytest.mark.slow
def test_trees_that_are_edited_between_reading_and_their_fingerprint_are_refused(tmp_path: Path) -> None:
    extra = tmp_path / "more.mrg"
    extra.write_text("(S (NP (DT the) (NN dog)) (VP (VBD sat)))\n")
    data = ParsingData(compose_run([*SMALL, "data.train_trees=10", f"data.extra=[{extra}]"]))
    data.setup()
    extra.write_text("(S (NP (DT the) (NN dog)) (NP (VBD sat)))\n")
    with pytest.raises(DataError, match=r"more\.mrg changed while this run read it"):
        data.keep_facts(RunFolder(tmp_path / "run").create({}))


def test_a_treebank_of_which_no_tree_is_short_enough_is_refused() -> None:
    with pytest.raises(DataError, match=r"All 10 training trees are longer than data.max_length=2: raise it"):
        ParsingData(compose_run([*SMALL, "data.train_trees=10", "data.max_length=2"])).setup()


def test_faults_of_all_sets_come_at_once(tmp_path: Path) -> None:
    for section in range(2, 24):
        (tmp_path / f"wsj_{section:02d}00.mrg").write_text("(S (NN a))" if section % 21 != 2 else "", encoding="utf-8")
    with pytest.raises(DataError, match=r"wsj_0200.mrg contains no tree\n.*wsj_2300.mrg contains no tree"):
        load(compose_run([ROW, f"data.root={tmp_path}"]).data)


@pytest.mark.slow
def test_no_file_is_trained_on_twice(tmp_path: Path) -> None:
    (tmp_path / "auto.txt").write_text("(S (NP (NN snow)))\n", encoding="utf-8")
    for extra in (f"{tmp_path}/auto.txt,{tmp_path}/auto.txt", f"{tmp_path},{tmp_path}/auto.txt"):
        with pytest.raises(DataError, match=r"data.extra has one file twice, as .*auto.txt"):
            load(compose_run([*SMALL, f"data.extra=[{extra}]"]).data)


@pytest.mark.slow
def test_held_out_trees_among_the_further_ones_are_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    config = compose_run([*SMALL, "data.train_trees=10", f"data.extra=[{tmp_path}/copied.txt]"])
    held_out = load(compose_run([*SMALL, "data.train_trees=10"]).data)
    known = {str(tree) for tree in held_out.test[:7]}
    (tmp_path / "copied.txt").write_text("\n".join(known), encoding="utf-8")
    ParsingData(config).setup()
    count = sum(str(tree) in known for tree in held_out.test)
    assert f"{count} of 100 test trees are also in data.extra: test scores are too high." in caplog.text


def test_a_table_says_how_much_of_the_treebank_a_run_had() -> None:
    config = {"task": "parsing", "data": {"kind": "treebank", "root": "tb"}, "recipe": {"name": "parsing"}}
    whole = {"treebank": DESCRIBED["wsj"], "trees": {"train": 39_832, "dev": 1_700, "test": 2_416}}
    assert TASK.conditions(config, whole, scaled=False) == f"{DESCRIBED['wsj']}; recipe parsing"
    part = {**whole, "trees": {"train": 308, "dev": 105, "test": 127}}
    for split in ("wsj", "part"):
        told = TASK.conditions(config, part | {"treebank": DESCRIBED[split]}, scaled=False)
        assert "; 308 of the 39,832 training trees; 127 of the 2,416 test trees; " in told
    cut = {"treebank": DESCRIBED["sample"], "trees": {"train": 3_396, "dev": 273, "test": 28}}
    assert (
        TASK.conditions(config, cut, scaled=False) == f"{DESCRIBED['sample']}; 28 of the 245 test trees; recipe parsing"
    )
    assert TASK.conditions(config, whole | {"vocabulary": 5333}, scaled=False).endswith(
        "recipe parsing, vocabulary 5,333"
    )
    long = TASK.conditions(config, whole | {"dropped_pairs": 1673}, scaled=False)
    assert "; 1,673 training trees left out, longer than data.max_length; recipe parsing" in long
    toy = {**config, "data": {"kind": "toy", "extra": ["auto.txt"]}}
    assert TASK.conditions(toy, {}, scaled=False).startswith("built-in trees; further training trees from data.extra;")
