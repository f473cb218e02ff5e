"""The configuration of a translation run: corpus, network and decoding."""

from dataclasses import dataclass, field

from variations.configuration.schema import choice, default_cache, number
from variations.configuration.transformer import SequenceData, TransformerConfig
from variations.tasks.sequences.config import DecodeConfig

MODEL_FILE = "subwords.model"
"""The vocabulary, among a run's files and inputs."""
IDS = "the sub-word ids of the training text"
"""Name of their fingerprint among a run's inputs."""


@dataclass
class DataConfig(SequenceData):
    """A corpus and its sub-words."""

    name: str = "toy"
    """Name of the corpus in labels."""
    kind: str = choice("toy", "toy", "folder", "multi30k", "wmt14")
    """Which loader reads it."""
    source: str = "en"
    """Source language, and suffix of its files."""
    target: str = "de"
    """Target language, and suffix of its files."""
    root: str | None = None
    """Folder with a local copy (plain or .gz); null: downloaded to `cache` (toy: unpacked there)."""
    cache: str = field(default_factory=default_cache)
    """Downloads, sub-word models and token files, shared by all runs."""
    train: str = "train"
    """File stems: `<root>/<stem>.<language>[.gz]`."""
    dev: str = "valid"
    """Stem of the dev set."""
    test: str = "test"
    """Stem of the test set."""
    lowercase: bool = False
    """Lower-case all text, references included: every score is then that of lower-cased text."""
    seed: int = number(1, ge=0)
    """Seed of the toy corpus; `tools/make_toy_corpus.py` writes corpora with other seeds, for `data=files`."""
    train_pairs: int | None = number(None, ge=1)
    """Use only this many training pairs; null: all."""
    workers: int = number(0, ge=0, most=1024)
    """Processes that load batches."""


@dataclass
class TranslationConfig(TransformerConfig):
    """The complete configuration of one translation run."""

    data: DataConfig = field(default_factory=DataConfig)
    decode: DecodeConfig = field(default_factory=DecodeConfig)
