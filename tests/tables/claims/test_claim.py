"""The claim files, as shipped and with faults."""

from pathlib import Path

import pytest
import yaml

from variations.system.errors import ConfigError
from variations.tables.claims.claim import read_papers

ROOT = Path(__file__).resolve().parents[3]


def test_every_test_of_a_claim_names_rows_that_exist():
    tests = [test for paper in read_papers() for claim in paper.claims for test in claim.tests]
    assert len(tests) > 50
    for test in tests:
        references = yaml.safe_load((ROOT / "sweeps" / f"{test.table}.yaml").read_text())["rows"]
        rows = [reference.rpartition("/")[2] for reference in references]
        for row in filter(None, (test.row, test.base)):
            assert row in rows, (test.table, row)


def test_every_settled_claim_names_a_test_that_exists():
    settled = [claim.settled for paper in read_papers() for claim in paper.claims if claim.settled]
    assert settled
    for item in settled:
        path, _, name = item.by.partition("::")
        assert f"def {name}(" in (ROOT / path).read_text()


def test_margins_are_those_of_the_measure():
    tests = {claim.id: claim.tests for paper in read_papers() for claim in paper.claims}
    assert [test.margin for test in tests["att.t3.A.single"]] == [0.5, 0.01]
    assert tests["wt.s4.1.convergence"][0].margin == 0.15


def test_all_faults_are_told_at_once(tmp_path):
    (tmp_path / "claims").mkdir()
    (tmp_path / "claims" / "bad.yaml").write_text(
        """
paper: P
scales: []
claims:
  - {id: a, section: '1', claim: c}
  - {id: a, section: '1', claim: c, untested: u, tests: [{table: t, row: r, base: b, expect: bettr}]}
  - {id: b, section: '1', claim: c, tests: [{table: t, row: r, expect: same}]}
  - {id: c, section: '1', claim: c, settled: {verdict: maybe, by: t, why: w}}
  - {id: d, claim: 5, published: [1], tests: [{table: t, row: r, base: b, expect: better, margin: .nan}]}
  - {id: e, section: '1', claim: c, tests: [{table: t, row: r, base: b, expect: better, margin: 0}]}
  - {id: f, section: '1', claim: c, tests: [{table: t, row: r, base: b, expect: same, measure: dev_ppl}]}
"""
    )
    with pytest.raises(ConfigError) as error:
        read_papers(tmp_path)
    text = "\n".join(error.value.faults)
    for part in ("two claims a", "'bettr'", "give row and base", "'maybe'", "exactly one of tests"):
        assert part in text
    for part in (
        "d: claim must be text, not 5",
        "d: published must be text",
        "f: dev_ppl has no margin of its own: give one, or measure dev_nll",
        "a number above 0, not nan",
        "a number above 0, not 0",
    ):
        assert part in text


def test_a_folder_without_claims_and_a_file_that_is_none(tmp_path):
    with pytest.raises(ConfigError, match="no claims"):
        read_papers(tmp_path)
    (tmp_path / "claims").mkdir()
    path = tmp_path / "claims" / "x.yaml"
    for content, told in {
        "paper: P\nscales: []\nclaims:\n  - {id: a, nonsense: 1}\n": "nonsense",
        "scales: []\nclaims: []\n": "the key 'paper' is missing",
        "paper: P\nscales: []\nclaims: [1]\n": "'int' object",
        "- 1\n": "list indices",
        "": "NoneType",
    }.items():
        path.write_text(content)
        with pytest.raises(ConfigError, match=rf"x\.yaml: .*{told}"):
            read_papers(tmp_path)
