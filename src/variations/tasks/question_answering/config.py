"""The configuration of a question-answering run: stories, networks and training."""

from dataclasses import dataclass, field
from typing import Any

from variations.configuration.schema import RecipeConfig, RunConfig, choice, choice_or_class, default_cache, number


@dataclass
class DataConfig:
    """Stories and questions."""

    name: str = "babi_toy"
    """Name of the corpus in labels."""
    kind: str = choice("toy", "toy", "babi")
    """`babi`: the files below `root`. `toy`: generated from `seed`."""
    root: str | None = None
    """Folder with `en` and `en-10k` of bAbI 1.2; null: downloaded to `cache`."""
    tasks: list[int] = field(default_factory=lambda: [1, 2, 6, 15])
    """Numbers of the tasks."""
    joint: bool = False
    """Whether one network is trained for all tasks, instead of one for each."""
    questions: str = choice("1k", "1k", "10k")
    """Training questions of each bAbI task, validation included."""
    toy_questions: int = number(1000, ge=10, most=1 << 20)
    """Training questions of each generated task, validation included, and as many for the test."""
    valid: float = number(0.1, gt=0, lt=1)
    """Share of the training questions held out for validation."""
    seed: int = number(1, ge=0)
    """Seed of the held-out part, and of generated stories."""
    memory: int = number(50, ge=1, most=1 << 16)
    """Largest number of sentences of a story in memory; the latest ones are kept."""
    ngrams: int = number(1, ge=1, le=3)
    """Longest n-grams that are used as additional words (NG); 1: words only."""
    cache: str = field(default_factory=default_cache)
    """Where downloads and measurements for plans are stored."""


@dataclass
class ReaderConfig:
    """A network that reads stories; each kind has its own keys (`models/memory`)."""

    kind: str = choice_or_class("memn2n", "memn2n", "memnn", "dmn", "lstm", "transformer")
    """`package.module:Class` is a network of another package (docs/adding-a-variation.md)."""
    options: dict[str, Any] = field(default_factory=dict)
    """Keys of such a network, as declared by the dataclass `Options` of its class."""
    restarts: int = number(10, ge=1, most=10000)
    """Networks trained side by side, each from its own initial weights and on its own batches; the one with the lowest
    training error is reported."""
    d: int = number(20, ge=1, most=1 << 16)
    """Dimension of a state."""
    hops: int = number(3, ge=1, most=1000)
    """memn2n: number of hops K."""
    code: str = choice("authors", "bow", "paper", "authors")
    """memn2n: bag of words, or position weights as in the paper's section 4.1 or in the authors' code."""
    tying: str = choice("adjacent", "adjacent", "layer_wise")
    """memn2n: which embeddings are shared."""
    empty_slots: str = choice("attended", "attended", "masked")
    """memn2n: whether empty slots take part in the softmax, as in the authors' code."""
    facts: int = number(2, ge=1, most=1000)
    """memnn: k, the largest number of supporting facts that are retrieved."""
    adaptive: bool = True
    """memnn: adaptive memory (AM): the retrieval may stop early."""
    nonlinear: bool = False
    """memnn: nonlinear sentence embedding (NL)."""
    ordered: bool = False
    """memnn: separate word vectors for each hop's fact, so that the response depends on the order of the facts."""
    supervision: str = choice("strong", "strong", "weak")
    """memnn: training uses the labelled supporting facts, or guesses them from words in question and answer."""
    margin: float = number(0.1, gt=0)
    """memnn: margin γ of the ranking loss."""
    d_word: int = number(50, ge=1, most=1 << 16)
    """dmn, lstm: dimension of word vectors."""
    passes: int = number(3, ge=1, most=1000)
    """dmn: number of passes T_M."""
    episode: str = choice("softmax", "softmax", "gru")
    """dmn: a pass summarises the sentences by a softmax-weighted sum, or by a GRU that the gates control."""
    distance: str = choice("squared", "squared", "absolute")
    """dmn: features (c - q)² or |c - q|."""
    products: str = choice("elementwise", "elementwise", "inner")
    """dmn: features c ∘ q or cᵀq."""
    gate_weight: float = number(1.0, ge=0)
    """dmn: weight of the loss of the gates against the labelled supporting facts; 0: only answers are supervised."""
    layers: int = number(2, ge=1, most=1000)
    """transformer: number of layers N."""
    h: int = number(4, ge=1, most=1 << 16)
    """transformer: number of heads h."""


@dataclass
class ReaderRecipe(RecipeConfig):
    """How the networks are trained; `lr` is the initial rate."""

    optimizer: str = choice_or_class("sgd", "adam", "adamw", "sgd")
    batch_size: int = number(32, ge=1)
    """Questions per network in an update, drawn with replacement; their losses are summed."""
    halve_every: int = number(25, ge=1)
    """The rate is halved at the beginning of each epoch whose number, counted from 1, is a multiple of this."""
    norm: float = number(40.0, gt=0)
    """Largest norm of one network's gradient; larger gradients are scaled down."""
    linear_epochs: int = number(0, ge=0)
    """memn2n: linear start (LS), epochs at `linear_lr` without the softmax over memories; the schedule then starts from
    `linear_lr`, too."""
    linear_lr: float = number(0.005, gt=0)
    """The learning rate of the linear start; without one, it has no effect."""
    noise: float = number(0.0, ge=0, le=1)
    """Share of empty memories inserted into stories at random (RN)."""


@dataclass
class QuestionAnsweringConfig(RunConfig):
    """One run: a network with several restarts, for each task or for all."""

    task: str = "question_answering"
    data: DataConfig = field(default_factory=DataConfig)
    model: ReaderConfig = field(default_factory=ReaderConfig)
    recipe: ReaderRecipe = field(default_factory=ReaderRecipe)
