"""A parser trained by maximum likelihood with label smoothing (Vaswani et al. 2017, section 6.3)."""

import dataclasses
import time
from collections.abc import Sequence
from typing import Any

import torch

from variations.store.atomic import write_text
from variations.store.ledger import RunFolder
from variations.tasks.base import Place
from variations.tasks.parsing import scores
from variations.tasks.parsing.config import ParsingConfig
from variations.tasks.parsing.linearise import Repairs, delinearise
from variations.tasks.parsing.measures import SCORES
from variations.tasks.parsing.module import ParsingData
from variations.tasks.parsing.trees import Tree
from variations.tasks.sequences.experiment import SequenceExperiment, perplexity


class ParsingExperiment(SequenceExperiment):
    """The network, its loss, and its tests (see `tasks/base.py` for each member).

    Args:
        config: The run's configuration.
        data: Its treebank, after `setup`.
        device: `cpu` or `cuda`.
    """

    config: ParsingConfig
    data: ParsingData

    def __init__(self, config: ParsingConfig, data: ParsingData, device: str = "cpu") -> None:
        super().__init__(config, data, data.encoding, data.vocabulary, device)
        self._dev_scores: list[float] = []

    def parse(
        self, trees: Sequence[Tree], place: Place, tested: str | None = None, **changes: Any
    ) -> list[tuple[Tree, Repairs]]:
        """The network's trees for the sentences of `trees`, with their repairs; `changes` override keys of `decode`.

        Over-long sentences of the set `tested` are reported.

        With the form `vinyals`, which has no tags, words get the tags of `trees`.
        """
        form, sentences = self.data.encoding.form, [tree.words() for tree in trees]
        translator, progress = self.translator(nbest=1, **changes), self.config.trainer.progress
        with place.precision(), torch.inference_mode():
            found = translator.translate([" ".join(words) for words in sentences], progress=progress)
        if tested is not None:
            self.tell_cuts(tested, found)
        return [
            delinearise(
                line.outputs[0].text.split(),
                words,
                form,
                tags=None if form.has_tags else [leaf.label for leaf in tree.leaves()],
            )
            for tree, words, line in zip(trees, sentences, found, strict=True)
        ]

    def validate(self, place: Place) -> dict[str, float]:
        """Dev loss and perplexity, and F1 and the percentage of valid trees of a greedy search."""
        measured = self.dev_loss(place)
        limit = self.config.trainer.val_bleu
        if limit and place.rank == 0:  # which writes the metrics
            gold = self.data.corpus.dev[:limit]
            trees, repairs = zip(*self.parse(gold, place, beam=1), strict=True)
            sentences = scores.compare(gold, trees)
            figures = scores.figures(sentences, repairs)
            measured |= {"dev/f1": float(figures["f1"]), "dev/valid": float(figures["valid"])}
            self._dev_scores = [200 * each.matched / max(1, each.gold + each.test) for each in sentences]
        return measured

    def dev_scores(self) -> list[float]:
        """F1 of each dev sentence parsed by the latest validation."""
        return self._dev_scores

    def test(self, folder: RunFolder, place: Place) -> dict[str, Any]:
        """Parse and score the sets of `decode.sets`, store the trees, and compute the losses of dev and test set."""
        began = time.monotonic()
        tested = {name: self._parse_and_score(folder, place, name) for name in self.config.decode.sets}
        seconds = time.monotonic() - began
        dev = self.dev_loss(place)
        total, symbols = self.loss_of(self.data.test_tokens, place)
        nll = total / max(1, symbols)
        return {
            "scores": {name: found.pop("scores") for name, found in tested.items()},
            "loss": {
                "dev_nll": dev["dev/nll"],
                "dev_ppl": dev["dev/ppl"],
                "test_nll": nll,
                "test_ppl": perplexity(nll),
            },
            "treebank": self.data.corpus.described,
            "trees": self.data.trees(),
            "parsed": tested,
            "vocabulary": self.data.vocabulary,
            "symbols": self.data.encoding.symbols.size,
            "dropped_pairs": self.data.train_tokens.dropped,
            "decoding_seconds": seconds,
            "remarks": [*self.data.seen_before, *self.remarks()],
        } | ({"cut": self.cut} if self.cut else {})

    def _parse_and_score(self, folder: RunFolder, place: Place, name: str) -> dict[str, Any]:
        """Scores of a set, also by length, and sums of repairs; the trees are stored."""
        gold = getattr(self.data.corpus, name)[: self.config.trainer.limit_test]
        trees, repairs = zip(*self.parse(gold, place, name), strict=True)
        kept = [scores.with_gold_punctuation(ours, right) for ours, right in zip(trees, gold, strict=True)]
        folder.hypotheses.mkdir(exist_ok=True)
        for suffix, side in (("hyp", kept), ("ref", gold)):
            write_text(folder.hypotheses / f"{name}.{suffix}", "".join(f"(TOP {tree})\n" for tree in side))
        write_text(folder.hypotheses / f"{name}.src", "".join(" ".join(tree.words()) + "\n" for tree in gold))
        sentences = scores.compare(gold, trees)
        figures = scores.figures(sentences, repairs)
        predicted = self.data.encoding.form.has_tags
        return {
            "scores": {
                key: {"value": float(figures[key]), "convention": convention}
                for key, (_, convention) in SCORES.items()
                if predicted or key != "tags"  # which are then those of the gold trees
            },
            "errors": figures["errors"],
            "by_length": scores.by_length(sentences, repairs),
            "repairs": {
                key: sum(dataclasses.asdict(each)[key] for each in repairs) for key in dataclasses.asdict(Repairs())
            },
            "tags": "predicted" if predicted else "gold",
        }
