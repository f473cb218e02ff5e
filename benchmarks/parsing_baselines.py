"""The baselines of parsers: right-branching trees and a PCFG of the same training trees, scored as EVALB does.

    python benchmarks/parsing_baselines.py FOLDER --output DIR [--set dev] [--trees RUN/hypotheses/test.hyp …]
    python benchmarks/parsing_baselines.py FOLDER --output DIR --record records/parsing_small/baselines.json

FOLDER contains the Penn Treebank or its free sample. DIR gets each baseline's trees, one per line, and the gold trees
(`score.py task=parsing hyp=DIR/pcfg.hyp ref=DIR/test.ref`); the table is printed, with a paired bootstrap over
sentences for each difference from the PCFG. `--record` stores figures and counts per sentence, without words, for
docs/results/parsing.md.
"""

import argparse
import hashlib
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from parsing_pcfg import Pcfg
from parsing_right_branching import RightBranching

from variations.store.atomic import write_json
from variations.system.errors import UserError
from variations.tables.significance import paired_bootstrap
from variations.tasks.parsing import scores
from variations.tasks.parsing.linearise import Repairs
from variations.tasks.parsing.treebank import find
from variations.tasks.parsing.trees import Tree, read_trees

COLUMNS = ("sentences", "f1", "recall", "precision", "exact", "tags")


@dataclass
class Baselines:
    """Both baselines, built from the same training trees."""

    training: Sequence[Tree]
    no_tree: int = 0
    """Sentences so far for which the grammar had no tree: they get right-branching ones."""

    def __post_init__(self) -> None:
        self.branching = RightBranching(self.training)
        self.grammar = Pcfg(self.training)

    def right_branching(self, tree: Tree) -> Tree:
        """The right-branching tree of a gold tree's words and tags."""
        return self.branching.parse(tree.words(), [leaf.label for leaf in tree.leaves()])

    def pcfg(self, tree: Tree) -> Tree:
        """The grammar's tree of a gold tree's words."""
        found, _ = self.grammar.parse(tree.words())
        self.no_tree += found is None
        return found or self.right_branching(tree)


def main() -> int:
    """Parse one set with both baselines."""
    chosen = _arguments()
    try:
        split = find(chosen.folder)
        training = read_trees(split.train)[: chosen.limit]
        gold = read_trees(getattr(split, chosen.set))[: chosen.limit]
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    began = time.monotonic()
    baselines = Baselines(training)
    size = {"symbols": len(baselines.grammar.symbols), "rules": len(baselines.grammar.cost)}
    print(f"Data: {split.described}; {len(training)} training trees, {len(gold)} {chosen.set} trees.", flush=True)
    print(f"PCFG: {size['symbols']} symbols, {size['rules']} binary rules, {time.monotonic() - began:.0f} s.\n")

    chosen.output.mkdir(parents=True, exist_ok=True)
    _write(chosen.output / f"{chosen.set}.ref", gold)
    found = {
        "right_branching": [baselines.right_branching(tree) for tree in gold],
        "pcfg": [baselines.pcfg(tree) for tree in gold],
    }
    for name, trees in found.items():
        mended = [scores.with_gold_punctuation(ours, right) for ours, right in zip(trees, gold, strict=True)]
        _write(chosen.output / f"{name}.hyp", mended)
    parsed = found | {str(path): read_trees([path]) for path in chosen.trees}
    figures, counts = _print_figures(gold, parsed)
    _print_differences(counts)
    if chosen.record:
        chosen.record.parent.mkdir(parents=True, exist_ok=True)
        about: dict[str, dict[str, int]] = {"right_branching": {}, "pcfg": {**size, "no_tree": baselines.no_tree}}
        record = {
            "schema": 1,
            "treebank": split.described,
            "set": chosen.set,
            "trees": {"train": len(training), chosen.set: len(gold)},
            "gold_sha256": hashlib.sha256(_lines(gold).encode()).hexdigest(),
            "parsers": {
                name: {**more, "figures": figures[name], "counts": counts[name].T.tolist()}
                for name, more in about.items()
            },
        }
        write_json(chosen.record, record)
    print(f"\nThe grammar has no tree for {baselines.no_tree} sentences, which get right-branching ones.")
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="folder with the files wsj_*.mrg")
    parser.add_argument("--output", type=Path, required=True, help="folder for the trees")
    parser.add_argument("--set", choices=("dev", "test"), default="test")
    parser.add_argument("--trees", type=Path, nargs="*", default=[], help="other parsers' trees of that set")
    parser.add_argument("--record", type=Path, help="file for figures and counts of both baselines")
    parser.add_argument("--limit", type=int, help="the number of training and of tested trees")
    return parser.parse_args()


def _print_figures(gold: Sequence[Tree], parsed: Mapping[str, Sequence[Tree]]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Print each parser's figures by length of sentence; return them, and the counts behind them by sentence."""
    print(f"| parser | words | {' | '.join(COLUMNS)} |\n|---|---|{'---|' * len(COLUMNS)}")
    figures, counts = dict[str, Any](), dict[str, Any]()
    for name, trees in parsed.items():
        sentences, repairs = scores.compare(gold, trees), [Repairs()] * len(gold)
        counts[name] = scores.counts(sentences)
        figures[name] = {"all": scores.figures(sentences, repairs)} | scores.by_length(sentences, repairs)
        for words, row in figures[name].items():
            cells = " | ".join(f"{row[key]:.2f}" if isinstance(row[key], float) else str(row[key]) for key in COLUMNS)
            print(f"| {name} | {words} | {cells} |", flush=True)
    print()
    return figures, counts


def _print_differences(counts: Mapping[str, Any]) -> None:
    for name in counts:
        if name == "pcfg":
            continue
        test = paired_bootstrap(counts[name], counts["pcfg"], scores.f1)
        print(
            f"{name} - pcfg: {test.difference:+.2f} F1, 95 % CI [{test.low:+.2f}, {test.high:+.2f}], p = {test.p:.3f} "
            f"({test.n} resamples, seed {test.seed})"
        )


def _lines(trees: Sequence[Tree]) -> str:
    return "".join(f"(TOP {tree})\n" for tree in trees)


def _write(path: Path, trees: Sequence[Tree]) -> None:
    path.write_text(_lines(trees), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
