"""Measures of a parser, published results, and when the two may be compared."""

from collections.abc import Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

from variations.store.ledger import RunFolder
from variations.system.errors import DataError
from variations.tasks.base import PERCENT, POSITIVE, Measure, Published, TestedRun
from variations.tasks.parsing import scores, stored
from variations.tasks.parsing.config import DEV_TREES, SYMBOLS, WORDS
from variations.tasks.parsing.treebank import DESCRIBED, FURTHER
from variations.tasks.sequences.stored import reference_digest
from variations.tasks.sequences.task import UNSCALED, scale_name
from variations.tasks.task import Task

CONVENTION = "EVALB with COLLINS.prm, all lengths"
SCORES = {
    "f1": ("F1", CONVENTION),
    "recall": ("recall", CONVENTION),
    "precision": ("precision", CONVENTION),
    "exact": ("exact match %", "sentences of which EVALB matches all brackets"),
    "tags": ("tags %", "words with the correct part-of-speech tag, without punctuation; not of forms without tags"),
    "valid": ("valid %", "lines of symbols that are a tree over the sentence without repairs"),
}
"""Scores of a parsed set: heading and convention."""
LOSSES = {
    "dev_ppl": ("dev PPL", "exponential of the dev loss per symbol, end of line included, without label smoothing"),
    "dev_nll": ("dev loss", "nats per symbol, end of line included, without label smoothing"),
    "test_ppl": ("test PPL", "exponential of the test loss per symbol, end of line included, without label smoothing"),
    "test_nll": ("test loss", "nats per symbol, end of line included, without label smoothing"),
}
PUBLISHED = Published("f1_wsj23", "F1, WSJ 23", "section 23 of the Wall Street Journal", CONVENTION, ("test.f1",))
TREES = {"train": 39_832, "test": 2_416}
"""Trees of sections 02-21 and 23 in the Penn Treebank; the paper speaks of about 40,000 training sentences."""

SAMPLE_TREES = {"train": 3_396, "test": 245}
"""The same for its free sample."""


class Measures(Task):
    """The members of the task for readers of stored runs."""

    scores: Mapping[str, tuple[str, str]] = SCORES
    metrics: Sequence[str] = (*(f"dev.{name}" for name in SCORES), *LOSSES)
    made_inputs: Sequence[str] = (WORDS, SYMBOLS)
    tested_keys: Sequence[str] = ("data.kind", "data.seed")  # generated trees
    loss_keys: Sequence[str] = ("data.form",)

    def same_texts(self, config: Mapping[str, Any]) -> Sequence[str]:
        """Vocabulary, lengths, form and number of training trees."""
        return ("data.vocabulary", "data.max_length", "data.form", "data.train_trees")

    def measure(self, key: str) -> Measure:
        """Any score of any set, and any loss."""
        part, _, score = key.partition(".")
        if key in LOSSES:
            label, convention = LOSSES[key]
            part = part.partition("_")[0]
            return Measure(
                key, label, higher_is_better=False, convention=convention, set=part, is_loss=True, range=POSITIVE
            )
        if score not in SCORES:
            return super().measure(key)
        label, convention = SCORES[score]
        items = "" if score == "valid" else "sentences"
        label = f"{part} {label}"
        return Measure(key, label, higher_is_better=True, convention=convention, set=part, items=items, range=PERCENT)

    def watched(self, key: str) -> str | None:
        """All scores but the part of valid trees are watched by the F1 of validations."""
        return super().watched(key) if key in LOSSES or key.endswith(".valid") else "dev/f1"

    def unprunable(self, key: str, config: Any, *, by_item: bool) -> list[str]:
        """Dev scores need trees at each validation."""
        found = super().unprunable(key, config, by_item=by_item)
        if key.startswith("dev.") and config.trainer.val_bleu == 0:
            found.append(": validations measure no F1; set trainer.val_bleu=200.")
        return found

    def validated_keys(self, key: str) -> Sequence[str]:
        """Validations score the first `trainer.val_bleu` dev trees."""
        return () if key in LOSSES else ("trainer.val_bleu",)

    def further(self, metric: Measure) -> Sequence[str]:
        """The other scores of the metric's set."""
        return [] if metric.key in LOSSES else [f"{metric.set}.{name}" for name in ("f1", "exact", "valid")]

    def published(self, key: str) -> Published:
        """F1 on section 23; an unknown key gets its own column."""
        return PUBLISHED if key == PUBLISHED.key else super().published(key)

    def data_name(self, config: Mapping[str, Any]) -> str:
        """`ptb`, `ptb_sample`, `trees_toy`."""
        return str((config.get("data") or {}).get("name", ""))

    def conditions(self, config: Mapping[str, Any], result: Mapping[str, Any], *, scaled: bool) -> str:
        """The treebank that the run was tested on, and the recipe."""
        data, recipe = config.get("data") or {}, config.get("recipe") or {}
        if data.get("kind") == "toy":
            settings = {"train_trees": data.get("train_trees"), "seed": data.get("seed")}
            told = [f"data.{key}={value}" for key, value in settings.items() if value is not None]
            trees = ", ".join(["built-in trees", *told])
            trees += f"; {FURTHER}" if data.get("extra") else ""
        else:
            trees = str(result.get("treebank") or f"the treebank in {data.get('root')}")
        wholes = SAMPLE_TREES if trees.startswith(DESCRIBED["sample"]) else TREES
        if trees.startswith(tuple(DESCRIBED.values())):
            counts = _trees(result)
            for part, whole in wholes.items():
                if counts.get(part, whole) < whole:
                    trees += f"; {counts[part]:,} of the {whole:,} {'training' if part == 'train' else part} trees"
        if dropped := result.get("dropped_pairs"):
            trees += f"; {dropped:,} training tree{'s' * (dropped > 1)} left out, longer than data.max_length"
        rows = result.get("vocabulary")
        return f"{trees}; recipe {recipe.get('name')}" + (f", vocabulary {rows:,}" if isinstance(rows, int) else "")

    def incomparable(self, published: Published, config: Mapping[str, Any], result: Mapping[str, Any]) -> str | None:
        """Only F1 of a run on the whole of section 23 is compared with Table 4."""
        if published.key != PUBLISHED.key:
            return None
        if (config.get("data") or {}).get("kind") == "toy":
            return "the run was tested on built-in trees"
        treebank, trees = str(result.get("treebank") or ""), _trees(result)
        if treebank.startswith(DESCRIBED["sample"]):
            return "the run was trained and tested on the free sample of the Penn Treebank"
        if treebank.startswith(DESCRIBED["part"]):
            return "files of section 23 were missing"
        if trees.get("test", TREES["test"]) < TREES["test"]:
            return f"the run was tested on {trees['test']:,} of the {TREES['test']:,} trees of section 23"
        return None

    def caveats(
        self, published: Published, key: str, config: Mapping[str, Any], result: Mapping[str, Any]
    ) -> list[str]:
        """Fewer trees, or another scale."""
        data, recipe = config.get("data") or {}, config.get("recipe") or {}
        found = []
        trees = _trees(result).get("train", data.get("train_trees") or TREES["train"])
        if trees < TREES["train"]:
            found.append(f"{trees:,} training trees of {TREES['train']:,}")
        if dropped := result.get("dropped_pairs"):
            found.append(f"{dropped:,} training tree{'s' * (dropped > 1)} left out, longer than data.max_length")
        if scale_name(config) != UNSCALED:
            found.append(f"recipe={recipe.get('name')} has scaled widths, depth or steps")
        return found

    def loss_scale(
        self, config: Mapping[str, Any], result: Mapping[str, Any], inputs: Mapping[str, str]
    ) -> Mapping[str, Any]:
        """The form of the lines, and the dev trees."""
        trees = {"dev trees": inputs[DEV_TREES]} if DEV_TREES in inputs else {}
        return {**super().loss_scale(config, result, inputs), **trees}

    def references(self, folder: RunFolder, part: str) -> str | None:
        """SHA-256 of the gold trees."""
        return reference_digest(folder.hypotheses, part)

    def items(self, run: TestedRun, measure: Measure, *, cache: bool = True) -> NDArray[Any]:
        """EVALB's counts of each sentence, (S, 7): see `scores.counts`.

        Raises DataError if the run has stored neither trees nor counts, or if the measure has no values by sentence.
        """
        if not measure.items:
            raise DataError(f"{measure.label} has no counts by sentence.")
        return stored.counts(run.folder, measure.set)

    def aggregate(self, measure: Measure, sums: NDArray[Any]) -> NDArray[Any]:
        """A score in percent of summed counts, (…, 7) to (…)."""
        return scores.rate(measure.key.partition(".")[2], sums)

    def record(self, run: TestedRun) -> Mapping[str, Any]:
        """Trees of built-in treebanks, counts by sentence of others."""
        return stored.record(run.folder, run.config)


def _trees(result: Mapping[str, Any]) -> Mapping[str, int]:
    """How many trees each set of the run's treebank had; empty for results of before they were counted."""
    found = result.get("trees")
    return found if isinstance(found, Mapping) else {}
