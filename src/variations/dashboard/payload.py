"""What the dashboard's server answers, as types: the agreement between it and the page in `static/`.

All numbers are finite or null. Text is as the runs wrote it: whoever puts it into a page escapes it. A run's identifier
is its folder below the run store, `<sweep>/<row>/seed<k>[-attempt<n>]`; runs outside a sweep are those of "single".

    GET /api/index                        Index
    GET /api/sweep/<name>                 Sweep        ?significance=1: with tests (slow the first time)
    GET /api/run/<id>                     Run
    GET /api/curves/<id>                  Curves       ?points=N: at most N points of each metric
    GET /api/compare?ids=<id>,<id>,…      Compare      the first is compared with; commas inside an id as %2C
    GET /api/branches/<id>                Branches
    GET /api/attention/<id>               Attention    404 where none is stored
    GET /api/events                       text/event-stream; event "revision", data: the new Index.revision
    GET /api/export?sweep=<name>          the page as one HTML file
    any error                             Fault, with status 400, 404 or 500
"""

from typing import Any, NotRequired, TypedDict

Key = str
"""A measure: `test.bleu`, `dev_ppl`; or a published figure: `dev_bleu`, `params_millions`."""


class Fault(TypedDict):
    """Why there is no answer, in one sentence."""

    error: str


class Broken(TypedDict):
    """A run that cannot be read."""

    path: str
    reason: str


class SweepEntry(TypedDict):
    """A sweep in the list of sweeps."""

    name: str
    title: str
    rows: int
    """Rows that have runs."""
    runs: int
    states: dict[str, int]
    """How many runs are running, finished, failed, interrupted, absent (made, not begun) or broken."""
    revision: str
    """Changes when a run of this sweep has changed."""


class Index(TypedDict):
    """The run store."""

    sweeps: list[SweepEntry]
    """Those with the latest changes first."""
    root: str
    revision: str
    """Changes when anything has changed."""
    broken: list[Broken]
    live: bool
    """False in an exported file."""
    sweep: str | None
    """The sweep to open first, where the command named one."""


class Cell(TypedDict):
    """One cell of the table."""

    text: str
    marks: list[str]
    """Footnotes; `*` is that of significance."""
    value: float | str | None
    """What to sort by; null sorts last in both directions."""


class Column(TypedDict):
    """One column of the table."""

    key: str
    """`group`, `row`, `parameters`, `published.<key>`, `published_delta.<key>`, a measure, `delta`, `ci`, `p`, …"""
    title: str
    right: bool
    """Whether cells are set to the right, as numbers are."""
    marks: list[str]
    rank: int
    """On a narrow screen, leave out the columns of the highest rank first; never those of rank 0."""
    higher_is_better: bool | None
    """null where neither is better."""


class Figure(TypedDict):
    """A published number."""

    value: float
    recalled: bool
    """Written from memory of the publication, not read again."""
    measure: Key | None
    """Our measure that it may be compared with; null: not comparable, and `notes` say why."""
    difference: float | None
    """Measured minus published."""
    notes: list[str]


class Mean(TypedDict):
    """Mean over seeds; `sd` (n - 1) is null for one seed."""

    mean: float
    sd: float | None
    n: int


class Change(TypedDict):
    """A key that a row changes in its base row."""

    key: str
    symbol: str
    """As in the papers' tables: `heads`, `d_k`, `P_drop`."""
    old: Any
    new: Any


class Row(TypedDict):
    """A row of the table."""

    row: str
    label: str
    group: str | None
    base: str | None
    """Row it is compared with; null for a base row."""
    quoted: bool
    """Another system's figures: there is nothing to run."""
    color_index: int
    """Equal for all seeds of a row, in every view."""
    cells: list[Cell]
    """One for each of `Table.columns`."""
    changes: list[str]
    """`heads 8→16`, …; empty for a base row and where there is no run to read it from."""
    changed_keys: list[Change]
    published: dict[Key, Figure]
    measured: dict[Key, Mean]
    delta: dict[Key, Mean]
    """Difference from the base row over the seeds both have."""
    ci: list[float] | None
    """[low, high] of the difference in the sweep's metric; null where not tested (yet)."""
    p: float | None
    significant: bool | None
    """null where not tested (yet)."""
    marks: list[str]
    """`*`: significant, chance in seeds and in sentences; else empty."""
    not_tested: str | None
    """Why there is no test although both rows have results."""
    parameters: int | None
    parameters_published: float | None
    """In millions."""
    cost: dict[str, float]
    """Means over finished seeds: steps, seconds, flops, source_tokens, target_tokens, padded_tokens, dropped_pairs."""
    device_hours: float | None
    device: str | None
    seeds: str
    """`2/3` finished; empty for a quoted row."""
    missing: list[str]
    """A sentence for each seed without a result."""
    notes: list[str]
    provenance: str | None


class Note(TypedDict):
    """What a mark says."""

    mark: str
    text: str


class Measure(TypedDict):
    """A column of measured figures."""

    key: Key
    label: str
    convention: str | None
    higher_is_better: bool


class Table(TypedDict):
    """Published figures beside measured ones."""

    title: str
    metric: Key
    """The sweep's measure, the first of `measures`: `test.bleu`."""
    measures: list[Measure]
    columns: list[Column]
    rows: list[Row]
    notes: list[Note]
    footnotes: list[str]
    """Data, recipe, conventions, tests: one sentence each."""
    missing: list[str]
    level: float
    """Of the confidence intervals: 0.95."""
    tested: bool
    """Whether significance is in this answer; if not, ask again with ?significance=1."""


class RunEntry(TypedDict):
    """A run in its sweep."""

    id: str
    row: str
    label: str
    seed: int
    attempt: int
    latest: bool
    """Whether the table reads this attempt of its seed."""
    state: str
    """running, finished, failed, interrupted, absent (made, not begun) or broken (cannot be read)."""
    reason: str | None
    """Why it failed or cannot be read."""
    step: int | None
    max_steps: int | None
    eta_seconds: float | None
    """Training time left at the pace so far; null unless running."""
    seconds: float | None
    """Training time so far."""
    score: float | None
    """In the sweep's metric; null until tested."""
    live_score: float | None
    """Last dev BLEU measured while training."""
    parameters: int | None
    flops: float | None
    started: str | None
    """ISO 8601, UTC."""
    updated: str | None
    host: str | None
    log_tail: list[str]
    """Last lines of what went wrong; empty unless failed, interrupted or broken."""
    color_index: int
    branched: bool
    """Whether κ and α were recorded: the view of branches has something to show."""
    attention: bool
    """Whether attention maps are stored."""
    sentences: bool
    """Whether translations are stored."""
    revision: str


class Agreement(TypedDict):
    """Do published and measured differences rank the rows alike? Spearman's ρ, null where it is not defined."""

    published: Key
    measure: Key
    rho: float | None
    rows: list[str]
    sentence: str


class Sweep(TypedDict):
    """A sweep: its table and its runs."""

    name: str
    title: str
    revision: str
    table: Table | None
    """null where no row could be read."""
    fault: str | None
    """Why there is no table."""
    runs: list[RunEntry]
    """In the order of the rows, then by seed and attempt."""
    metrics: list[str]
    """Scalars that some run recorded, dev/bleu first: what curves can show."""
    rank_correlation: list[Agreement]
    broken: list[Broken]


class Setting(TypedDict):
    """A key with one value for each run, where they are not all equal; null where a run has no such key."""

    key: str
    values: list[Any]


class Sample(TypedDict):
    """A sentence of the test set; `score` is its chrF."""

    index: int
    """From 0."""
    source: str
    reference: str
    hypothesis: str
    score: float


class Run(TypedDict):
    """All that is known of a run."""

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
    seconds: list[float | None]
    target_tokens: list[float | None]
    tokens: list[float | None]
    """Source and target tokens together."""
    flops: list[float | None]
    metrics: dict[str, list[list[float]]]
    """metric: [[i, …], [v, …]], where i counts the lines (from 0) at which it was measured."""
    revision: str


class Score(TypedDict):
    """One score of one set. Differences, intervals and p are of each run from the first; null for the first itself."""

    set: str
    name: str
    label: str
    values: list[float | None]
    difference: list[float | None]
    ci: list[list[float] | None]
    """[low, high] at 95 %, paired bootstrap over sentences; null where the score is not tested (only BLEU is)."""
    p: list[float | None]
    higher_is_better: bool


class ComparedRun(TypedDict):
    """A run that is compared, in the order asked for."""

    id: str
    label: str
    row: str
    seed: int
    state: str


class Sentence(TypedDict):
    """A sentence of the test set under all runs; `scores` are its chrF. null for a run that cannot be compared."""

    index: int
    source: str
    reference: str
    hypotheses: list[str | None]
    scores: list[float | None]
    difference: float
    """Of the score that is farthest from the first run's: positive where the other is better."""


class Compare(TypedDict):
    """Runs beside one another."""

    runs: list[ComparedRun]
    config: list[Setting]
    """Only keys whose values differ; places and names left out."""
    environment: list[Setting]
    scores: list[Score]
    sentences: list[Sentence]
    """The 20 largest differences, larger first."""
    sentence_score: str
    """`chrF`."""
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
    """From 0."""
    weight: str
    """`kappa`, `alpha`, or `both`."""


class Branches(TypedDict):
    """Branch weights of a run; `layers` is empty for a model without branches."""

    id: str
    steps: list[int]
    layers: list[BranchLayer]
    dead: list[DeadBranch]
    dead_counts: list[int | None]
    """For each step: dead branches as the run counted them."""
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
    """Attention maps of one dev sentence and the run's translation of it."""

    source: str
    target: str
    source_tokens: list[str]
    target_tokens: list[str]
    before_tokens: list[str]
    """What the decoder read at each position: ⟨start⟩, then the target tokens but the last."""
    layers: list[AttentionLayer]


class AttentionWords(TypedDict):
    """What another task than translation calls the two texts of an item and the two axes of its heat map."""

    source: str
    target: str
    looking: str
    looked_at: str


class Attention(TypedDict):
    """Stored attention maps of a run."""

    id: str
    sentences: list[AttentionSentence]
    words: NotRequired[AttentionWords]
    note: NotRequired[str]
    """What was left out, if anything."""
    revision: str
