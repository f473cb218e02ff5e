"""docs/results/parsing.md: trained parsers beside right-branching and the PCFG, from records, by sentence length.

    python benchmarks/parsing_report.py [--records records] [--output docs/results/parsing.md]

Reads the runs of sweep=parsing_small in the folder of records, and records/parsing_small/baselines.json, which
benchmarks/parsing_baselines.py writes. Without --output the page is printed.
"""

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np
from record_pages import deliver_page, table

from variations.configuration.compose import compose_run
from variations.configuration.schema import SweepConfig
from variations.store.rows import define
from variations.system.errors import DataError
from variations.tables.chance import p_text
from variations.tables.collect import Row, collect
from variations.tables.grid import delta
from variations.tables.resampling import Items
from variations.tables.significance import Comparison, across_seeds
from variations.tasks.parsing import scores, stored
from variations.tasks.sequences.stored import reference_digest

SWEEP, BASELINES = "parsing_small", "baselines.json"
MEASURES = {
    "f1": "F1",
    "recall": "recall",
    "precision": "precision",
    "exact": "exact match %",
    "tags": "tags %",
    "valid": "valid before repair %",
}
OPENING = """# Parsing: the free sample of the Penn Treebank

Made by `make results` from [records/{sweep}](../../records/{sweep}); nothing here is written by hand. What the figures
mean, and why they are far from Table 4: [parsing.md](../parsing.md#what-to-expect).

Data: {treebank}; {train:,} training trees, {test} test trees. EVALB with COLLINS.prm, all lengths.
**Not comparable with Table 4**, which has twelve times as many training trees and another test set.

```console
python benchmarks/parsing_baselines.py FOLDER --output build/baselines --record records/{sweep}/baselines.json
python src/train.py --multirun sweep={sweep} data.root=FOLDER
python src/record.py sweep={sweep}
make results
```
"""


@dataclass
class Parser:
    """The results of a parser on the test set, one run for each seed; a baseline has no seed."""

    label: str
    figures: list[dict[str, dict[str, float]]] = field(default_factory=list)
    """Of each run, by class of length and `all`: see `scores.figures`."""
    counts: list[Items] = field(default_factory=list)
    """Of each run, (S, 7): see `scores.counts`."""
    seeds: list[int] = field(default_factory=list)
    state: str = ""
    """Why seeds are missing."""

    def cell(self, length: str, measure: str) -> str:
        """Mean over seeds with its standard deviation; a dash where there is nothing to measure."""
        unknown = not self.seeds and (measure == "valid" or (measure == "tags" and "right" in self.label))
        values = [] if unknown else [table[length][measure] for table in self.figures if length in table]
        if not values:
            return "–"
        spread = f" ± {stdev(values):.2f}" if len(values) > 1 else ""
        return f"{fmean(values):.2f}{spread}"


def page(records: Path) -> str:
    """The page of these records. Raises DataError without baselines, or if runs were scored against other trees."""
    known, baselines = _baselines(records)
    trained = _trained(records, known["gold_sha256"])
    parsers = [*baselines, *trained]
    head = OPENING.format(sweep=SWEEP, treebank=known["treebank"], **known["trees"])
    parts = [head, _all_sentences(parsers), _by_length(parsers), _differences(baselines[-1], baselines[0], trained)]
    grammar = known["parsers"]["pcfg"]
    parts.append(
        f"The PCFG has {grammar['symbols']} symbols and {grammar['rules']:,} binary rules. It has no tree for "
        f"{grammar['no_tree']} sentences, for which the right-branching tree counts. The right-branching parser gets "
        "the gold tags, which identify punctuation; all other parsers read only words.\n"
    )
    return "\n".join(parts)


def _baselines(records: Path) -> tuple[dict[str, Any], list[Parser]]:
    path = records / SWEEP / BASELINES
    try:
        known: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        labels = {"right_branching": "right-branching", "pcfg": "PCFG"}
        found = [
            Parser(label, [known["parsers"][name]["figures"]], [np.array(known["parsers"][name]["counts"]).T])
            for name, label in labels.items()
        ]
    except (OSError, ValueError, KeyError) as error:
        raise DataError(f"{path} cannot be read ({error}): write it with benchmarks/parsing_baselines.py.") from error
    return known, found


def _trained(records: Path, gold: str) -> list[Parser]:
    sweep: SweepConfig = compose_run([f"sweep={SWEEP}"]).sweep
    return [_row(row, gold) for row in collect(define(sweep, store=records), records)]


def _row(row: Row, gold: str) -> Parser:
    found = Parser(row.definition.label)
    for run, seed in zip(row.tested, (run.seed for run in row.finished), strict=True):
        if reference_digest(run.folder.hypotheses, "test") != gold:
            raise DataError(f"{run.folder.path} was tested on other trees than the baselines.")
        parsed = run.result["parsed"]["test"]
        whole = {name: score["value"] for name, score in run.result["scores"]["test"].items()}
        found.figures.append({"all": whole} | parsed["by_length"])
        found.counts.append(stored.counts(run.folder, "test"))
        found.seeds.append(seed)
    waiting = [f"seed {run.seed} {run.describe()}" for run in row.runs if not run.finished]
    found.state = f"{found.label}: {', '.join(waiting)}." if waiting else ""
    return found


def _all_sentences(parsers: Sequence[Parser]) -> str:
    rows = [
        [each.label, str(len(each.seeds) or "–"), *(each.cell("all", name) for name in MEASURES)]
        for each in parsers
        if each.figures
    ]
    text = f"## All sentences\n\n{table(['parser', 'seeds', *MEASURES.values()], rows)}"
    text += "\n± is the standard deviation over seeds.\n" if any(len(each.seeds) > 1 for each in parsers) else ""
    waiting = [each.state for each in parsers if each.state]
    return text + (f"\nNo result yet: {' '.join(waiting)}\n" if waiting else "")


def _by_length(parsers: Sequence[Parser]) -> str:
    lengths = [name for name in parsers[0].figures[0] if name != "all"]
    parts = []
    for measure in ("f1", "exact", "valid"):
        rows = [[each.label, *(each.cell(length, measure) for length in lengths)] for each in parsers if each.figures]
        rows = [row for row in rows if set(row[1:]) != {"–"}]
        if rows:
            parts.append(f"## {MEASURES[measure]}, by words of the sentence\n\n{table(['parser', *lengths], rows)}")
    sizes = ", ".join(f"{parsers[0].figures[0][length]['sentences']:.0f} of {length}" for length in lengths)
    return "\n".join([*parts, f"Sentences: {sizes} words.\n"])


def _differences(pcfg: Parser, branching: Parser, trained: Sequence[Parser]) -> str:
    pairs = [(branching, pcfg), *((each, pcfg) for each in trained)]
    pairs += [(each, trained[0]) for each in trained[1:]]
    rows = [_difference(ours, base) for ours, base in pairs if ours.counts and base.counts]
    text = (
        "Paired bootstrap over the counts of sentences (1,000 resamples), which includes chance in seeds if there "
        "are several. Where a trained parser has a single seed, there is no p, and the interval ignores chance "
        "between seeds; right-branching and the PCFG have no seed.\n"
    )
    return f"## Differences in F1\n\n{table(['parsers', 'difference', '95 % interval', 'p'], rows)}\n{text}"


def _difference(ours: Parser, base: Parser) -> list[str]:
    aggregate: Callable[[Any], Any] = scores.f1
    test: Comparison = across_seeds(ours.counts, base.counts, aggregate, fixed_base=not base.seeds)
    one_seed = any(len(each.seeds) == 1 for each in (ours, base)) and "seeds" not in test.variance
    interval = f"{delta(test.low)} to {delta(test.high)}"
    return [f"{ours.label} − {base.label}", delta(test.difference), interval, "" if one_seed else p_text(test.p)]


if __name__ == "__main__":
    sys.exit(deliver_page(__doc__, page))
