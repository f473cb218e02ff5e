"""The configuration of a parsing run: its treebank, its network and how it decodes."""

from dataclasses import dataclass, field

from variations.configuration.schema import choice, default_cache, number
from variations.configuration.transformer import SequenceData, TransformerConfig
from variations.tasks.sequences.config import DecodeConfig

DEV_TREES = "the dev trees"
"""Name of the fingerprint of the dev set among a run's inputs."""
WORDS, SYMBOLS = "words.json", "symbols.json"
"""The vocabularies, among a run's files and inputs."""


@dataclass
class DataConfig(SequenceData):
    """A treebank and its two vocabularies."""

    name: str = "trees_toy"
    """Name of the treebank in labels."""
    kind: str = choice("toy", "toy", "treebank", "sample")
    """`treebank`: files wsj_*.mrg below `root`. `sample`: those of the free sample. `toy`: generated from `seed`."""
    root: str | None = None
    """Folder of the Penn Treebank, or of its free sample; `treebank` recognises which of the two from the files."""
    extra: list[str] | None = field(default_factory=list)
    """Further training trees, such as automatically parsed ones: files or folders of bracketed trees; null: required,
    but not set yet."""
    form: str = choice("tensor2tensor", "tensor2tensor", "vinyals")
    """Linearisation of trees: with part-of-speech tags, or with XX for each tag (docs/parsing.md)."""
    vocabulary: int = number(16_000, ge=32, most=1 << 24)
    """Largest number of rows of the source vocabulary: frequent words, and word-shape classes for all others. There are
    more if the classes alone need more."""
    max_length: int = number(512, ge=1, most=1 << 20)
    """Largest number of words, and of symbols, of a training tree, with EOS; longer ones are dropped and counted."""
    seed: int = number(1, ge=0)
    """Seed of the generated treebank (toy)."""
    train_trees: int | None = number(None, ge=1)
    """Use only this many of the treebank's training trees, the first ones (toy: generate this many)."""
    workers: int = number(0, ge=0, most=1024)
    """Processes that load batches."""
    cache: str = field(default_factory=default_cache)
    """Folder for measurements of plans; the treebank is read from `root`."""


@dataclass
class ParsingConfig(TransformerConfig):
    """One parsing run, complete."""

    data: DataConfig = field(default_factory=DataConfig)
    decode: DecodeConfig = field(default_factory=DecodeConfig)
