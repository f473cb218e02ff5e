"""Single runs, and runs beside one another."""

from typing import Any, NotRequired, TypedDict

from variations.dashboard.payload.sweeps import Broken


class Setting(TypedDict):
    """A key with one value for each run, if they are not all equal; null for a run without this key."""

    key: str
    values: list[Any]


class Sample(TypedDict):
    """An item of the test set; `score` is what the task compares single items by, such as chrF."""

    index: int
    """Counted from 0."""
    source: str
    reference: str
    hypothesis: str
    score: float


class Run(TypedDict):
    """Everything known about a run."""

    id: str
    sweep: str
    row: str
    label: str
    seed: int
    attempt: int
    state: str
    reason: str | None
    config: dict[str, Any]
    """Dotted keys."""
    environment: dict[str, Any]
    """Dotted keys."""
    result: dict[str, Any]
    """Dotted keys."""
    status: dict[str, Any]
    samples: list[Sample]
    """First 20 of the test set."""
    log_tail: list[str]
    revision: str


class Curves(TypedDict):
    """What a run measured while training, by columns. All of step … flops have one value for each line of metrics."""

    id: str
    step: list[float | None]
    seconds: NotRequired[list[float | None]]
    target_tokens: NotRequired[list[float | None]]
    tokens: NotRequired[list[float | None]]
    """Source and target tokens together."""
    flops: NotRequired[list[float | None]]
    metrics: dict[str, list[list[float]]]
    """metric: [[i, …], [v, …]], where i counts the lines (from 0) at which it was measured."""
    revision: str


class SomeCurves(TypedDict):
    """Curves of several runs: only the metrics and the x axis that were asked for, beside the steps."""

    runs: list[Curves]
    broken: list[Broken]


class Score(TypedDict):
    """One score of one set. Differences, intervals and p are of each run from the first; null for the first itself."""

    set: str
    name: str
    label: str
    values: list[float | None]
    difference: list[float | None]
    ci: list[list[float] | None]
    """[low, high] at 95 %, paired bootstrap over items; null if the score is not tested (only the sweep's measure is).
    Each run is one seed, so chance between seeds is not covered."""
    p: list[float | None]
    items: str | None
    """What the tests draw: `sentences`; null for scores that are not sums over items."""
    higher_is_better: bool
    digits: int
    """Decimals to print."""


class ComparedRun(TypedDict):
    """A run that is compared, in the requested order."""

    id: str
    label: str
    row: str
    seed: int
    state: str


class Sentence(TypedDict):
    """A test item with the outputs of all runs and their scores; null for a run that cannot be compared."""

    index: int
    source: str
    reference: str
    hypotheses: list[str | None]
    scores: list[float | None]
    difference: float
    """The largest difference from the first run's score; positive if the other run is better."""


class Compare(TypedDict):
    """Runs beside one another."""

    runs: list[ComparedRun]
    config: list[Setting]
    """Only keys whose values differ, without paths and names."""
    environment: list[Setting]
    scores: list[Score]
    sentences: list[Sentence]
    """The 20 largest differences, larger first."""
    sentence_score: str
    """What `scores` of the sentences are: the task's measure of single items, such as `chrF`."""
    notes: list[str]
    """What could not be compared, and why."""


class BranchLayer(TypedDict):
    """κ and α of one branched sub-layer: one list of M values for each of `Branches.steps`, null where not recorded."""

    name: str
    """`encoder.0.self`, `decoder.1.cross`; layers count from 0."""
    label: str
    """`encoder layer 1, self`."""
    kappa: list[list[float] | None]
    alpha: list[list[float] | None]


class DeadBranch(TypedDict):
    """A branch that contributes nothing at the last recorded step: κ or α is 0."""

    layer: str
    branch: int
    """Counted from 0."""
    weight: str
    """`kappa`, `alpha`, or `both`."""


class Branches(TypedDict):
    """Branch weights of a run; `layers` is empty for a model without branches."""

    id: str
    steps: list[int]
    layers: list[BranchLayer]
    dead: list[DeadBranch]
    revision: str


class AttentionLayer(TypedDict):
    """Weights of one attention."""

    name: str
    """`encoder.0`, `decoder.0`, `cross.0`; layers count from 0."""
    label: str
    """`encoder self-attention, layer 1`."""
    kind: str
    """`encoder` or `decoder` (self-attention), or `cross`."""
    heads: int
    queries: str
    """`source` or `target`: which tokens the q axis has."""
    keys: str
    """`source`, or `before`: the target tokens read so far, the start first."""
    weights: list[list[list[float]]]
    """[head][query][key], rounded to 3 decimals."""


class AttentionSentence(TypedDict):
    """Attention maps of one sentence and the run's output for it."""

    source: str
    target: str
    source_tokens: list[str]
    target_tokens: list[str]
    before_tokens: list[str]
    """What the decoder read at each position: ⟨start⟩, then the target tokens but the last."""
    layers: list[AttentionLayer]


class AttentionWords(TypedDict):
    """Names of the two texts of an item and the two axes of its heat map, for tasks other than translation."""

    source: str
    target: str
    looking: str
    looked_at: str


class Attention(TypedDict):
    """Stored attention maps of a run."""

    id: str
    sentences: list[AttentionSentence]
    words: NotRequired[AttentionWords]
    references: NotRequired[bool]
    """Whether the targets are references instead of the run's own translations."""
    note: NotRequired[str]
    """What was left out, if anything."""
    revision: str


class Drawing(TypedDict):
    """A tested item, drawn."""

    line: int
    """Number in its set, counted from 1."""
    title: str
    svg: str
    """The page does not trust it: it copies only known elements and attributes."""


class Drawings(TypedDict):
    """Tested items of a run: at most 20 informative ones."""

    id: str
    drawn: str
    """What a drawing shows, in words."""
    drawings: list[Drawing]
    revision: str
