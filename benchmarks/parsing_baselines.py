"""What a parser must beat: right-branching trees and a PCFG of the same training trees, scored as EVALB does.

    python benchmarks/parsing_baselines.py FOLDER --output DIR [--set dev]

FOLDER holds the Penn Treebank or its free sample. DIR gets each baseline's trees, one on a line, and the gold trees
(`score.py task=parsing hyp=DIR/pcfg.hyp ref=DIR/test.ref`); the table is printed.
"""

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from variations.errors import UserError
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
    parsers: dict[str, Callable[[Tree], Tree]] = {"right_branching": by_rule, "pcfg": by_grammar}
    print(f"| parser | words | {' | '.join(COLUMNS)} |\n|---|---|{'---|' * len(COLUMNS)}")
    for name, parse in parsers.items():
        found = [parse(tree) for tree in gold]
        mended = [scores.with_gold_punctuation(ours, right) for ours, right in zip(found, gold, strict=True)]
        _write(chosen.output / f"{name}.hyp", mended)
        sentences, repairs = scores.compare(gold, found), [Repairs()] * len(gold)
        table = {"all": scores.figures(sentences, repairs)} | scores.by_length(sentences, repairs)
        for words, row in table.items():
            cells = " | ".join(f"{row[key]:.2f}" if isinstance(row[key], float) else str(row[key]) for key in COLUMNS)
            print(f"| {name} | {words} | {cells} |", flush=True)
    print(f"\nThe grammar has no tree for {failed} sentences, which get right-branching ones.")
    return 0


def _write(path: Path, trees: Sequence[Tree]) -> None:
    path.write_text("".join(f"(TOP {tree})\n" for tree in trees), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
