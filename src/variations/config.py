"""The typed schema of a run: every key, its type, its range and its meaning.

Hydra composes YAML files from `conf/` into this schema; everything below the command line works with the plain
dataclasses. Values that no type can express (choices, ranges) stand in the field's metadata, and `faults.py` checks
them all at once before any work. This module imports no torch, so that `--help` and errors stay quick.

Names are the papers' symbols: N layers, h heads, d_k and d_v per head, M branches, κ and α branch weights.
"""

import importlib
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from variations.errors import ConfigError


def choice(default: str | None, *choices: str) -> Any:
    """Field with a closed set of values."""
    return field(default=default, metadata={"choices": choices})


def choice_or_class(default: str, *choices: str) -> Any:
    """Field with a set of values, or `package.module:Class` of another package."""
    return field(default=default, metadata={"choices": choices, "classes": True})


def class_named(key: str, name: str) -> type:
    """The class `package.module:Class` of another package, imported.

    Args:
        key: The configuration's key, for messages.
        name: What it is set to.

    Raises:
        ConfigError: The module or the class is not there.
    """
    module, _, attribute = name.partition(":")
    try:
        found = getattr(importlib.import_module(module), attribute, None)
    except ImportError as error:
        text = f"{key}={name}: cannot import {module} ({error}): is its package installed here?"
        raise ConfigError([text]) from error
    if not isinstance(found, type):
        raise ConfigError([f"{key}={name}: {module} has no class {attribute}: check the name after the colon."])
    return found


def number(
    default: float | int | None,
    *,
    ge: float | None = None,
    gt: float | None = None,
    lt: float | None = None,
    le: float | None = None,
) -> Any:
    """Numeric field with bounds (`ge` ≤ value, `gt` < value, and so on)."""
    bounds = {name: bound for name, bound in {"ge": ge, "gt": gt, "lt": lt, "le": le}.items() if bound is not None}
    return field(default=default, metadata={"bounds": bounds})


AUTO = "auto"
"""A number that is found by measuring."""


def number_or_auto(default: int | None, *, ge: int) -> Any:
    """Whole number with a lower bound, or AUTO."""
    return field(default=default, metadata={"bounds": {"ge": ge}, "words": (AUTO,)})


LARGEST_SEED = 2**32 - 1
"""NumPy's generators take no larger one."""


def default_cache() -> str:
    """Return `$VARIATIONS_CACHE`, else the user's cache folder."""
    home = os.environ.get("XDG_CACHE_HOME") or str(Path("~/.cache").expanduser())
    return os.environ.get("VARIATIONS_CACHE") or f"{home}/variations"


@dataclass
class ScaleConfig:
    """How a recipe shrinks the rows of a paper's table, all alike: one factor for widths, one for depths, one for
    steps."""

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
    scale: ScaleConfig = field(default_factory=ScaleConfig)
    optimizer: str = choice("adam", "adam", "sgd")
    """`sgd`: without momentum."""
    schedule: str = choice("noam", "noam", "inverse_sqrt")
    """`noam`: lr · d_model^-0.5 · min(s^-0.5, s·warmup^-1.5). `inverse_sqrt`: lr is the peak, reached at `warmup`."""
    lr: float = number(1.0, gt=0)
    warmup: int = number(4000, ge=1)
    beta1: float = number(0.9, ge=0, lt=1)
    beta2: float = number(0.98, ge=0, lt=1)
    eps: float = number(1e-9, gt=0)
    weight_decay: float = number(0.0, ge=0)
    clip: float = number(0.0, ge=0)
    """Largest gradient norm; 0 means no clipping."""
    average: int = number(1, ge=1)
    """At test time, average so many last checkpoints (1: no averaging)."""
    average_every: int | None = number(None, ge=1)
    """Steps between the checkpoints that are averaged; null: 1.5 % of the steps."""
    ema: float = number(0.0, ge=0, lt=1)
    """Decay of an exponential moving average of the weights, used at test time instead; 0: none."""


@dataclass
class TrainerConfig:
    """Hardware and lengths."""

    accelerator: str = choice("cpu", "cpu", "gpu", "auto")
    devices: int = number(1, ge=1)
    nodes: int = number(1, ge=1)
    strategy: str = choice("auto", "auto", "ddp")
    precision: str = choice("32-true", "32-true", "bf16-mixed", "64-true")
    compile: bool = False
    """torch.compile of the inner network."""
    max_steps: int = number(100_000, ge=1)
    """Optimiser updates. Each recipe sets it."""
    max_minutes: float | None = number(None, gt=0)
    """Wall-clock limit of the whole run."""
    val_every: int | None = number(None, ge=1)
    """Steps between validations; null: a tenth of max_steps."""
    checkpoint_every: int | None = number(None, ge=1)
    """Steps between checkpoints; null: at each validation."""
    checkpoint_minutes: float | None = number(None, gt=0)
    limit_val_batches: int | None = number(None, ge=1)
    limit_test: int | None = number(None, ge=1)
    """Test items; null: all."""
    log_every: int = number(50, ge=1)
    progress: bool = True
    threads: int | None = number(None, ge=1, le=1024)
    """CPU threads of this run; null: torch's own choice."""
    max_nan_steps: int = number(0, ge=0)
    """So many steps with a loss that is not finite are skipped and counted before the run fails."""
    extra: dict[str, Any] = field(default_factory=dict)
    """Further arguments of Lightning's Trainer. A row that has some is marked in tables: they may change anything."""


@dataclass
class LoggerConfig:
    """Where metrics go besides the run folder."""

    kind: str = choice("auto", "auto", "wandb", "tensorboard", "none")
    """`auto`: W&B where it is installed, else none."""
    project: str = "variations"
    entity: str | None = None
    mode: str | None = choice(None, "online", "offline", "disabled")
    """null: online when logged in, else offline."""
    tags: list[str] = field(default_factory=list)
    further: dict[str, Any] = field(default_factory=dict)
    """Loggers of Lightning's beside it, by a name of one's own: a class as `_target_`, and its arguments."""


@dataclass
class ResumeConfig:
    """What may differ when an interrupted run is continued."""

    allow: list[str] = field(default_factory=list)


@dataclass
class DebugConfig:
    """Quick looks that are never results; results of such a run are marked."""

    name: str | None = None
    overfit_batches: int = number(0, ge=0)
    """Train and validate on so many batches of the training data."""
    profiler: str | None = choice(None, "simple", "advanced", "pytorch")


@dataclass
class VariationConfig:
    """A row of a table: what it is called and what was published. What it changes stands in the other groups."""

    table: str | None = None
    row: str | None = None
    id: str | None = None
    """Key of the record in the published data."""
    label: str | None = None
    group: str | None = None
    """The table's own letter for the row (A to E)."""
    base: str | None = None
    """The row it is compared with; itself: none."""
    task: str = "translation"
    """The task of the row's system."""
    quoted: bool = False
    """A system that the paper quotes: printed with its published figures, never trained."""
    published: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, Any] = field(default_factory=dict)
    """Figures that differ between editions of the paper."""
    provenance: str | None = None
    note: str | None = None
    source: str | None = None
    """Folder, seen from the run's own, of the run whose weights are tested instead; a sweep sets it."""
    reuse: str | None = None
    """Row whose trained checkpoint is tested again instead of training (only `branch.eval_mode` differs)."""


@dataclass
class PrunerConfig:
    """When a trial of a search is given up (docs/search.md)."""

    kind: str = choice("none", "none", "median", "hyperband", "wilcoxon")
    """By dev scores at validations (`median`, `hyperband`), or by a test over dev sentences (`wilcoxon`)."""
    startup: int = number(5, ge=0)
    """`median`: so many trials are never pruned."""
    warmup: int = number(0, ge=0)
    """`median`: no pruning before this step."""
    p: float = number(0.1, gt=0, lt=1)
    """`wilcoxon`: level of the test."""
    at: float = number(0.5, gt=0, lt=1)
    """`wilcoxon`: the part of the training after which trials are compared."""


@dataclass
class SearchConfig:
    """A search with Optuna: a sweep file with `search:` is one (docs/search.md)."""

    space: dict[str, Any] = field(default_factory=dict)
    """What is varied: key to `interval(a,b)`, `choice(a,b)`, `range(a,b)`, or `{type: float, low: a, high: b}`."""
    trials: int | None = number(None, ge=1)
    """Trials in all, however often the search is started; null: every cell (`sampler=grid`)."""
    metrics: list[str] = field(default_factory=lambda: ["dev.bleu"])
    """What is optimised: dev.bleu, dev_ppl, parameters, flops, …; several with nsgaii, gp, tpe, random or grid."""
    directions: list[str] = field(default_factory=list)
    """`maximize` or `minimize`, one a metric; empty: scores up, losses and costs down."""
    baseline: str | None = None
    """A row, TABLE/ROW, that every trial starts from, and whose own values are the first trial."""
    sampler: str = choice("tpe", "tpe", "random", "grid", "gp", "nsgaii")
    seed: int = number(1, ge=0)
    """Seed of the sampler."""
    startup: int = number(10, ge=1)
    """Random trials before `tpe` or `gp` draws conclusions."""
    population: int = number(20, ge=2)
    """`nsgaii`: trials of a generation."""
    pruner: PrunerConfig = field(default_factory=PrunerConfig)
    storage: str | None = None
    """A journal file or sqlite:///FILE; null: runs/NAME/study.log."""


@dataclass
class TrialConfig:
    """The trial of a search that a run belongs to; written by the search."""

    trial: int | None = number(None, ge=0)
    study: str | None = None
    storage: str | None = None


@dataclass
class SweepConfig:
    """A table, a grid or a search; see `sweeps/`."""

    name: str | None = None
    """Folder of its runs below `runs`."""
    table: str | None = None
    rows: list[str] = field(default_factory=list)
    """Rows of the table, base row first; empty: all."""
    seeds: list[int] = field(default_factory=lambda: [1])
    overrides: list[str] = field(default_factory=list)
    """Applied to every row alike."""
    at_once: int | str | None = number_or_auto(None, ge=1)
    """Most rows at the same time; null: what the launcher has room for (on this machine's CPU, one); `auto`: so many
    as are quickest on this machine's CPU, measured first."""
    retries: int = number(1, ge=0)
    """How often a failed row is tried again before the sweep ends."""
    reuse: bool = True
    """Rows that differ from another one only at test time test that one's weights instead of training their own."""
    lease_seconds: float = number(60.0, gt=0)
    """So long the process at a run may be silent before another one takes its place."""
    metric: str = "bleu"
    """What is shown of each run: a score of the test set, SET.SCORE, dev_ppl or dev_nll."""
    note: str | None = None
    search: SearchConfig = field(default_factory=SearchConfig)

    @property
    def most(self) -> int | None:
        """`at_once` where it is a number; None: the pool knows how many it has room for."""
        return self.at_once if isinstance(self.at_once, int) else None


@dataclass
class RunConfig:
    """What every run has, whatever its task. The task adds its model, its data and all else that it owns."""

    task: str = "translation"
    """Which task: `tasks/base.py` says what one owns."""
    recipe: RecipeConfig = field(default_factory=RecipeConfig)
    trainer: TrainerConfig = field(default_factory=TrainerConfig)
    callbacks: dict[str, Any] = field(default_factory=dict)
    """Callbacks of Lightning's by a name of one's own: a class as `_target_`, and its arguments."""
    logger: LoggerConfig = field(default_factory=LoggerConfig)
    resume: ResumeConfig = field(default_factory=ResumeConfig)
    debug: DebugConfig = field(default_factory=DebugConfig)
    variation: VariationConfig = field(default_factory=VariationConfig)
    sweep: SweepConfig = field(default_factory=SweepConfig)
    search: TrialConfig = field(default_factory=TrialConfig)
    seed: int = number(1, ge=0, le=LARGEST_SEED)
    name: str | None = None
    """Name of a single run; null: made from the choices of the configuration."""
    runs: str = "runs"
    """Root of the run store."""
    force: bool = False
    """A new attempt beside a finished run."""
    deterministic: bool = False
    profile: str = choice("auto", "auto", "reference", "experimental")
    """`reference`: torch as it comes; `auto`: the fastest kernels that are known to be exact on this device;
    `experimental`: on a GPU also those of ours that have not yet run on one (docs/tour.md)."""
    rows: list[str] | None = None
    """Rows to run of a sweep; null: those of the sweep file."""
    seeds: list[int] | None = None
    """Seeds to run of a sweep; null: those of the sweep file."""


@dataclass
class ModelConfig:
    """The network's shape (Vaswani et al. 2017, section 3 and Table 3)."""

    kind: str = choice_or_class("transformer", "transformer", "weighted")
    """`package.module:Class` is a model of another package (docs/adding-a-variation.md)."""
    options: dict[str, Any] = field(default_factory=dict)
    """That model's own keys, as the dataclass `Options` of its class declares them."""
    N: int = number(6, ge=1)
    """Layers in the encoder, and in the decoder."""
    d_model: int = number(512, ge=2, le=1 << 20)
    d_ff: int = number(2048, ge=1, le=1 << 22)
    h: int = number(8, ge=1)
    """Attention heads."""
    d_k: int | None = number(None, ge=1)
    """Width of keys and queries per head; d_model / h when null."""
    d_v: int | None = number(None, ge=1)
    """Width of values per head; d_model / h when null."""
    dropout: float = number(0.1, ge=0, lt=1)
    """P_drop: on every sub-layer's output and on the sum of embeddings and positions."""
    attention_dropout: float = number(0.0, ge=0, lt=1)
    relu_dropout: float = number(0.0, ge=0, lt=1)
    norm: str = choice("post", "post", "pre")
    """`post`: LN(x + f(x)), as published. `pre`: x + f(LN(x)), with a final LN on both stacks."""
    norm_eps: float = number(1e-6, gt=0)
    tying: str = choice("three_way", "three_way", "decoder", "none")
    """Which of source embedding, target embedding and output projection share one matrix."""
    target_vocabulary: int | None = number(None, ge=8)
    """Rows of a target vocabulary of its own; null: source and target have one vocabulary."""
    attention_bias: bool = True
    ffn_bias: bool = True
    init: str = choice("fused_qkv", "fused_qkv", "xavier")
    """`fused_qkv`: Xavier bounds of one d -> 3d (2d) matrix for q, k, v, as in the code behind the paper."""
    decoder_start: str = choice("zero", "zero", "bos")
    """What the decoder reads before the first target token: a vector of zeros, or the BOS embedding."""
    attention: str = choice_or_class("dot_product", "dot_product", "additive", "restricted")
    """Self-attention of both stacks; cross-attention is `dot_product` unless this is `additive`."""
    neighbourhood: int | None = number(None, ge=1)
    """r of restricted self-attention: position i sees i-r … i+r."""
    task_vectors: int = number(0, ge=0)
    """Rows of the 'target space' embedding added to the encoder's input (32 in the code behind the paper)."""

    @property
    def head_widths(self) -> tuple[int, int]:
        """d_k and d_v in force: as set, or d_model / h."""
        width = self.d_model // self.h
        return self.d_k or width, self.d_v or width


@dataclass
class PositionsConfig:
    """Position code (Vaswani et al. 2017, section 3.5)."""

    kind: str = choice_or_class("sinusoidal", "sinusoidal", "learned")
    form: str = choice("paper", "paper", "t2t")
    """Interleaved sines and cosines (`paper`) or two halves with tensor2tensor's time scales (`t2t`)."""
    max_length: int = number(256, ge=1)
    """Rows of the learned table on each side; sinusoids have no limit."""


@dataclass
class GateConfig:
    """Sum over a subset of the branches (Ahmed et al. 2017, section 4.5)."""

    kind: str = choice("none", "none", "topk", "topk_input")
    """`topk`: the k largest α of a sub-layer. `topk_input`: k branches per token, chosen by a learned gate."""
    k: int = number(2, ge=1)
    renormalise: bool = False
    gradient: str = choice("masked", "masked", "straight_through")


@dataclass
class BranchConfig:
    """Branched attention of the Weighted Transformer (Ahmed et al. 2017, section 3; docs/departures.md)."""

    M: int | None = number(None, ge=1)
    """Branches per branched sub-layer, one head each; h when null."""
    ffn: str = choice("shared", "shared", "split", "full")
    """One d_ff FFN for all branches, M of width d_ff/M, or M of width d_ff."""
    encoder: bool = True
    """Whether encoder layers are branched."""
    decoder: str = choice("cross", "cross", "self", "both", "both_shared_ffn", "none")
    constraint: str = choice("project", "project", "softmax", "softmax_xM", "renormalise", "sigmoid", "none")
    """How κ and α are kept on the simplex (`project`: Euclidean projection after every update). `softmax_xM` is M times
    a point of it; `sigmoid` and `none` leave it."""
    init: str = choice("random", "random", "uniform")
    residual: str = choice("outer", "outer", "outer+inner", "per_branch_into_ffn", "none")
    inner_norm: bool = False
    wo_bias: str = choice("none", "none", "single", "per_branch")
    impl: str = choice("composed", "composed", "naive")
    """Two evaluations of the same function: the equations as they stand (`naive`), or with W_O and W_1 multiplied
    together first (docs/paper.md)."""
    rescale: str = choice("none", "none", "M", "M2")
    kappa: bool = True
    """Whether κ is learned; constant 1/M otherwise (1 under `softmax_xM`, whose weights sum to M)."""
    alpha: bool = True
    """Whether α is learned; constant 1/M otherwise (1 under `softmax_xM`)."""
    scope: str = choice("sublayer", "sublayer", "shared_enc_dec")
    """`shared_enc_dec`: encoder and decoder layer i have one κ and one α."""
    gate: GateConfig = field(default_factory=GateConfig)
    train_mode: str = choice("learned", "learned", "uniform", "random_per_step")
    """Weights in force while training: learned, all alike (1/M, or 1 under `softmax_xM`), or drawn anew each step
    (Shake-Shake)."""
    eval_mode: str = choice("learned", "learned", "uniform", "random_uniform", "random_dirichlet")
    """Weights in force at test time (Table 3 of Ahmed et al.)."""
    eval_seed: int = number(1, ge=0)
    lr_scale: float = number(1.0, ge=0)
    warmup: int = number(400, ge=1)
    """Warm-up steps of the schedule of κ and α."""
    freeze_last: int = number(10_000, ge=0)
    """κ and α stay constant during so many last steps."""
    center_grad: bool = False
    """Subtract the mean of the gradient of κ and of α before Adam sees it."""

    def branches(self, model: ModelConfig) -> int:
        """M in force: as set, or h."""
        return self.M or model.h

    def ffn_width(self, model: ModelConfig) -> int:
        """Width of one branch's FFN."""
        return model.d_ff // self.branches(model) if self.ffn == "split" else model.d_ff

    @property
    def on_self(self) -> bool:
        """Whether the decoder's self-attention is branched."""
        return self.decoder in ("self", "both", "both_shared_ffn")

    @property
    def on_cross(self) -> bool:
        """Whether the decoder's attention to the source is branched."""
        return self.decoder in ("cross", "both", "both_shared_ffn")


@dataclass
class SequenceRecipe(RecipeConfig):
    """A recipe for models that read and write sequences of sub-words."""

    label_smoothing: float = number(0.1, ge=0, lt=1)
    smoothing: str = choice("t2t", "t2t", "torch", "annotated")
    """ε/(V-1) off target; ε/V everywhere; or ε/(V-2) with nothing on padding."""
    batch_tokens: int = number(25_000, ge=1)
    """Padded source tokens, and padded target tokens, of one update."""


@dataclass
class SequenceTrainer(TrainerConfig):
    """Lengths that such models count in tokens."""

    tokens_per_batch: int | None = number(None, ge=1)
    """Padded tokens per side of one forward pass on one device; null: all of recipe.batch_tokens at once."""
    val_bleu: int = number(200, ge=0)
    """Dev sentences decoded (greedily) at each validation; 0: none."""


@dataclass
class SequenceData:
    """The vocabulary of such models, and what they leave out."""

    vocabulary: int = number(8000, ge=32)
    """Rows of the shared sub-word vocabulary (special symbols included)."""
    vocabulary_pad_to: int = number(1, ge=1)
    """Round the number of embedding rows up to a multiple of this (40,960 rows in the code behind the paper)."""
    max_length: int = number(256, ge=1)
    """Sub-words per side, EOS included; longer training pairs are dropped and counted."""


@dataclass
class TransformerConfig(RunConfig):
    """A run whose network is one of `models/transformer`."""

    model: ModelConfig = field(default_factory=ModelConfig)
    positions: PositionsConfig = field(default_factory=PositionsConfig)
    branch: BranchConfig = field(default_factory=BranchConfig)
    data: SequenceData = field(default_factory=SequenceData)
    recipe: SequenceRecipe = field(default_factory=SequenceRecipe)
    trainer: SequenceTrainer = field(default_factory=SequenceTrainer)
