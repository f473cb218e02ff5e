"""The configuration of a question-answering run: its stories, its networks and how they learn."""

from dataclasses import dataclass, field

from variations.configuration.schema import RecipeConfig, RunConfig, choice, default_cache, number


@dataclass
class DataConfig:
    """Stories and questions."""

    name: str = "babi_toy"
    kind: str = choice("toy", "toy", "babi")
    """`babi`: the files below `root`. `toy`: generated from `seed`."""
    root: str | None = None
    """Folder with `en` and `en-10k` of bAbI 1.2; null: downloaded to `cache`."""
    tasks: list[int] = field(default_factory=lambda: [1, 2, 6, 15])
    """Which tasks, by number."""
    joint: bool = False
    """One network for all tasks, in place of one for each."""
    questions: str = choice("1k", "1k", "10k")
    """Training questions of each bAbI task, validation included."""
    toy_questions: int = number(1000, ge=10)
    """Training questions of each invented task, validation included; as many for the test."""
    valid: float = number(0.1, ge=0, lt=1)
    """Part of the training questions that is held out for validation."""
    seed: int = number(1, ge=0)
    """Chooses the part held out, and tells the invented stories."""
    memory: int = number(50, ge=1)
    """Sentences of a story that are kept, the last ones."""
    ngrams: int = number(1, ge=1, le=3)
    """Longest n-gram that counts as a word beside the words (NG)."""
    cache: str = field(default_factory=default_cache)
    """Where downloads, and measurements for plans, are kept."""


@dataclass
class ReaderConfig:
    """A network that reads stories; each kind has keys of its own (`models/memory`)."""

    kind: str = choice("memn2n", "memn2n", "memnn", "dmn", "lstm", "transformer")
    restarts: int = number(10, ge=1)
    """Networks that train side by side, each from its own first weights on its own batches; the one with the least
    training error is reported."""
    d: int = number(20, ge=1)
    """Dimensions of a state."""
    hops: int = number(3, ge=1)
    """memn2n: K."""
    code: str = choice("authors", "bow", "paper", "authors")
    """memn2n: bag of words, or position weights as in the paper's section 4.1 or in the authors' code."""
    tying: str = choice("adjacent", "adjacent", "layer_wise")
    """memn2n: which embeddings are one."""
    empty_slots: str = choice("attended", "attended", "masked")
    """memn2n: whether empty slots take part in the softmax, as in the authors' code."""
    facts: int = number(2, ge=1)
    """memnn: k, the supporting facts that are looked for, at most."""
    adaptive: bool = True
    """memnn: AM, the search may end early."""
    nonlinear: bool = False
    """memnn: NL."""
    margin: float = number(0.1, gt=0)
    """memnn: γ of the ranking sums."""
    d_word: int = number(50, ge=1)
    """dmn, lstm: of word vectors."""
    passes: int = number(3, ge=1)
    """dmn: T_M."""
    distance: str = choice("squared", "squared", "absolute")
    """dmn: features (c - q)² or |c - q|."""
    products: str = choice("elementwise", "elementwise", "inner")
    """dmn: features c ∘ q or cᵀq."""
    gate_weight: float = number(1.0, ge=0)
    """dmn: of the gates' loss against the supporting facts; 0: answers alone are supervised."""
    layers: int = number(2, ge=1)
    """transformer: N."""
    h: int = number(4, ge=1)
    """transformer: heads."""


@dataclass
class ReaderRecipe(RecipeConfig):
    """How the networks learn; `lr` is the rate at the beginning."""

    optimizer: str = choice("sgd", "adam", "sgd")
    batch_size: int = number(32, ge=1)
    """Questions of each network in an update, drawn with replacement; their losses are summed."""
    halve_every: int = number(25, ge=1)
    """The rate is halved at the beginning of this epoch, counted from 1, and of each multiple."""
    norm: float = number(40.0, gt=0)
    """Greatest norm of one network's gradient."""
    linear_epochs: int = number(0, ge=0)
    """memn2n: so many epochs without the memories' softmax at first (LS), at `linear_lr`; the schedule then begins from
    `linear_lr`, too."""
    linear_lr: float = number(0.005, gt=0)
    noise: float = number(0.0, ge=0, le=1)
    """Share of empty memories put into stories at random (RN)."""


@dataclass
class QuestionAnsweringConfig(RunConfig):
    """One run: a network, restarted several times, for each task or for all."""

    task: str = "question_answering"
    data: DataConfig = field(default_factory=DataConfig)
    model: ReaderConfig = field(default_factory=ReaderConfig)
    recipe: ReaderRecipe = field(default_factory=ReaderRecipe)
