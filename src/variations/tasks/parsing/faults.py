"""Combinations of keys that cannot work in a parsing run, besides those of its network."""

from variations.configuration.rules import Fault, Rules
from variations.tasks.parsing.config import ParsingConfig
from variations.tasks.sequences.faults import RULES as NETWORK

RULES = Rules(NETWORK)


@RULES.reads("data.kind", "data.root")
def _root(config: ParsingConfig) -> list[Fault]:
    if config.data.kind == "toy" and config.data.root is not None:
        text = f"data={config.data.name} generates its trees and reads no data.root: set data=ptb, or leave it out."
        return [Fault(("data.root",), text)]
    if config.data.kind == "toy" or config.data.root is not None:
        return []
    text = (
        f"data={config.data.name} reads the Penn Treebank, so it needs data.root: set data.root=FOLDER with the files "
        "wsj_*.mrg (its free sample: python -m nltk.downloader treebank)."
    )
    return [Fault(("data.root",), text)]


@RULES.reads("data.extra")
def _extra(config: ParsingConfig) -> list[Fault]:
    if config.data.extra is not None:
        return []
    row, others = config.variation.row, f"rows=[{config.variation.base or '…'}]"
    files = "'data.extra=[FILE,…]', files or folders of bracketed trees"
    said = f"launch rows=[{row}] with {files}, and {others} without it" if config.sweep.name else f"set {files}"
    text = f"this row is also trained on automatically parsed trees: {said}."
    return [Fault(("data.extra",), text)]


@RULES.reads("model.tying", "model.target_vocabulary")
def _two_vocabularies(config: ParsingConfig) -> list[Fault]:
    found = []
    if config.model.target_vocabulary is None:
        text = "task=parsing reads words and writes symbols: set model.target_vocabulary=512, the rows for the symbols."
        found.append(Fault(("model.target_vocabulary",), text))
    if config.model.tying == "three_way":
        text = (
            "model.tying=three_way shares one matrix between words and symbols, which are separate in task=parsing: "
            "set model.tying=none or decoder."
        )
        found.append(Fault(("model.tying",), text))
    return found


@RULES.reads("decode.sets")
def _sets(config: ParsingConfig) -> list[Fault]:
    unknown = [name for name in config.decode.sets if name not in ("dev", "test")]
    text = f"decode.sets names {', '.join(unknown)}, but a treebank has only dev and test."
    return [Fault(("decode.sets",), text)] if unknown else []
