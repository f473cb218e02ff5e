"""The typed schema of every run: keys, their types, ranges and meanings. Tasks add keys of their own (transformer.py).

Hydra composes YAML files from `conf/` into this schema; all other code works with the plain dataclasses. Choices and
ranges, which types cannot express, are in the field's metadata, and `faults.py` checks them all before any work. This
module imports no torch, so that `--help` and error messages stay quick.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


def choice(default: str | None, *choices: str, remark: str = "") -> Any:
    """Field with a fixed set of values; `remark` is added to the message about any other value."""
    return field(default=default, metadata={"choices": choices, "remark": remark})


def choice_or_class(default: str, *choices: str) -> Any:
    """Field with a set of values, or `package.module:Class` of another package."""
    return field(default=default, metadata={"choices": choices, "classes": True})


def number(
    default: float | int | None,
    *,
    ge: float | None = None,
    gt: float | None = None,
    lt: float | None = None,
    le: float | None = None,
    most: float | None = None,
) -> Any:
    """Numeric field with bounds (`ge` ≤ value, `gt` < value, and so on), and the `most` that machines can handle."""
    bounds = {name: bound for name, bound in {"ge": ge, "gt": gt, "lt": lt, "le": le}.items() if bound is not None}
    return field(default=default, metadata={"bounds": bounds, "most": most})


AUTO = "auto"
"""The word for a number that is found by measuring."""


def number_or_auto(default: int | None, *, ge: int) -> Any:
    """Field for a whole number with a lower bound, or AUTO."""
    return field(default=default, metadata={"bounds": {"ge": ge}, "words": (AUTO,)})


LARGEST_SEED = 2**32 - 1
"""The largest seed of NumPy's generators."""


def seeds_fault(key: str, seeds: Sequence[int]) -> str | None:
    """What is wrong with the seeds that `key` lists; None if all are within bounds."""
    if all(0 <= seed <= LARGEST_SEED for seed in seeds):
        return None
    return f"{key}={list(seeds)}: seeds must be at least 0 and at most {LARGEST_SEED}."


def default_cache() -> str:
    """Return `$VARIATIONS_CACHE`, else the user's cache folder."""
    home = os.environ.get("XDG_CACHE_HOME") or str(Path("~/.cache").expanduser())
    return os.environ.get("VARIATIONS_CACHE") or f"{home}/variations"


@dataclass
class ScaleConfig:
    """How a recipe shrinks all rows of a paper's table alike: one factor for widths, one for depths, one for steps."""

    width: float = number(1.0, gt=0)
    """Factor of d_model, d_ff, d_k and d_v."""
    depth: float = number(1.0, gt=0)
    """Factor of N."""
    steps: float = number(1.0, gt=0)
    """Factor of the number of steps (and of `freeze_last`)."""


@dataclass
class RecipeConfig:
    """How to train; frozen while an ablation changes the model."""

    name: str = "quick"
    """The recipe's own name."""
    scale: ScaleConfig = field(default_factory=ScaleConfig)
    optimizer: str = choice_or_class("adam", "adam", "adamw", "sgd")
    """`adamw`: Adam with decoupled weight decay. `sgd`: without momentum. `package.module:Class`: an optimiser of torch
    or another package."""
    schedule: str = choice_or_class("noam", "noam", "inverse_sqrt", "cosine")
    """`noam`: lr · d_model^-0.5 · min(s^-0.5, s·warmup^-1.5). `inverse_sqrt`: lr is the peak, reached at `warmup`.
    `cosine`: the same peak, then half a cosine that falls to zero at `trainer.max_steps`. `package.module:Class`: a
    schedule of another package (docs/adding-a-variation.md)."""
    lr: float = number(1.0, gt=0)
    """Factor of the schedule; see `schedule`."""
    warmup: int = number(4000, ge=1)
    """Updates in which the learning rate rises."""
    beta1: float = number(0.9, ge=0, lt=1)
    """β_1 of Adam and AdamW."""
    beta2: float = number(0.98, ge=0, lt=1)
    """β_2 of Adam and AdamW."""
    eps: float = number(1e-9, gt=0, most=1)
    """ε of Adam and AdamW."""
    weight_decay: float = number(0.0, ge=0)
    """Factor of the L2 penalty, whose gradient is added to that of the loss, or with `adamw` of the decay; 0: none."""
    clip: float = number(0.0, ge=0)
    """Largest gradient norm; 0 means no clipping."""
    average: int = number(1, ge=1)
    """How many of the last checkpoints are averaged for the test; 1: no averaging."""
    average_every: int | None = number(None, ge=1)
    """Steps between the checkpoints that are averaged; null: 1.5 % of the steps."""
    ema: float = number(0.0, ge=0, lt=1)
    """Decay of an exponential moving average of the weights, which is tested instead of the weights; 0: none. Update n
    uses at most n / (n + 9), so a decay above that of the last update has the same effect as this limit."""

    @property
    def further_copies(self) -> int:
        """Numbers kept for each weight beside it: Adam's two moments, and the moving average.

        `sgd` keeps none; optimisers of other packages count as Adam.
        """
        return (0 if self.optimizer == "sgd" else 2) + (self.ema > 0)


UNSHARDED = (
    "Strategies that shard a network (fsdp, deepspeed, model_parallel) cannot be used: an update clips, projects and "
    "averages whole weights. To use less memory, lower trainer.tokens_per_batch."
)


@dataclass
class TrainerConfig:
    """Hardware, length of the training, and intervals."""

    accelerator: str = choice("cpu", "cpu", "gpu", "auto")
    """Where the run computes; `auto`: on a GPU if there is one."""
    devices: int = number(1, ge=1, most=1024)
    """Processes on each machine, one for each device."""
    nodes: int = number(1, ge=1, most=1 << 16)
    """Machines."""
    strategy: str = choice("auto", "auto", "ddp", "ddp_find_unused_parameters_true", remark=UNSHARDED)
    """`ddp`: data-parallel training on several devices. The longer name is for networks that do not use all of their
    parameters in each batch, and is somewhat slower."""
    precision: str = choice("32-true", "32-true", "bf16-mixed", "64-true")
    """In Lightning's words: float32, bf16 with float32 weights, or float64."""
    compile: bool = False
    """torch.compile of the inner network."""
    max_steps: int = number(100_000, ge=1, most=10**9)
    """Optimiser updates. Each recipe sets it."""
    max_minutes: float | None = number(None, gt=0)
    """Wall-clock limit of the whole run."""
    val_every: int | None = number(None, ge=1)
    """Steps between validations; null: a tenth of max_steps."""
    checkpoint_every: int | None = number(None, ge=1)
    """Steps between checkpoints; null: at each validation."""
    checkpoint_minutes: float | None = number(None, gt=0)
    """Also write a checkpoint after this many minutes; null: never."""
    limit_val_batches: int | None = number(None, ge=1)
    """Batches of a validation; null: all."""
    limit_test: int | None = number(None, ge=1)
    """Test items; null: all."""
    log_every: int = number(50, ge=1)
    """Steps between lines of metrics."""
    progress: bool = True
    """Show a progress bar."""
    threads: int | None = number(None, ge=1, le=1024)
    """CPU threads of this run; null: torch's own choice."""
    max_nan_steps: int = number(0, ge=0)
    """Number of steps with a non-finite loss that are skipped and counted before the run fails."""
    extra: dict[str, Any] = field(default_factory=dict)
    """Further arguments of Lightning's Trainer. Tables mark rows with such arguments, which may change anything."""


@dataclass
class LoggerConfig:
    """Where metrics go besides the run folder."""

    kind: str = choice("auto", "auto", "wandb", "tensorboard", "none")
    """`auto`: W&B if it is installed, otherwise none."""
    project: str = "variations"
    """Project in W&B."""
    entity: str | None = None
    """User or team in W&B; null: the account's own."""
    mode: str | None = choice(None, "online", "offline", "disabled")
    """null: online if logged in, otherwise offline."""
    tags: list[str] = field(default_factory=list)
    """Further tags in W&B."""
    further: dict[str, Any] = field(default_factory=dict)
    """Further Lightning loggers: a name of your choice, with the class as `_target_` and its arguments."""


@dataclass
class ResumeConfig:
    """What may be different when an interrupted run is continued."""

    allow: list[str] = field(default_factory=list)
    """Keys that may have new values, such as `[trainer.max_steps]`."""
    changed: list[str] = field(default_factory=list)
    """Values that have changed during training, and at which step; written when the run is continued."""


@dataclass
class DebugConfig:
    """Quick checks: tables mark their results, and no claim is judged by them."""

    name: str | None = None
    """The kind of quick check; null: an ordinary run."""
    overfit_batches: int = number(0, ge=0)
    """Train and validate on this many batches of the training data; 0: off."""
    profiler: str | None = choice(None, "simple", "advanced", "pytorch")
    """Which of Lightning's profilers to use."""


@dataclass
class VariationConfig:
    """A row of a table: its label and its published figures. What it changes is set in the other groups."""

    table: str | None = None
    """The table's name."""
    row: str | None = None
    """The row's name."""
    id: str | None = None
    """Key of the record in the published data."""
    label: str | None = None
    """What the table prints for the row."""
    group: str | None = None
    """The table's own letter for the row (A to E)."""
    base: str | None = None
    """The row that this row is compared with; its own name: none."""
    task: str = "translation"
    """The task of the row's system."""
    quoted: bool = False
    """true: a system that the paper quotes; it is printed with its published figures and never trained."""
    published: dict[str, Any] = field(default_factory=dict)
    """Published figures, by their names."""
    versions: dict[str, Any] = field(default_factory=dict)
    """Figures that differ between editions of the paper."""
    provenance: str | None = None
    """Where the published figures come from."""
    note: str | None = None
    """A remark, printed as a footnote."""
    source: str | None = None
    """Folder of the run whose weights are tested, relative to the run's own folder; set by the sweep."""
    sha256: str | None = None
    """SHA-256 of what the row's file sets; written when the run is composed."""
    reuse: str | None = None
    """Row whose trained checkpoint is tested again instead of training (only `branch.eval_mode` differs)."""


@dataclass
class PrunerConfig:
    """When a trial of a search is stopped early (docs/search.md)."""

    kind: str = choice("none", "none", "median", "hyperband", "wilcoxon")
    """By the dev scores of validations (`median`, `hyperband`), or by a test over dev sentences (`wilcoxon`)."""
    startup: int = number(5, ge=0)
    """`median`: number of first trials, which are never pruned."""
    warmup: int = number(0, ge=0)
    """`median`: no pruning before this step."""
    p: float = number(0.1, gt=0, lt=1)
    """`wilcoxon`: level of the test."""
    at: float = number(0.5, gt=0, lt=1)
    """`wilcoxon`: the fraction of training after which trials are compared."""


@dataclass
class SearchConfig:
    """A search with Optuna: a sweep file with `search:` is one (docs/search.md)."""

    space: dict[str, Any] = field(default_factory=dict)
    """What is varied: key to `interval(a,b)`, `choice(a,b)`, `range(a,b)`, or `[a,b]`."""
    trials: int | None = number(None, ge=1)
    """Total number of trials, however often the search is started; null: every cell (`sampler=grid`)."""
    metrics: list[str] = field(default_factory=lambda: ["dev.bleu"])
    """What is optimised: dev.bleu, dev_ppl, parameters, flops, …; several with nsgaii, gp, tpe, random or grid."""
    directions: list[str] = field(default_factory=list)
    """`maximize` or `minimize` for each metric; empty: scores are maximised, losses and costs minimised."""
    baseline: str | None = None
    """A row, TABLE/ROW, whose configuration every trial starts from, and whose own values are the first trial."""
    sampler: str = choice("tpe", "tpe", "random", "grid", "gp", "nsgaii")
    """Optuna's method to propose values."""
    seed: int = number(1, ge=0)
    """Seed of the sampler."""
    startup: int = number(10, ge=1)
    """Random trials before `tpe` or `gp` uses its model."""
    population: int = number(20, ge=2)
    """`nsgaii`: trials in a generation."""
    pruner: PrunerConfig = field(default_factory=PrunerConfig)
    storage: str | None = None
    """A journal file or sqlite:///FILE; null: runs/NAME/study.log."""


@dataclass
class TrialConfig:
    """The trial of a search to which a run belongs; set by the search."""

    trial: int | None = number(None, ge=0)
    """Number of the trial."""
    study: str | None = None
    """Name of the study."""
    storage: str | None = None
    """Where the study is stored."""


DEFAULT_METRIC = "bleu"
"""`sweep.metric` of runs that no sweep file sets it for; a task without this score has its own first one instead."""


@dataclass
class SweepConfig:
    """A table, a grid or a search; see `sweeps/`."""

    name: str | None = None
    """Folder of the sweep's runs, inside `runs`."""
    table: str | None = None
    """The table whose rows are trained: a folder of `conf/variation`."""
    rows: list[str] = field(default_factory=list)
    """Rows of the table, base row first; empty: all."""
    seeds: list[int] = field(default_factory=lambda: [1])
    """Seeds of each row."""
    overrides: list[str] = field(default_factory=list)
    """Overrides for every row."""
    at_once: int | str | None = number_or_auto(None, ge=1)
    """Largest number of runs at the same time; null: as many as the launcher can run (on a CPU, one); `auto`: the
    number that is fastest on this machine's CPU, measured first."""
    retries: int = number(1, ge=0)
    """How often a failed run is retried before the sweep ends."""
    reuse: bool = True
    """A row that differs from another only at test time uses the other's trained weights."""
    shares: list[str] = field(default_factory=list)
    """Other sweeps of this store: a run that one of them has finished, with the same configuration, seed and inputs, is
    copied instead of trained again."""
    lease_seconds: float = number(60.0, ge=1, le=86400)
    """Seconds without a renewed lease after which another process may take over a run."""
    metric: str = DEFAULT_METRIC
    """The quantity that the sweep's table compares: a score of the test set, SET.SCORE, dev_ppl or dev_nll."""
    note: str | None = None
    """A remark, printed below the table."""
    typed: list[str] = field(default_factory=list)
    """Overrides that were typed for all rows of the command that started the run; written then."""
    search: SearchConfig = field(default_factory=SearchConfig)

    @property
    def most(self) -> int | None:
        """`at_once` if it is a number; None: the pool decides."""
        return self.at_once if isinstance(self.at_once, int) else None


@dataclass
class RunConfig:
    """The keys of every run. The task adds those of its model, its data and whatever else it has."""

    task: str = "translation"
    """The task: `translation`, `parsing`, `question_answering`, or one of another package."""
    recipe: RecipeConfig = field(default_factory=RecipeConfig)
    trainer: TrainerConfig = field(default_factory=TrainerConfig)
    callbacks: dict[str, Any] = field(default_factory=dict)
    """Lightning callbacks: a name of your choice, with the class as `_target_` and its arguments."""
    logger: LoggerConfig = field(default_factory=LoggerConfig)
    resume: ResumeConfig = field(default_factory=ResumeConfig)
    debug: DebugConfig = field(default_factory=DebugConfig)
    variation: VariationConfig = field(default_factory=VariationConfig)
    sweep: SweepConfig = field(default_factory=SweepConfig)
    search: TrialConfig = field(default_factory=TrialConfig)
    seed: int = number(1, ge=0, le=LARGEST_SEED)
    """The seed of all random numbers of the run."""
    name: str | None = None
    """Name of a single run; null: made from the choices of the configuration."""
    runs: str = "runs"
    """Root of the run store."""
    force: bool = False
    """Make a new attempt in addition to a finished run."""
    deterministic: bool = False
    """Use deterministic algorithms only; on a GPU this costs time."""
    profile: str = choice("auto", "auto", "reference", "experimental")
    """`reference`: plain torch; `auto`: the fastest kernels that are known to be exact on this device;
    `experimental`: on a GPU, also kernels that have hardly run on one (docs/tour.md)."""
    rows: list[str] | None = None
    """Rows of the sweep to run; null: those of the sweep file."""
    seeds: list[int] | None = None
    """Seeds of the sweep to run; null: those of the sweep file."""
