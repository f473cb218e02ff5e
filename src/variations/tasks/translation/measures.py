"""What is measured, what was published, and when the two may be compared."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from variations.configuration.suggestions import did_you_mean
from variations.store.ledger import RunFolder
from variations.system.errors import DataError
from variations.tasks.base import PERCENT, POSITIVE, Measure, Published, TestedRun
from variations.tasks.sequences.stored import reference_digest
from variations.tasks.sequences.task import UNSCALED, resized, scale_name
from variations.tasks.task import Task, values_of
from variations.tasks.translation.config import IDS, MODEL_FILE

if TYPE_CHECKING:
    from numpy.typing import NDArray

ENDE_BLEU = "tokenised, compound-split multi-bleu, case-sensitive"
MULTI30K_BLEU = "tokenised, lower-cased multi-bleu"
_SCORES = {
    "bleu": "BLEU",
    "bleu_lc": "BLEU (lower-cased)",
    "bleu_tok": "BLEU (tokenised)",
    "bleu_tok_lc": "BLEU (tokenised, lower-cased)",
    "bleu_split": "BLEU (tokenised, split)",
    "chrf": "chrF",
    "gleu": "GLEU",
    "exact_match": "exact match %",
}
SCORES = tuple(_SCORES)
"""Scores of a translated set."""
LOSSES = ("dev_ppl", "dev_nll")
STEEP = 0.05
"""Largest relative fall of the dev perplexity in the last fifth of its steps for a row to count as trained."""
_LOSS_LABELS = {"ppl_per_word": "PPL per word", "ppl": "PPL", "nll": "loss"}
_CONVENTIONS = {
    "dev_nll": "nats per sub-word, end of sentence included, without label smoothing",
    "dev_ppl": "exponential of the dev loss per sub-word, end of sentence included, without label smoothing",
}


@cache
def measure(key: str) -> Measure:
    """`SET.SCORE`, or a loss as `SET_ppl`; of any set: a stored result may contain sets that are no longer used."""
    part, _, score = key.partition(".")
    if score:
        of_bleu = score.startswith("bleu")
        unit = "BLEU" if of_bleu else ""
        items = "sentences" if of_bleu or score == "exact_match" else ""
        limits = PERCENT if score in _SCORES else None
        return Measure(key, f"{part} {_SCORES.get(score, score)}", True, None, unit, part, items, range=limits)
    loss = next((name for name in _LOSS_LABELS if key.endswith(f"_{name}")), "")
    part = key.removesuffix(f"_{loss}") if loss else key
    digits = 3 if loss else 2  # of a converged model on the built-in corpus, perplexities differ in the third
    label = f"{part} {_LOSS_LABELS[loss]}" if loss else key
    limits = POSITIVE if loss else None
    is_loss = loss in ("ppl", "nll")
    return Measure(key, label, not loss, _CONVENTIONS.get(key), "", part, digits=digits, is_loss=is_loss, range=limits)


def score_of(measure: Measure) -> str:
    """`bleu`, `chrf`, …: a score's name in the ladder; the key itself for losses."""
    return measure.key.partition(".")[2] or measure.key


@dataclass(frozen=True)
class PublishedScore(Published):
    """A published figure, and the data that it was measured on."""

    corpus: str = ""
    """Loader that reads the same corpus (`data.kind`), or empty."""
    languages: tuple[str, str] = ("", "")
    vocabulary: int | None = None
    """Size of the vocabulary, on which a figure per sub-word depends."""
    stem: str | None = None
    """The dev or test set that a comparison requires (`data.dev`, `data.test`)."""


_COST = "training time × GPUs × their sustained TFLOPS"


def _kind(
    key: str,
    label: str,
    corpus: str,
    languages: tuple[str, str],
    text: str,
    convention: str,
    measures: tuple[str, ...] = (),
    vocabulary: int | None = None,
    stem: str | None = None,
) -> PublishedScore:
    unit = "BLEU" if "bleu" in key else ""
    cost = convention == _COST
    return PublishedScore(key, label, text, convention, measures, cost, unit, corpus, languages, vocabulary, stem)


_WMT = ("wmt14", ("en", "de"))
_MULTI30K = ("multi30k", ("en", "de"))
_FLICKR = (*_MULTI30K, "Multi30k test_2016_flickr", MULTI30K_BLEU)
_2013, _2014, _2016 = "newstest2013", "newstest2014", "test_2016_flickr"
_USUAL_STEMS = ("valid", "test")
"""Of dev and test sets that need no name."""
_KINDS = {
    kind.key: kind
    for kind in (
        _kind("dev_bleu", "dev BLEU", *_WMT, _2013, ENDE_BLEU, ("dev.bleu_split", "dev.bleu"), stem=_2013),
        _kind("dev_ppl", "dev PPL", *_WMT, _2013, "per BPE token", ("dev_ppl",), 37_000, _2013),
        _kind("bleu_ende", "EN-DE BLEU", *_WMT, _2014, ENDE_BLEU, ("test.bleu_split", "test.bleu"), stem=_2014),
        _kind(
            "bleu_enfr",
            "EN-FR BLEU",
            "wmt14",
            ("en", "fr"),
            _2014,
            "tokenised multi-bleu, case-sensitive",
            ("test.bleu_tok", "test.bleu"),
            stem=_2014,
        ),
        _kind("bleu_tokenised", "BLEU", *_FLICKR, ("test.bleu_tok_lc", "test.bleu_tok"), stem=_2016),
        _kind("bleu_test2016", "BLEU", *_FLICKR, ("test.bleu_tok_lc", "test.bleu_tok"), stem=_2016),
        _kind(
            "bleu_test2017",
            "BLEU 2017",
            *_MULTI30K,
            "Multi30k test_2017_flickr",
            MULTI30K_BLEU,
            ("test_2017_flickr.bleu_tok_lc",),
        ),
        _kind(
            "bleu_mscoco",
            "BLEU COCO",
            *_MULTI30K,
            "Multi30k test_2017_mscoco",
            MULTI30K_BLEU,
            ("test_2017_mscoco.bleu_tok_lc",),
        ),
        _kind("flops_ende", "training FLOPs, EN-DE", *_WMT, "the paper's machines", _COST),
        _kind("flops_enfr", "training FLOPs, EN-FR", "wmt14", ("en", "fr"), "the paper's machines", _COST),
    )
}


class Measures(Task):
    """The members of the task for readers of stored runs."""

    untrained_when = (
        "scores no better than a copy or a dictionary, that translates most sentences alike, or whose dev perplexity "
        f"fell by more than {100 * STEEP:g} % in the last fifth of its steps"
    )
    metrics: Sequence[str] = (*(f"dev.{score}" for score in SCORES), *LOSSES)

    made_inputs: Sequence[str] = (MODEL_FILE, IDS)
    tested_keys: Sequence[str] = ("data.source", "data.target", "data.dev", "data.test", "data.lowercase")
    loss_keys: Sequence[str] = ("data.train", "data.train_pairs", "data.vocabulary")

    def same_texts(self, config: Mapping[str, Any]) -> Sequence[str]:
        """Vocabulary, lengths, case and, where it is no built-in corpus, the number of pairs that are used."""
        kept = ("data.vocabulary", "data.vocabulary_pad_to", "data.max_length", "data.lowercase")
        # Of the built-in corpus, only the first pairs are unpacked.
        return kept if (config.get("data") or {}).get("kind") == "toy" else (*kept, "data.train_pairs")

    def measure(self, key: str) -> Measure:
        """Any score of any set, and any loss."""
        return measure(key)

    def unknown_metric(self, name: str, others: Sequence[str] | None = None) -> str | None:
        """Scores of any set may be named as SET.SCORE; in a sweep, those of the test set by their bare names."""
        others = SCORES if others is None else others
        part, _, score = name.partition(".")
        if name in (*LOSSES, *others) or (part and score in SCORES):
            return None
        valid = [*self.metrics, *others]
        return (
            f"there is no '{name}'.{did_you_mean(name, valid)} Valid: {', '.join(valid)}, and the scores of other "
            "sets by SET.SCORE."
        )

    def unmeasured(self, keys: Sequence[str], config: Any) -> list[str]:
        """Sets whose scores are requested, but which a run does not translate (`decode.sets`)."""
        sets = config.decode.sets
        wanted = {key.partition(".")[0] for key in keys if "." in key}
        return [
            f"{name} is scored only if it is translated: add decode.sets=[{','.join([*sets, name])}]"
            for name in sorted(wanted.difference(sets))
        ]

    def watched(self, key: str) -> str | None:
        """All scores are watched by the BLEU of validations."""
        return key.replace("_", "/", 1) if key in LOSSES else "dev/bleu"

    def unprunable(self, key: str, config: Any, *, by_item: bool) -> list[str]:
        """Dev scores need translations at each validation, and so does a test over sentences."""
        found = []
        if key not in LOSSES and not key.startswith("dev."):
            found.append(f": {key} is known only at the end; prune by dev.bleu or dev_ppl.")
        elif key.startswith("dev.") and config.trainer.val_bleu == 0:
            found.append(": validations measure no BLEU; set trainer.val_bleu=200.")
        if by_item and key in LOSSES:
            found.append(" compares translated sentences: choose a metric such as dev.bleu.")
        return found

    def validated_keys(self, key: str) -> Sequence[str]:
        """Validations score the first `trainer.val_bleu` dev sentences."""
        return () if key in LOSSES else ("trainer.val_bleu",)

    def further(self, metric: Measure) -> Sequence[str]:
        """BLEU of the test set, unless dev BLEU is compared, dev BLEU and perplexity, and exact match."""
        plain = ("test.bleu",) if metric.key != "dev.bleu" else ()
        return (*plain, "dev.bleu", "dev_ppl", "test.exact_match")

    def published(self, key: str) -> PublishedScore:
        """A figure of a paper's table; an unknown key gets its own column and is never compared."""
        return _KINDS.get(key) or _kind(key, key.replace("_", " "), "", ("", ""), "", "")

    def data_name(self, config: Mapping[str, Any]) -> str:
        """`toy en-de`."""
        data = config.get("data") or {}
        name, kind = data.get("name", "unknown data"), data.get("kind")
        if "toy" in (name, kind):  # the kind may have been typed
            name = kind or name
        return f"{name} {data.get('source', '?')}-{data.get('target', '?')}"

    def conditions(self, config: Mapping[str, Any], result: Mapping[str, Any], *, scaled: bool) -> str:
        """Data, recipe, batch, vocabulary and beam; with `scaled`, also the fraction of the papers' sizes."""
        recipe, data = config.get("recipe") or {}, config.get("data") or {}
        other = resized(config)
        but = f", but {' '.join(other)}" if other else ""
        scale = f" ({self.scale(config)}{but})" if scaled else ""
        case = ", lower-cased" if data.get("lowercase") else ""
        part = f", the first {data['train_pairs']:,} training pairs" if data.get("train_pairs") else ""
        if dropped := result.get("dropped_pairs"):
            part += f", without {dropped:,} pairs that were blank or longer than data.max_length"
        named = {key: str(data[key]) for key in ("dev", "test") if data.get(key) not in (*_USUAL_STEMS, None)}
        sets = "".join(f", {key} set {stem}" for key, stem in named.items())
        return (
            f"{self.data_name(config)}{case}{part}{sets}, recipe {recipe.get('name', 'unknown')}{scale}, "
            f"up to {recipe.get('batch_tokens', 0):,} tokens a batch, vocabulary {data.get('vocabulary', 0):,}, "
            f"beam {(config.get('decode') or {}).get('beam', '?')}"
        )

    def scale(self, config: Mapping[str, Any]) -> str:
        """The fraction of the papers' sizes.

        A recipe's scale is relative to the papers on WMT14: a row whose figures were published on Multi30k has its
        paper's own size.
        """
        figures = (config.get("variation") or {}).get("published") or {}
        of_multi30k = bool(figures) and all(self.published(key).corpus == _MULTI30K[0] for key in figures)
        return UNSCALED if of_multi30k else scale_name(config)

    def misnamed(self, result: Mapping[str, Any]) -> str | None:
        """Texts that `data=multi30k` has found in `data.root`, but that are not Multi30k's."""
        other = result.get("not_of_multi30k")
        if not isinstance(other, Sequence) or not other:
            return None
        return f"{', '.join(map(str, other))} in data.root {'were' if len(other) > 1 else 'was'} not Multi30k's"

    def incomparable(self, published: Published, config: Mapping[str, Any], result: Mapping[str, Any]) -> str | None:
        """Why a published and a measured figure cannot be compared; None if they were measured on the same text."""
        kind, data = self.published(published.key), config.get("data") or {}
        where = f"published on {kind.text}" if kind.text else f"published as {kind.key}"
        if kind.is_cost:
            return f"published as {_COST}, measured by counting operations: not compared"
        if not kind.measures:
            return f"{where}: no measured figure of this kind"
        if (data.get("kind"), data.get("source"), data.get("target")) != (kind.corpus, *kind.languages):
            return f"{where}, measured on {self.data_name(config)}: not compared"
        if other := self.misnamed(result):
            return f"{where}, and {other}: not compared"
        of_dev = measure(kind.measures[0]).set == "dev"
        stem = data.get("dev" if of_dev else "test")
        if kind.stem and stem not in (kind.stem, None):
            return f"{where}, measured on {stem}: not compared"
        if data.get("lowercase") and kind.convention != MULTI30K_BLEU:
            return f"{where}, measured on lower-cased text (data.lowercase): not compared"
        for limit in ("limit_test", *(["limit_val_batches"] if of_dev else [])):
            if (config.get("trainer") or {}).get(limit):
                return f"{where}, measured on a part of it (trainer.{limit}): not compared"
        if kind.vocabulary and data.get("vocabulary") != kind.vocabulary:
            return f"{where} per sub-word of another vocabulary ({kind.vocabulary:,} types): not compared"
        return None

    def caveats(
        self, published: Published, key: str, config: Mapping[str, Any], result: Mapping[str, Any]
    ) -> list[str]:
        """What else differs between two figures on the same text: convention, scale, amount of data."""
        found = []
        data = config.get("data") or {}
        if key != published.measures[0]:
            found.append(f"published as {published.convention}, measured as {measure(key).label}")
        if (scale := self.scale(config)) != UNSCALED:
            found.append(f"measured at {scale}")
        if data.get("kind") == "wmt14" and data.get("root"):
            found.append("measured on the files of data.root, which are not checked")
        if data.get("train_pairs"):
            found.append(f"measured with only {data['train_pairs']:,} training pairs")
        return found

    def loss_scale(
        self, config: Mapping[str, Any], result: Mapping[str, Any], inputs: Mapping[str, str]
    ) -> Mapping[str, Any]:
        """The sub-words, which training text, case and size of the vocabulary decide, and the dev text."""
        data, model = config.get("data") or {}, inputs.get(MODEL_FILE)
        names = [f"{data.get('dev')}.{data.get(side)}" for side in ("source", "target")]
        return {
            **({"vocabulary": result["vocabulary"]} if "vocabulary" in result else {}),
            **values_of(config, self.tested_keys),
            **({"sub-word model": model} if model else values_of(config, self.loss_keys)),
            **{f"text of {name}": inputs[name] for name in names if name in inputs},
        }

    def references(self, folder: RunFolder, part: str) -> str | None:
        """SHA-256 of the references that a run stored."""
        return reference_digest(folder.hypotheses, part)

    def items(self, run: TestedRun, measure: Measure, *, cache: bool = True) -> "NDArray[Any]":
        """BLEU's counts for each sentence, (S, 10); of exact match, hits and ones, (S, 2)."""
        from variations.tasks.translation.scoring.ladder import BLEUS, EXACT_MATCH
        from variations.tasks.translation.scoring.stored_text import StoredText

        score, text = score_of(measure), StoredText(run.folder.hypotheses, measure.set)
        if score == EXACT_MATCH:
            return text.matches()
        if score not in BLEUS:
            raise DataError(f"{measure.label} is not computed from sums over sentences")
        language = (run.config.get("data") or {}).get("target") or "de"
        return text.counts(score, language, cache=cache)

    def aggregate(self, measure: Measure, sums: "NDArray[Any]") -> "NDArray[Any]":
        """BLEU of summed counts, (…, 10) to (…); exact match of summed hits and ones."""
        from variations.tasks.translation.scoring.counts import bleu
        from variations.tasks.translation.scoring.ladder import TOKENISED

        if sums.shape[-1] == 2:
            return 100 * super().aggregate(measure, sums)
        return bleu(sums, smooth=score_of(measure) not in TOKENISED)
