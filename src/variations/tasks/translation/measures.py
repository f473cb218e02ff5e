"""What is measured, what was published, and when the two may be compared."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from variations.configuration.suggestions import did_you_mean

ENDE_BLEU = "tokenised, compound-split multi-bleu, case-sensitive"
MULTI30K_BLEU = "tokenised, lower-cased multi-bleu"


@dataclass(frozen=True)
class Measure:
    """A number in result.json: `scores.<set>.<score>.value`, or `loss.<key>`."""

    key: str
    """`test.bleu`, `dev.chrf`, `dev_ppl`, …"""

    @property
    def label(self) -> str:
        """Heading of its column."""
        if self.key == "dev_ppl":
            return "dev PPL"
        if self.key == "dev_nll":
            return "dev loss"
        part, _, score = self.key.partition(".")
        return f"{part} {_SCORES.get(score, score)}"

    @property
    def set(self) -> str:
        """`test`, `dev`, …: the text it was measured on."""
        return self.key.partition(".")[0].removesuffix("_ppl").removesuffix("_nll")

    @property
    def score(self) -> str:
        """`bleu`, `chrf`, …: its name in the ladder; the key itself for losses."""
        return self.key.partition(".")[2] or self.key

    @property
    def higher_is_better(self) -> bool:
        """False for losses and perplexities."""
        return "ppl" not in self.key and "nll" not in self.key

    def value(self, result: Mapping[str, Any]) -> float | None:
        """The number, or None where the run did not measure it."""
        entry = self._entry(result)
        found = entry.get("value") if isinstance(entry, Mapping) else entry
        return float(found) if isinstance(found, int | float) else None

    def convention(self, result: Mapping[str, Any]) -> str | None:
        """How it was computed, with sacreBLEU's signature where there is one."""
        if self.key == "dev_nll":
            return "nats per sub-word, end of sentence included, without label smoothing"
        if self.key == "dev_ppl":
            return "exponential of the dev loss per sub-word, end of sentence included, without label smoothing"
        entry = self._entry(result)
        if not isinstance(entry, Mapping):
            return None
        parts = [str(entry[name]).rstrip(".") for name in ("convention", "signature") if entry.get(name)]
        return "; ".join(parts) or None

    def _entry(self, result: Mapping[str, Any]) -> Any:
        part, _, score = self.key.partition(".")
        if not score:
            return (result.get("loss") or {}).get(part)
        return ((result.get("scores") or {}).get(part) or {}).get(score)


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


def table_measure(metric: str) -> Measure:
    """What `sweep.metric` means: a bare score is one of the test set."""
    return Measure(metric if "." in metric or metric in LOSSES else f"test.{metric}")


def unknown_measure(where: str, key: str, others: Sequence[str]) -> str | None:
    """Say that there is no such number; None if there is.

    Args:
        where: The configuration's key that names it.
        key: `dev.bleu`, `dev_ppl`, …
        others: Numbers that may be named there besides losses and the scores of sets.
    """
    part, _, score = key.partition(".")
    if key in (*LOSSES, *others) or (part and score in SCORES):
        return None
    valid = [*(f"dev.{score}" for score in SCORES), *LOSSES, *others]
    return (
        f"{where}: there is no '{key}'.{did_you_mean(key, valid)} Valid: {', '.join(valid)}, and the scores of other "
        "sets by SET.SCORE."
    )


def unmeasured(where: str, keys: Sequence[str], sets: Sequence[str], place: str = "") -> list[str]:
    """Sets whose scores are asked for, and that a run does not translate (`decode.sets`).

    Args:
        where: The configuration's key that names the scores.
        keys: Valid numbers.
        sets: What is translated.
        place: Where to write `decode.sets`, or what to do instead.
    """
    wanted = {key.partition(".")[0] for key in keys if "." in key}
    return [
        f"{where}: {name} is scored only if it is translated: add decode.sets=[{','.join([*sets, name])}]{place}."
        for name in sorted(wanted.difference(sets))
    ]


@dataclass(frozen=True)
class Published:
    """A column of a paper's table: on which text, by which convention, and which of our measures equals it."""

    key: str
    label: str
    corpus: str
    """Loader that reads the same corpus (`data.kind`), or empty."""
    languages: tuple[str, str]
    text: str
    """Name of the test set."""
    convention: str
    measures: tuple[str, ...] = ()
    """Our measures from the same convention to a near one."""
    vocabulary: int | None = None
    """Rows of the vocabulary a figure per sub-word depends on."""
    test: str | None = None
    """Our test set must be this one (`data.test`)."""

    @property
    def is_cost(self) -> bool:
        """Whether it says what training cost, of which no difference between rows is taken."""
        return self.convention == _COST or self.key == "params_millions"


_WMT = ("wmt14", ("en", "de"))
_MULTI30K = ("multi30k", ("en", "de"))
_FLICKR = (*_MULTI30K, "Multi30k test_2016_flickr", MULTI30K_BLEU)
_2016 = "test_2016_flickr"
_COST = "training time × GPUs × their sustained TFLOPS"
_KINDS = {
    kind.key: kind
    for kind in (
        Published("dev_bleu", "dev BLEU", *_WMT, "newstest2013", ENDE_BLEU, ("dev.bleu_split", "dev.bleu")),
        Published("dev_ppl", "dev PPL", *_WMT, "newstest2013", "per BPE token", ("dev_ppl",), 37_000),
        Published("bleu_ende", "EN-DE BLEU", *_WMT, "newstest2014", ENDE_BLEU, ("test.bleu_split", "test.bleu")),
        Published(
            "bleu_enfr",
            "EN-FR BLEU",
            "wmt14",
            ("en", "fr"),
            "newstest2014",
            "tokenised multi-bleu, case-sensitive",
            ("test.bleu_tok", "test.bleu"),
        ),
        Published("bleu_tokenised", "BLEU", *_FLICKR, ("test.bleu_tok_lc", "test.bleu_tok"), test=_2016),
        Published("bleu_test2016", "BLEU", *_FLICKR, ("test.bleu_tok_lc", "test.bleu_tok"), test=_2016),
        Published(
            "bleu_test2017",
            "BLEU 2017",
            *_MULTI30K,
            "Multi30k test_2017_flickr",
            MULTI30K_BLEU,
            ("test_2017_flickr.bleu_tok_lc",),
        ),
        Published(
            "bleu_mscoco",
            "BLEU COCO",
            *_MULTI30K,
            "Multi30k test_2017_mscoco",
            MULTI30K_BLEU,
            ("test_2017_mscoco.bleu_tok_lc",),
        ),
        Published("flops_ende", "training FLOPs, EN-DE", *_WMT, "the paper's machines", _COST),
        Published("flops_enfr", "training FLOPs, EN-FR", "wmt14", ("en", "fr"), "the paper's machines", _COST),
    )
}


def published_kind(key: str) -> Published:
    """What a key of `variation.published` means; an unknown key gets a column of its own and is never compared."""
    return _KINDS.get(key) or Published(key, key.replace("_", " "), "", ("", ""), "", "")


def data_name(config: Mapping[str, Any]) -> str:
    """The measured data in words: `toy en-de`."""
    data = config.get("data") or {}
    return f"{data.get('name', 'unknown data')} {data.get('source', '?')}-{data.get('target', '?')}"


def incomparable(kind: Published, config: Mapping[str, Any]) -> str | None:
    """Why a published and a measured figure cannot be compared; None when they were taken on the same text."""
    data = config.get("data") or {}
    where = f"published on {kind.text}" if kind.text else f"published as {kind.key}"
    if kind.is_cost:
        return f"published as {_COST}, measured by counting operations: not compared"
    if not kind.measures:
        return f"{where}: no measured figure of this kind"
    if (data.get("kind"), data.get("source"), data.get("target")) != (kind.corpus, *kind.languages):
        return f"{where}, measured on {data_name(config)}: not compared"
    if kind.test and data.get("test") not in (kind.test, None):
        return f"{where}, measured on {data['test']}: not compared"
    if (config.get("trainer") or {}).get("limit_test"):
        return f"{where}, measured on a part of it (trainer.limit_test): not compared"
    if kind.vocabulary and data.get("vocabulary") != kind.vocabulary:
        return f"{where} per sub-word of another vocabulary ({kind.vocabulary:,} types): not compared"
    return None


def caveats(kind: Published, measure: str, config: Mapping[str, Any]) -> list[str]:
    """What else differs between two figures on the same text: convention, scale, amount of data."""
    found = []
    data = config.get("data") or {}
    if measure != kind.measures[0]:
        found.append(f"published as {kind.convention}, measured as {Measure(measure).label}")
    if scale_name(config) != "full scale":
        found.append(f"measured at {scale_name(config)}")
    if data.get("train_pairs"):
        found.append(f"measured with {data['train_pairs']:,} training pairs only")
    return found


def scale_name(config: Mapping[str, Any]) -> str:
    """`widths × 0.25, depths × 0.5, steps × 0.009 of the paper's`, or `full scale`."""
    scale = (config.get("recipe") or {}).get("scale") or {}
    factors = [(f"{key}s", scale.get(key, 1)) for key in ("width", "depth")] + [("steps", scale.get("steps", 1))]
    shrunk = [f"{what} × {factor:g}" for what, factor in factors if factor != 1]
    return f"{', '.join(shrunk)} of the paper's" if shrunk else "full scale"
