"""The list of sweeps, one sweep with its table and runs, and which of its keys matter."""

from typing import Any, TypedDict

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
    """How many runs are running, finished, failed, interrupted, queued, absent (created, not started) or broken."""
    revision: str
    """Changes when a run of this sweep has changed."""


class Index(TypedDict):
    """The run store."""

    sweeps: list[SweepEntry]
    """Those with the latest changes first."""
    root: str
    program: str
    """How commands are typed here, with * for the verb: `python src/*.py`."""
    revision: str
    """Changes when anything has changed."""
    broken: list[Broken]
    live: bool
    """False in an exported file."""
    sweep: str | None
    """The sweep to open first, if the command named one."""


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
    """Whether cells are right-aligned, as numbers are."""
    marks: list[str]
    rank: int
    """On a narrow screen, leave out the columns of the highest rank first; never those of rank 0."""
    higher_is_better: bool | None
    """null if neither is better."""


class Figure(TypedDict):
    """A published number."""

    value: float
    recalled: bool
    """Quoted from memory, not checked against the publication."""
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
    """A key in which a row differs from its base row."""

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
    """`heads 8→16`, …; empty for a base row, and for a row without a run to read it from."""
    changed_keys: list[Change]
    published: dict[Key, Figure]
    measured: dict[Key, Mean]
    delta: dict[Key, Mean]
    """Difference from the base row over the seeds both have."""
    ci: list[float] | None
    """[low, high] of the difference in the sweep's metric; null if not tested (yet)."""
    p: float | None
    significant: bool | None
    """null if not tested (yet)."""
    marks: list[str]
    """`*`: significant, chance in seeds and in sentences; else empty."""
    not_tested: str | None
    """Why there is no test although both rows have results."""
    not_compared: str | None
    """Why there is no difference from the base row: other data, texts, references, or another convention."""
    not_compared_in: dict[Key, str]
    """The same for each measure to which it applies; `dev_nll` stands for all losses."""
    other_validations: str | None
    """Why dev scores during training are not those of the same sentences as the base row's."""
    mixed_validations: str | None
    """The keys by which those of the row's seeds are of different sentences."""
    averaged: bool
    """Whether a moving average of the weights is tested, while validations are of the current ones."""
    not_trained: str | None
    """Why the row counts as not trained."""
    unlike: str | None
    """What its seeds differ in besides the seed."""
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


class Note(TypedDict):
    """The meaning of a mark."""

    mark: str
    text: str


class Measure(TypedDict):
    """A column of measured figures."""

    key: Key
    label: str
    convention: str | None
    higher_is_better: bool
    digits: int
    """Decimals to print."""


class VariedKey(TypedDict):
    """A configuration key that has several values in a sweep."""

    key: str
    """`model.h`."""
    symbol: str
    """`heads`, as in the papers' tables."""
    values: list[Any]
    """One for each of `Table.rows`; null if the row has no run, or the key has no effect on it."""


class Table(TypedDict):
    """Published figures beside measured ones."""

    title: str
    metric: Key
    """The sweep's measure, the first of `measures`: `test.bleu`."""
    measures: list[Measure]
    columns: list[Column]
    rows: list[Row]
    keys: list[VariedKey]
    """In the order of the configuration."""
    notes: list[Note]
    footnotes: list[str]
    """Data, recipe, conventions, tests: one sentence each."""
    missing: list[str]
    level: float
    """Confidence level of the intervals: 0.95."""
    tested: bool
    """Whether this answer contains the tests of significance; if not, request it with ?significance=1."""


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
    """running, finished, failed, interrupted, queued, pruned, absent (created, not started) or broken (unreadable)."""
    reason: str | None
    """Why it failed or cannot be read."""
    step: int | None
    max_steps: int | None
    eta_seconds: float | None
    """Remaining training time at the current pace; null unless running."""
    seconds: float | None
    """Training time so far; as `flops`, null if it was copied or tests another run's weights: that run counts it."""
    score: float | None
    """In the sweep's metric; null until tested."""
    copied: str | None
    """The run that this one is a copy of; null if it was trained."""
    live_score: float | None
    """The last value of the task's live measure, such as dev BLEU, while training."""
    parameters: int | None
    flops: float | None
    started: str | None
    """ISO 8601, UTC."""
    log_tail: list[str]
    """Last lines of the error; empty unless failed, interrupted or broken."""
    color_index: int
    branched: bool
    """Whether κ and α were recorded: the branches view has something to show."""
    attention: bool
    """Whether attention maps are stored."""
    drawings: bool
    """Whether there are tested items to draw."""
    sentences: bool
    """Whether translations are stored."""
    revision: str


class Agreement(TypedDict):
    """Do published and measured differences rank the rows alike? Spearman's ρ, null if it is not defined."""

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
    """null if no row could be read."""
    fault: str | None
    """Why there is no table."""
    runs: list[RunEntry]
    """In the order of the rows, then by seed and attempt."""
    metrics: list[str]
    """Scalars that some run recorded, dev/bleu first: what curves can show."""
    labels: dict[str, str]
    """What the task calls them: `dev/nll` is "dev loss, nats per sub-word"."""
    axes: list[str]
    """What some run counted, against which curves can be drawn: step, target_tokens, tokens, seconds, flops."""
    rank_correlation: list[Agreement]
    broken: list[Broken]


class Effect(TypedDict):
    """The importance of one key, or of several that always changed together."""

    keys: list[str]
    share: float | None
    """ω²: its share of the variance of the scores, from 0 to 1; null where it cannot be separated from other keys."""
    p: float | None
    groups: int
    """The values that were compared, or thirds if there are many."""


class Importance(TypedDict):
    """Which configuration keys of a sweep matter for its measure."""

    measure: Key
    label: str
    runs: int
    """Finished runs that were counted."""
    effects: list[Effect]
    """Largest share first; empty where `reason` says why."""
    shared: float | None
    """The share that several keys explain together, but no single one of them."""
    rest: float | None
    """The share that all keys together do not explain: interactions, seeds, chance."""
    p: float | None
    """Of all keys together."""
    reason: str | None
    method: str
    notes: list[str]
    """What the reader must know of these runs."""
