"""Combinations of a translation run's keys that cannot work, in addition to those of its network."""

from variations.configuration.rules import Fault, Rules
from variations.tasks.sequences.faults import RULES as NETWORK
from variations.tasks.translation.config import DataConfig, TranslationConfig

RULES = Rules(NETWORK)
TOY_PAIRS = 20_000
"""Training pairs of the built-in corpus."""


@RULES.reads("data.kind", "data.train_pairs", "data.seed")
def _data(config: TranslationConfig) -> list[Fault]:
    d, found = config.data, []
    if d.kind == "folder" and d.root is None:
        text = (
            f"data={d.name} reads files, so it needs data.root: "
            f"set data.root=FOLDER with {d.train}.{d.source}, {d.train}.{d.target}, …"
        )
        found.append(Fault(("data.root",), text))
    for key, language in (("data.source", d.source), ("data.target", d.target)):
        if not language.strip():
            found.append(Fault((key,), f"{key} is empty: set a language such as {key}=en."))
    if d.source == d.target:
        text = (
            f"data.source and data.target are both '{d.source}': "
            "name two languages, such as data.source=en data.target=de."
        )
        found.append(Fault(("data.source", "data.target"), text))
    if d.kind == "toy" and d.root:
        text = f"data=toy is the built-in corpus, and reads no files from data.root={d.root}: for them, set data=files."
        found.append(Fault(("data.root",), text))
    if d.kind != "toy" and d.seed != 1:
        text = f"data.seed={d.seed} changes nothing: only data=toy is generated from a seed. Leave it out."
        found.append(Fault(("data.seed",), text))
    if d.kind == "toy" and not found:
        found = toy_faults(d)
    return found


def toy_faults(data: DataConfig) -> list[Fault]:
    """Settings that the stored corpus cannot satisfy."""
    found = []
    if {data.source, data.target} != {"en", "de"}:
        text = f"data=toy has no pair {data.source}-{data.target}: data.source and data.target must be en and de."
        found.append(Fault(("data.source", "data.target"), text))
    if data.seed != 1 or (data.train_pairs or 1) > TOY_PAIRS:
        text = (
            f"data=toy has {TOY_PAIRS:,} training pairs, generated with data.seed=1: for others, run "
            "`python tools/make_toy_corpus.py FOLDER --seed 2 --train 40000` and set data=files data.root=FOLDER."
        )
        found.append(Fault(("data.seed", "data.train_pairs"), text))
    for name, only in {"train": "train", "dev": "valid", "test": "test"}.items():
        key, stem = f"data.{name}", getattr(data, name)
        if stem != only:
            text = f"{key}={stem}: data=toy has only {only}; for sets of your own, set data=files data.root=FOLDER."
            found.append(Fault((key,), text))
    return found
