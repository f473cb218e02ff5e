"""The files in `conf/claims/`: what each paper claims, and the comparison that tests it."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_args

import yaml

from variations.configuration import doors
from variations.configuration.places import CONF
from variations.configuration.tasks import DEFAULT, names
from variations.system.errors import ConfigError, yaml_fault
from variations.tables.claims.rule import EXPECTATIONS, MARGINS, VERDICTS, Expectation, Verdict

UNITS = ("step", "target_tokens", "flops", "seconds")
"""Units for `sooner`: keys of a run's metrics."""


@dataclass(frozen=True)
class Scale:
    """A corpus and a size at which the papers' tables are run; sweeps are named `<prefix><table>`."""

    name: str
    prefix: str


@dataclass(frozen=True)
class Contrast:
    """A comparison of two rows of a table; of all rows with the published ones for `same order`."""

    table: str
    expect: Expectation
    row: str | None = None
    base: str | None = None
    measure: str = "test.bleu"
    """A number in result.json, as in `sweep.metric`; dev_nll for perplexities, whose differences are then ratios."""
    unit: str = "step"
    """For `sooner`: the unit of the saving."""
    published: str = "dev_bleu"
    """For `same order`: the published figure."""
    margin: float = 0.0
    """The smallest difference that counts as an effect."""
    later: bool = False
    """Whether it was chosen after its runs: then it is shown, but takes no part in the verdict."""


@dataclass(frozen=True)
class Settled:
    """A claim that is settled without training, by a proof or counter-example in a test of this project."""

    verdict: Verdict
    by: str
    """The test."""
    why: str


@dataclass(frozen=True)
class Claim:
    """One claim of a paper, or a question that it leaves open."""

    id: str
    section: str
    claim: str
    """In our words."""
    published: str | None = None
    """The published evidence."""
    tests: tuple[Contrast, ...] = ()
    any: bool = False
    """Whether one supporting comparison is enough."""
    untested: str | None = None
    """Why it is not tested here."""
    settled: Settled | None = None


@dataclass(frozen=True)
class Paper:
    """One file of claims."""

    name: str
    scales: tuple[Scale, ...]
    claims: tuple[Claim, ...]
    task: str = DEFAULT
    """The task of the tables that its claims are about."""


def read_papers(conf: Path = CONF) -> list[Paper]:
    """Every paper in `claims/` of a configuration folder, by file name; of ours and all others by default.

    Raises:
        ConfigError: A file cannot be read or is invalid; all faults of all files at once.
    """
    faults: list[str] = []
    papers = [paper for path in doors.files("claims/*.yaml", conf) if (paper := _paper(path, faults))]
    if not papers and not faults:
        faults.append(f"there are no claims in {conf / 'claims'}")
    ids = [claim.id for paper in papers for claim in paper.claims]
    faults += [f"there are two claims {id_}" for id_ in dict.fromkeys(ids) if ids.count(id_) > 1]
    if faults:
        raise ConfigError(faults)
    return papers


def _paper(path: Path, faults: list[str]) -> Paper | None:
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
        scales = tuple(Scale(**item) for item in content["scales"])
        claims = tuple(_claim(item, path.name, faults) for item in content["claims"])
        task = content.get("task", DEFAULT)
        if task not in names():
            faults.append(f"{path}: there is no task '{task}'. Valid: {', '.join(names())}")
        return Paper(content["paper"], scales, claims, task)
    except KeyError as error:
        faults.append(f"{path}: the key {error} is missing")
    except yaml.YAMLError as error:
        faults.append(f"{path} is not valid YAML: {yaml_fault(error)}")
    except (OSError, ValueError, TypeError, AttributeError) as error:
        faults.append(f"{path}: {' '.join(str(error).split())}")
    return None


def _claim(item: Mapping[str, Any], file: str, faults: list[str]) -> Claim:
    tests = tuple(_contrast(test) for test in item.get("tests", ()))
    settled = Settled(**item["settled"]) if "settled" in item else None
    section = str(item.get("section", ""))  # YAML reads 4.3 as a number
    claim = Claim(**{**item, "section": section, "tests": tests, "settled": settled})
    where = f"{file}, {claim.id}"
    texts = {key: getattr(claim, key) for key in ("id", "claim", "published", "untested")}
    faults += [f"{where}: {key} must be text, not {text!r}" for key, text in texts.items() if not _is_text(key, text)]
    if sum(bool(way) for way in (tests, claim.untested, settled)) != 1:
        faults.append(f"{where}: give exactly one of tests, settled and untested (the reason)")
    if settled and settled.verdict not in VERDICTS:
        faults.append(f"{where}: there is no verdict '{settled.verdict}'. Valid: {', '.join(VERDICTS)}")
    faults += [f"{where}: {fault}" for test in tests for fault in _contrast_faults(test)]
    return claim


def _is_text(key: str, value: Any) -> bool:
    return isinstance(value, str) or (value is None and key in ("published", "untested"))


def _contrast(item: Mapping[str, Any]) -> Contrast:
    test = Contrast(**item)
    return test if "margin" in item else replace(test, margin=MARGINS.get(_margin_kind(test), 0.0))


def _margin_kind(test: Contrast) -> str:
    if test.expect in ("sooner", "same order"):
        return {"sooner": "saving", "same order": "rho"}[test.expect]
    return next((kind for kind in ("nll", "ppl") if test.measure.endswith(f"_{kind}")), "score")


def _contrast_faults(test: Contrast) -> list[str]:
    found = []
    if test.expect not in get_args(Expectation):
        found.append(f"there is no expectation '{test.expect}'. Valid: {', '.join(EXPECTATIONS)}")
    elif test.expect != "same order" and not (test.row and test.base):
        found.append(f"'{test.expect}' compares two rows: give row and base")
    if test.unit not in UNITS:
        found.append(f"there is no unit '{test.unit}'. Valid: {', '.join(UNITS)}")
    if not test.margin and _margin_kind(test) not in MARGINS:
        ratios = f"{test.measure.removesuffix('_ppl')}_nll"
        found.append(
            f"{test.measure} has no margin of its own: give one, or measure {ratios}, whose differences are ratios"
        )
    elif not (isinstance(test.margin, int | float) and 0 < test.margin < math.inf):
        found.append(f"a margin must be a number above 0, not {test.margin}")
    return found
