"""What a parser must beat: right-branching trees and a PCFG of the same training trees, scored as EVALB does.

    python benchmarks/parsing_baselines.py FOLDER --output DIR [--set dev] [--trees RUN/hypotheses/test.hyp …]
    python benchmarks/parsing_baselines.py FOLDER --output DIR --record records/parsing_small/baselines.json

FOLDER holds the Penn Treebank or its free sample. DIR gets each baseline's trees, one on a line, and the gold trees
(`score.py task=parsing hyp=DIR/pcfg.hyp ref=DIR/test.ref`); the table is printed, and what a paired bootstrap over the
sentences says of each difference from the PCFG. `--record` keeps figures and counts by sentence, without words, for
docs/results/parsing.md.
"""

import argparse
import hashlib
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from variations.store.atomic import write_json
from variations.system.errors import UserError
from variations.tables.significance import paired_bootstrap
from variations.tasks.parsing import scores
from variations.tasks.parsing.linearise import Repairs
from variations.tasks.parsing.pcfg import Pcfg
from variations.tasks.parsing.right_branching import RightBranching
from variations.tasks.parsing.treebank import find
from variations.tasks.parsing.trees import Tree, read_trees

COLUMNS = ("sentences", "f1", "recall", "precision", "exact", "tags")


def main() -> int:
    """Parse one set with both baselines."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where the files wsj_*.mrg lie")
    parser.add_argument("--output", type=Path, required=True, help="folder for the trees")
    parser.add_argument("--set", choices=("dev", "test"), default="test")
    parser.add_argument("--trees", type=Path, nargs="*", default=[], help="other parsers' trees of that set")
    parser.add_argument("--record", type=Path, help="file for figures and counts of both baselines")
    parser.add_argument("--limit", type=int, help="only so many training and so many tested trees")
    chosen = parser.parse_args()
    try:
        split = find(chosen.folder)
        training = read_trees(split.train)[: chosen.limit]
        gold = read_trees(getattr(split, chosen.set))[: chosen.limit]
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    branching = RightBranching(training)
    began = time.monotonic()
    grammar = Pcfg(training)
    print(f"Data: {split.described}; {len(training)} training trees, {len(gold)} {chosen.set} trees.", flush=True)
    print(
        f"PCFG: {len(grammar.symbols)} symbols, {len(grammar.cost)} binary rules, {time.monotonic() - began:.0f} s.\n"
    )
    failed = 0

    def by_rule(tree: Tree) -> Tree:
        return branching.parse(tree.words(), [leaf.label for leaf in tree.leaves()])

    def by_grammar(tree: Tree) -> Tree:
        nonlocal failed
        found, _ = grammar.parse(tree.words())
        failed += found is None
        return found or by_rule(tree)

    chosen.output.mkdir(parents=True, exist_ok=True)
    _write(chosen.output / f"{chosen.set}.ref", gold)
    found = {"right_branching": [by_rule(tree) for tree in gold], "pcfg": [by_grammar(tree) for tree in gold]}
    found |= {str(path): read_trees([path]) for path in chosen.trees}
    print(f"| parser | words | {' | '.join(COLUMNS)} |\n|---|---|{'---|' * len(COLUMNS)}")
    counts: dict[str, Any] = {}
    tables: dict[str, Any] = {}
    for name, trees in found.items():
        if name in ("right_branching", "pcfg"):
            mended = [scores.with_gold_punctuation(ours, right) for ours, right in zip(trees, gold, strict=True)]
            _write(chosen.output / f"{name}.hyp", mended)
        sentences, repairs = scores.compare(gold, trees), [Repairs()] * len(gold)
        counts[name] = scores.counts(sentences)
        tables[name] = table = {"all": scores.figures(sentences, repairs)} | scores.by_length(sentences, repairs)
        for words, row in table.items():
            cells = " | ".join(f"{row[key]:.2f}" if isinstance(row[key], float) else str(row[key]) for key in COLUMNS)
            print(f"| {name} | {words} | {cells} |", flush=True)
    print()
    for name in found.keys() - {"pcfg"}:
        test = paired_bootstrap(counts[name], counts["pcfg"], scores.f1)
        print(
            f"{name} - pcfg: {test.difference:+.2f} F1, 95 % CI [{test.low:+.2f}, {test.high:+.2f}], p = {test.p:.3f} "
            f"({test.n} resamples, seed {test.seed})"
        )
    if chosen.record:
        chosen.record.parent.mkdir(parents=True, exist_ok=True)
        about: dict[str, dict[str, int]] = {
            "right_branching": {},
            "pcfg": {"symbols": len(grammar.symbols), "rules": len(grammar.cost), "no_tree": failed},
        }
        record = {
            "schema": 1,
            "treebank": split.described,
            "set": chosen.set,
            "trees": {"train": len(training), chosen.set: len(gold)},
            "gold_sha256": hashlib.sha256(_lines(gold).encode()).hexdigest(),
            "parsers": {
                name: {**more, "figures": tables[name], "counts": counts[name].T.tolist()}
                for name, more in about.items()
            },
        }
        write_json(chosen.record, record)
    print(f"\nThe grammar has no tree for {failed} sentences, which get right-branching ones.")
    return 0


def _lines(trees: Sequence[Tree]) -> str:
    return "".join(f"(TOP {tree})\n" for tree in trees)


def _write(path: Path, trees: Sequence[Tree]) -> None:
    path.write_text(_lines(trees), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
