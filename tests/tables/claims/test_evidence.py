"""Verdicts from made-up runs whose correct verdict is known."""

import gzip
import json
import random
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sacrebleu import corpus_bleu

from variations.commands.claims import ClaimsConfig, show
from variations.store.ledger import RunFolder
from variations.system.errors import UserError
from variations.tables.chance import SignificanceConfig
from variations.tables.claims.claim import Claim, Contrast, Paper, Scale, read_papers
from variations.tables.claims.evidence import Evidence, Outcome, first_reached
from variations.tables.claims.page import page

TOY = Scale("built-in corpus", "toy_")
SWEEP = "toy_weighted_claims"
REFERENCES = [f"Der Hund sieht das {word} im alten Garten ." for word in ("Haus", "Tier", "Kind", "Buch", "Dach")] * 12
FLAT = [{"step": step, "flops": 10.0 * step, "dev/nll": 0.5} for step in (800, 1000)]
Put = Callable[..., None]


@pytest.fixture
def put(make_run: Any) -> Put:
    """Store three seeds of a row with errors in about `share` of the sentences."""

    def row(name: str, share: float, *, seeds: int = 3, metrics: Any = FLAT, sweep: str = SWEEP, **more: Any) -> None:
        for seed in range(1, seeds + 1):
            rng = random.Random(100 * seed + len(name))
            texts = [line.replace("alten", "neuen") if rng.random() < share else line for line in REFERENCES]
            score = more.get("stated") or corpus_bleu(texts, [REFERENCES], force=True).score
            others = {key: value for key, value in more.items() if key != "stated"}
            make_run(sweep, name, seed, score, metrics=metrics, texts=(["source"] * 60, REFERENCES, texts), **others)

    return row


@pytest.fixture
def outcome(store: Path) -> Callable[..., Outcome | None]:
    def one(**keys: Any) -> Outcome | None:
        margin = keys.pop("margin", 0.5)
        test = Contrast(**({"table": "weighted_claims", "margin": margin} | keys))
        return Evidence(store, SignificanceConfig(n=200)).outcome(test, TOY)

    return one


@pytest.mark.slow
def test_rows_with_typed_overrides_are_not_judged(
    put: Put, outcome: Callable[..., Outcome], configuration: Callable[..., dict[str, Any]]
) -> None:
    config = configuration(sweep__typed=["data.train_pairs=100"])
    put("weighted", 0.1, config=config)
    put("softmax", 0.9, config=config)
    found = outcome(row="softmax", base="weighted", expect="worse")
    assert (found.bearing, found.finding) == ("open", None)
    assert "it is not as in its sweep's file: data.train_pairs=100 was typed" in (found.note or "")


@pytest.mark.slow
def test_values_are_those_of_the_seeds_that_were_tested(put: Put, outcome: Callable[..., Outcome], store: Path) -> None:
    put("weighted", 0.1)
    put("softmax", 0.9)
    for path in (store / SWEEP / "softmax" / "seed1" / "hypotheses").iterdir():
        path.unlink()
    found = outcome(row="softmax", base="weighted", expect="worse")
    assert found.finding is not None and found.levels is not None
    assert found.finding.seeds == (2, 2)
    assert found.levels[0] - found.levels[1] == pytest.approx(found.finding.effect)
    assert (found.note or "").startswith("seed 1 is not tested: ")


@pytest.mark.slow
def test_a_comparison_names_a_row_that_was_trained_past_its_best_step(
    put: Put, outcome: Callable[..., Outcome]
) -> None:
    past = [{"step": step, "flops": 10.0 * step, "dev/nll": nll} for step, nll in ((800, 0.5), (1000, 0.6))]
    put("weighted", 0.1, metrics=past)
    put("softmax", 0.9)
    found = outcome(row="softmax", base="weighted", expect="worse")
    assert found.bearing == "supports"
    assert found.note == "weighted: its dev perplexity ended 10.5 % above its lowest: it was trained past its best step"
    put("M16", 0.1)
    assert outcome(row="M16", base="softmax", expect="better").note is None


@pytest.mark.slow
def test_a_row_that_is_clearly_worse(put: Put, outcome: Callable[..., Outcome]) -> None:
    put("weighted", 0.1)
    put("softmax", 0.9)
    found = outcome(row="softmax", base="weighted", expect="worse")
    assert found.finding is not None
    assert (found.bearing, found.finding.seeds) == ("supports", (3, 3))
    assert found.finding.high < 0
    assert outcome(row="softmax", base="weighted", expect="better").bearing == "contradicts"
    assert outcome(row="weighted", base="softmax", expect="better").bearing == "supports"


@pytest.mark.slow
def test_scores_that_are_not_those_of_the_stored_text_prove_nothing(put: Put, outcome: Callable[..., Outcome]) -> None:
    put("weighted", 0.1)
    put("softmax", 0.9, stated=50.0)
    found = outcome(row="softmax", base="weighted", expect="worse")
    assert (found.bearing, found.finding) == ("open", None)
    assert found.note is not None
    assert found.note.startswith("seed 1: the score in result.json is 50.00, but that of its stored sentences")


@pytest.mark.slow
def test_scores_of_other_conventions_prove_nothing(put: Put, store: Path, outcome: Callable[..., Outcome]) -> None:
    put("weighted", 0.1)
    put("softmax", 0.9)
    run = RunFolder(store / SWEEP / "softmax" / "seed2")
    run.write_result(json.loads(json.dumps(run.result()).replace("tok:13a", "tok:intl")))
    found = outcome(row="softmax", base="weighted", expect="worse")
    assert (found.bearing, found.finding) == ("open", None)
    assert "follows another convention than its base row's" in str(found.note)


@pytest.mark.slow
def test_two_seeds_leave_it_open_and_none_is_no_evidence(put: Put, outcome: Callable[..., Outcome | None]) -> None:
    put("weighted", 0.1)
    put("softmax", 0.9, seeds=2)
    found = outcome(row="softmax", base="weighted", expect="worse")
    assert found is not None
    assert found.bearing == "open"
    assert outcome(row="topk", base="weighted", expect="worse") is None


@pytest.mark.slow
def test_a_row_that_was_not_trained_concludes_nothing(put: Put, outcome: Callable[..., Outcome]) -> None:
    put("weighted", 0.1)
    put("softmax", 0.9, metrics=[{"step": 800, "dev/nll": 0.9}, {"step": 1000, "dev/nll": 0.5}])
    found = outcome(row="softmax", base="weighted", expect="worse")
    assert (found.bearing, found.finding) == ("open", None)
    assert found.note == "softmax is not trained: dev perplexity fell by 33 % in the last fifth of its steps"


@pytest.mark.slow
def test_a_row_that_was_not_trained_as_a_whole_concludes_nothing(
    put: Put, outcome: Callable[..., Outcome], configuration: Any
) -> None:
    put("weighted", 0.1)
    put("softmax", 0.9, steps=310, stopped="max_minutes", config=configuration(trainer__max_steps=1200))
    for row, base in (("softmax", "weighted"), ("weighted", "softmax")):
        for expect in ("worse", "sooner"):
            found = outcome(row=row, base=base, expect=expect)
            assert (found.bearing, found.finding) == ("open", None)
            reason = "training was ended at step 310 of 1,200 by trainer.max_minutes"
            assert found.note == f"softmax is not judged: {reason}"


@pytest.mark.slow
def test_a_row_that_lost_its_measurements_concludes_nothing(
    put: Put, outcome: Callable[..., Outcome], store: Path
) -> None:
    put("weighted", 0.1)
    put("softmax", 0.9)
    assert outcome(row="softmax", base="weighted", expect="worse").finding is not None
    half = gzip.compress(b'{"step": 1}\n')[:-9]
    for seed, content in enumerate((b"", gzip.compress(b""), half), start=1):
        path = store / SWEEP / "softmax" / f"seed{seed}" / "metrics.jsonl"
        path.with_name("metrics.jsonl.gz" if content else path.name).write_bytes(content)
        if content:
            path.unlink()
    found = outcome(row="softmax", base="weighted", expect="worse")
    assert (found.bearing, found.finding) == ("open", None)
    assert found.note == "softmax is not judged: its measurements (metrics.jsonl) are lost, damaged or not readable"


@pytest.mark.slow
def test_of_a_loss_the_lower_one_is_better(put: Put, outcome: Callable[..., Outcome], make_run: Any) -> None:
    put("weighted", 0.1, loss={"dev_nll": 0.4})
    put("softmax", 0.1, loss={"dev_nll": 0.5})
    found = outcome(row="softmax", base="weighted", expect="worse", measure="dev_nll", margin=0.01)
    assert found.finding is not None
    assert found.finding.effect == pytest.approx(-0.1)
    assert found.bearing == "supports"


def test_a_missing_folder_of_records_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "claims.md"
    with pytest.raises(UserError, match="there is no such folder"):
        show(ClaimsConfig(runs=str(tmp_path / "nope"), out=str(out)))
    assert not out.exists()


def curve(scale: float) -> list[dict[str, Any]]:
    """A dev loss that reaches 0.5 after `scale` · 800 steps and stays there."""
    points = ((200, 2.5), (400, 1.5), (800, 0.5), (1000, 0.5))
    return [{"step": scale * step, "flops": 2 * scale * step, "dev/nll": loss} for step, loss in points]


@pytest.mark.slow
def test_the_saving_is_where_the_base_rows_last_loss_is_first_reached(
    put: Put, outcome: Callable[..., Outcome]
) -> None:
    put("transformer", 0.1, metrics=curve(1.0))
    put("weighted", 0.1, metrics=curve(0.5))
    for unit in ("step", "flops"):
        found = outcome(row="weighted", base="transformer", expect="sooner", unit=unit, margin=0.15)
        assert found.finding is not None
        assert found.finding.effect == pytest.approx(0.5)
        assert (found.bearing, found.note, found.at_most) == ("supports", None, False)


@pytest.mark.slow
def test_losses_in_other_units_save_nothing_and_have_no_order(
    put: Put, outcome: Callable[..., Outcome], configuration: Any, store: Path
) -> None:
    put("transformer", 0.1, metrics=curve(1.0))
    put("weighted", 0.1, metrics=curve(0.5), vocabulary=500)
    put("softmax", 0.1, metrics=curve(0.5), config=configuration(trainer__limit_val_batches=2))
    put("transformer", 0.1, metrics=curve(1.0), vocabulary=400)
    for row, cause in (("weighted", "the vocabulary"), ("softmax", "trainer.limit_val_batches")):
        found = outcome(row=row, base="transformer", expect="sooner", margin=0.15)
        told = f"its dev loss depends on {cause}, which its base row does not share: not compared"
        assert (found.bearing, found.finding, found.note) == ("open", None, told)


@pytest.mark.slow
def test_a_row_that_never_gets_there_saves_nothing(put: Put, outcome: Callable[..., Outcome]) -> None:
    put("transformer", 0.1, metrics=curve(1.0))
    put("weighted", 0.1, metrics=[{"step": step, "dev/nll": 1.0} for step in (380, 480)])
    found = outcome(row="weighted", base="transformer", expect="sooner", margin=0.15)
    assert found.finding is not None
    assert found.finding.effect == pytest.approx(0.4)  # an upper bound: training stopped there
    assert found.bearing == "open"
    assert found.at_most
    assert found.note == "3 of 3 seeds never reach the dev loss of 0.500 at which training of the base row ends"


@pytest.mark.slow
def test_the_order_of_rows(put: Put, store: Path) -> None:
    sweep = "toy_attention_table3"
    losses = {"base": 0.50, "A_h1": 0.58, "C_N2": 0.70, "C_d256": 0.66, "big": 0.40, "B_dk16": 0.54}
    for name, loss in losses.items():
        put(name, 0.1, sweep=sweep, loss={"dev_nll": loss})
    test = Contrast("attention_table3", "same order", measure="dev_nll", published="dev_ppl", margin=0.5)
    found = Evidence(store).outcome(test, TOY)
    assert found is not None
    assert found.finding is not None
    assert found.finding.effect == pytest.approx(1.0)  # `losses` has the published order of these rows
    assert (found.bearing, found.note) == ("supports", "5 rows")
    of_scores = replace(test, published="dev_bleu")  # of BLEU, the higher is better
    found = Evidence(store).outcome(of_scores, TOY)
    assert found is not None and found.finding is not None
    assert found.finding.effect > 0.5
    put("base", 0.1, sweep=sweep, loss={"dev_nll": losses["base"]}, vocabulary=78)
    put("B_dk16", 0.1, sweep=sweep, loss={"dev_nll": losses["B_dk16"]}, vocabulary=78)
    put("A_h1", 0.1, sweep=sweep, loss={"dev_nll": losses["A_h1"]}, vocabulary=77)
    found = Evidence(store).outcome(test, TOY)
    assert found is not None
    assert found.note == "4 rows; not trained, not judged, or not compared: A_h1"
    put("A_h1", 0.1, sweep=sweep, loss={"dev_nll": losses["A_h1"]})
    put("C_N2", 0.1, sweep=sweep, loss={"dev_nll": 0.1}, stopped="callback")
    found = Evidence(store).outcome(test, TOY)
    assert found is not None
    assert found.note == "4 rows; not trained, not judged, or not compared: C_N2"
    put("C_N2", 0.1, sweep=sweep, loss={"dev_nll": losses["C_N2"]})
    for row, code in (("base", "1"), ("big", "2")):
        RunFolder(store / sweep / row / "seed1").write_environment({"data": {"mine.py": code}})
    found = Evidence(store).outcome(test, TOY)
    assert found is not None
    assert found.note == "4 rows; not trained, not judged, or not compared: big"


@pytest.mark.slow
def test_the_page_holds_every_claim_and_its_verdict(put: Put, store: Path) -> None:
    put("weighted", 0.1)
    put("softmax", 0.9)
    tests = (Contrast("weighted_claims", "worse", "softmax", "weighted", margin=0.5),)
    paper = Paper(
        "P",
        (TOY,),
        (Claim("a", "3", "Softmax is worse.", "no figure", tests), Claim("b", "4", "Untold.", untested="why")),
    )
    text = page([paper], Evidence(store, SignificanceConfig(n=200)))
    assert "2 claims and questions: 1 reproduced, 1 untested here." in text
    assert (
        "| 1 | Softmax is worse. | **reproduced** | 3 | no figure | 1 comparison; built-in corpus: 1 supporting |"
        in text
    )
    assert "| 2 | Untold. | **untested here** | 4 |  | why |" in text
    scale = re.escape("[built-in corpus](results/toy_weighted_claims.md)")
    rows = re.escape("`softmax` (softmax instead of projection) v. `weighted` (Weighted Transformer)")
    values = r"\d+\.\d\d\sv\.\s\d+\.\d\d \| −\d+\.\d\d\s\[−\d+\.\d\d,\s−\d+\.\d\d\]"
    assert re.search(
        rf"\| 1 \| {scale} \| {rows} \| worse \| test BLEU \| {values} \| supports \| 3 \| \d+\.\d\d \|", text
    )
    assert "| [toy_weighted_claims](results/toy_weighted_claims.md) | built-in corpus | 6 of 33 |" in text


@pytest.mark.slow
def test_comparisons_of_a_claim_are_counted_and_listed_under_its_number(put: Put, store: Path) -> None:
    put("weighted", 0.1)
    put("softmax", 0.9)
    rows = ("softmax", "M16", "M32", "topk", "topk_input")
    tests = tuple(Contrast("weighted_claims", "worse", row, "weighted", margin=0.5) for row in rows)
    for row in rows[1:]:
        put(row, 0.1)
    text = page([Paper("P", (TOY,), (Claim("a", "3", "All are worse.", tests=tests),))], Evidence(store))
    assert "| 5 comparisons; built-in corpus: 1 supporting, 4 open |" in text
    missing = Contrast("weighted_claims", "worse", "uniform", "weighted", margin=0.5)
    tests = (*tests[1:], replace(tests[0], later=True), missing)
    text = page([Paper("P", (TOY,), (Claim("a", "3", "All are worse.", tests=tests),))], Evidence(store))
    assert "| 5 comparisons; built-in corpus: 4 open, 1 not run; 1 chosen later, not counted |" in text
    assert text.count("\n| 1 | [built-in corpus]") == 5


@pytest.mark.parametrize(
    ("expect", "told"), [("better", "contradicts: less than the margin"), ("worse", "contradicts")]
)
def test_a_certain_difference_below_the_margin_is_told(expect: Any, told: str, put: Put, store: Path) -> None:
    put("weighted", 0.9)
    put("softmax", 0.1)
    margin = 90.0
    test = Contrast("weighted_claims", expect, "softmax", "weighted", margin=margin)
    text = page([Paper("P", (TOY,), (Claim("a", "3", "So.", tests=(test,)),))], Evidence(store))
    assert f"| {told} |" in text


@pytest.mark.slow
def test_all_shipped_claims_are_judged_without_any_run(store: Path) -> None:
    papers = read_papers()
    evidence = Evidence(store)
    judged = [evidence.judge(paper, claim) for paper in papers for claim in paper.claims]
    assert {item.verdict for item in judged if not item.claim.settled} == {"untested here"}


@pytest.mark.slow
@pytest.mark.parametrize("any_one", [True, False])
def test_comparisons_without_runs_are_open_where_the_claim_has_others(any_one: bool, put: Put, store: Path) -> None:
    """One of three comparisons contradicts, neither half nor all of them; two have no runs."""
    put("weighted", 0.1)
    put("softmax", 0.9)
    rows = ("softmax", "M16", "M32")
    tests = tuple(
        Contrast(table="weighted_claims", row=row, base="weighted", expect="better", margin=0.5) for row in rows
    )
    claim = Claim(id="x", section="1", claim="One is better.", tests=tests, any=any_one)
    paper = Paper("a paper", (TOY, Scale("Multi30k", "multi30k_")), (claim,))
    judged = Evidence(store, SignificanceConfig(n=200)).judge(paper, claim)
    assert [item.bearing for item in judged.outcomes] == ["contradicts"]
    assert judged.verdict == "undecided"


@pytest.mark.slow
def test_a_comparison_that_was_chosen_after_its_runs_is_shown_and_does_not_count(put: Put, store: Path) -> None:
    put("weighted", 0.1)
    put("softmax", 0.9)
    fixed = Contrast("weighted_claims", "worse", "softmax", "weighted", margin=0.5)
    later = Contrast("weighted_claims", "better", "softmax", "weighted", margin=0.5, later=True)
    claims = tuple(Claim(tests[0].expect, "3", "So.", tests=tests) for tests in ((fixed, later), (later,)))
    paper, evidence = Paper("P", (TOY,), claims), Evidence(store, SignificanceConfig(n=200))
    assert [evidence.judge(paper, claim).verdict for claim in claims] == ["reproduced", "untested here"]
    text = page([paper], evidence)
    assert text.count("| contradicts; chosen later |") == 2 and text.count("| supports |") == 1


def test_a_loss_that_is_passed_between_two_measurements_is_placed_in_proportion() -> None:
    curve = [(100.0, 2.0), (200.0, 1.0), (300.0, 1.5), (400.0, 0.5)]
    assert first_reached(curve, 1.5) == (150.0, True)
    for later in ([(20, 1.2), (30, 1.1)], [(20, 2.0), (30, 0.9)], [(20, 0.9)], []):
        assert first_reached([(10, 1.0), *later], 1.5) == (10, True)
    assert first_reached(curve, 0.75) == (375.0, True)  # on the line from 1.5 to 0.5
    assert first_reached(curve, 0.4) == (400.0, False)


def test_a_folded_text_stays_in_its_line_of_the_page(store: Path) -> None:
    claim = Claim("a", "3", "One head\nis worse | than eight.\n", untested="no table\n")
    text = page([Paper("P", (TOY,), (claim,))], Evidence(store))
    assert "| 1 | One head is worse &#124; than eight. | **untested here** | 3 |  | no table |\n" in text
