"""The typed schema of a run whose network is one of `models/transformer`.

Names are the papers' symbols: N layers, h heads, d_k and d_v per head, M branches, κ and α branch weights.
"""

from dataclasses import dataclass, field
from typing import Any

from variations.configuration.schema import (
    RecipeConfig,
    RunConfig,
    TrainerConfig,
    choice,
    choice_or_class,
    number,
)


@dataclass
class ModelConfig:
    """The network's shape (Vaswani et al. 2017, section 3 and Table 3)."""

    kind: str = choice_or_class("transformer", "transformer", "weighted")
    """`package.module:Class` is a model of another package (docs/adding-a-variation.md)."""
    options: dict[str, Any] = field(default_factory=dict)
    """Keys of such a model, as declared by the dataclass `Options` of its class."""
    N: int = number(6, ge=1, most=1000)
    """Layers in the encoder, and in the decoder."""
    d_model: int = number(512, ge=2, le=1 << 20)
    """Width of the hidden states."""
    d_ff: int = number(2048, ge=1, le=1 << 22)
    """Width of the feed-forward networks."""
    h: int = number(8, ge=1, most=1 << 16)
    """Attention heads."""
    d_k: int | None = number(None, ge=1, most=1 << 20)
    """Width of keys and queries per head; d_model / h when null."""
    d_v: int | None = number(None, ge=1, most=1 << 20)
    """Width of values per head; d_model / h when null."""
    dropout: float = number(0.1, ge=0, lt=1)
    """P_drop: on every sub-layer's output and on the sum of embeddings and positions."""
    attention_dropout: float = number(0.0, ge=0, lt=1)
    """Dropout of attention weights."""
    relu_dropout: float = number(0.0, ge=0, lt=1)
    """Dropout inside the feed-forward networks."""
    norm: str = choice("post", "post", "pre")
    """`post`: LN(x + f(x)), as published. `pre`: x + f(LN(x)), with a final LN on both stacks."""
    norm_eps: float = number(1e-6, gt=0, most=1)
    """ε of the layer norm."""
    tying: str = choice("three_way", "three_way", "decoder", "none")
    """Which of source embedding, target embedding and output projection share one matrix: all three, the latter two
    (`decoder`), or none."""
    target_vocabulary: int | None = number(None, ge=8, most=1 << 24)
    """Rows of a separate target vocabulary; null: source and target share one vocabulary."""
    attention_bias: bool = True
    """Whether the projections of attention have biases."""
    ffn_bias: bool = True
    """Whether the feed-forward networks have biases."""
    init: str = choice("fused_qkv", "fused_qkv", "xavier")
    """`fused_qkv`: Xavier bounds of one d → 3d (2d) matrix for q, k, v, as in the code behind the paper."""
    decoder_start: str = choice("zero", "zero", "bos")
    """What the decoder reads before the first target token: a vector of zeros, or the BOS embedding."""
    attention: str = choice_or_class("dot_product", "dot_product", "additive", "restricted")
    """The attention of both stacks. `restricted` and classes with `self_only = True` leave cross-attention as it is."""
    neighbourhood: int | None = number(None, ge=1)
    """r of restricted self-attention: position i sees i-r … i+r."""
    task_vectors: int = number(0, ge=0, most=1 << 16)
    """Rows of the 'target space' embedding added to the encoder's input (32 in the code behind the paper)."""

    @property
    def head_widths(self) -> tuple[int, int]:
        """Effective d_k and d_v: as set, or d_model / h."""
        width = self.d_model // self.h
        return self.d_k or width, self.d_v or width


@dataclass
class PositionsConfig:
    """Position encoding (Vaswani et al. 2017, section 3.5)."""

    kind: str = choice_or_class("sinusoidal", "sinusoidal", "learned")
    """Fixed sinusoids, or a learned table."""
    form: str = choice("paper", "paper", "t2t")
    """Interleaved sines and cosines (`paper`) or two halves with tensor2tensor's time scales (`t2t`)."""
    max_length: int = number(256, ge=1, most=1 << 20)
    """Rows of the learned table on each side; sinusoids have no limit."""


@dataclass
class GateConfig:
    """Sum over a subset of the branches (Ahmed et al. 2017, section 4.5)."""

    kind: str = choice("none", "none", "topk", "topk_input")
    """`topk`: the k largest α of a sub-layer. `topk_input`: k branches per token, chosen by a learned gate."""
    k: int = number(2, ge=1)
    """Branches that are kept."""
    renormalise: bool = False
    """Divide the kept weights by their sum."""
    gradient: str = choice("masked", "masked", "straight_through")
    """`straight_through`: gradients as if no branch had been left out."""


@dataclass
class BranchConfig:
    """Branched attention of the Weighted Transformer (Ahmed et al. 2017, section 3; docs/departures.md)."""

    M: int | None = number(None, ge=1, most=1 << 16)
    """Branches per branched sub-layer, one head each; h when null."""
    ffn: str = choice("shared", "shared", "split", "full")
    """One d_ff FFN for all branches, M of width d_ff/M, or M of width d_ff."""
    encoder: bool = True
    """Whether encoder layers are branched."""
    decoder: str = choice("cross", "cross", "self", "both", "both_shared_ffn", "none")
    """Which attention of a decoder layer is branched."""
    constraint: str = choice("project", "project", "softmax", "softmax_xM", "renormalise", "sigmoid", "none")
    """How κ and α are kept on the simplex (`project`: Euclidean projection after every update). `softmax_xM` gives M
    times a point of the simplex; `sigmoid` and `none` do not keep to it."""
    init: str = choice("random", "random", "uniform")
    """Initial κ and α: uniform random numbers divided by their sum, or 1/M."""
    residual: str = choice("outer", "outer", "outer+inner", "per_branch_into_ffn", "none")
    """Where a residual is added: around the sub-layer, also around each branch's FFN, or to each FFN's input."""
    inner_norm: bool = False
    """Apply a layer norm to the input of each branch's FFN."""
    wo_bias: str = choice("none", "none", "single", "per_branch")
    """Bias of W_O: none, one for all branches, or one for each."""
    impl: str = choice("composed", "composed", "naive")
    """How the same function is evaluated: as the equations are written (`naive`), or with W_O and W_1 multiplied first
    (docs/paper.md)."""
    rescale: str = choice("none", "none", "M", "M2")
    """Multiply the sum over branches by M or M²."""
    kappa: bool = True
    """Whether κ is learned; otherwise it is constantly 1/M (1 with `softmax_xM`, whose weights sum to M)."""
    alpha: bool = True
    """Whether α is learned; otherwise it is constantly 1/M (1 with `softmax_xM`)."""
    scope: str = choice("sublayer", "sublayer", "shared_enc_dec")
    """`shared_enc_dec`: encoder layer i and decoder layer i share κ and α."""
    gate: GateConfig = field(default_factory=GateConfig)
    train_mode: str = choice("learned", "learned", "uniform", "random_per_step")
    """Weights used in training: learned, all equal (1/M, or 1 with `softmax_xM`), or drawn at random in each step
    (Shake-Shake)."""
    eval_mode: str = choice("learned", "learned", "uniform", "random_uniform", "random_dirichlet")
    """Weights used at test time (Table 3 of Ahmed et al.)."""
    eval_seed: int = number(1, ge=0)
    """Seed of random weights at test time."""
    lr_scale: float = number(1.0, ge=0)
    """Factor of the schedule of κ and α."""
    warmup: int = number(400, ge=1)
    """Warm-up steps of the schedule of κ and α."""
    freeze_last: int = number(10_000, ge=0)
    """Number of last steps in which κ and α stay constant."""
    center_grad: bool = False
    """Subtract the mean of the gradient of κ and of α before Adam sees it."""

    def branches(self, model: ModelConfig) -> int:
        """Effective M: as set, or h."""
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
    """A recipe for sequence-to-sequence models on sub-words."""

    label_smoothing: float = number(0.1, ge=0, lt=1)
    """ε_ls; 0: none."""
    smoothing: str = choice("t2t", "t2t", "torch", "annotated")
    """ε/(V-1) off target; ε/V everywhere; or ε/(V-2) with nothing on padding."""
    batch_tokens: int = number(25_000, ge=1, most=1 << 24)
    """Largest number of padded tokens, on each side, in one update; the last update of an epoch gets the rest."""


@dataclass
class SequenceTrainer(TrainerConfig):
    """Batch sizes and validation of such models."""

    tokens_per_batch: int | None = number(None, ge=1, most=1 << 24)
    """Padded tokens per side of one forward pass on one device; null: all of recipe.batch_tokens at once."""
    val_bleu: int = number(200, ge=0)
    """Dev sentences decoded (greedily) at each validation; 0: none."""


@dataclass
class SequenceData:
    """The vocabulary of such models, and the length above which they drop pairs."""

    vocabulary: int = number(8000, ge=32, most=1 << 24)
    """Rows of the shared sub-word vocabulary (special symbols included)."""
    vocabulary_pad_to: int = number(1, ge=1, most=1 << 20)
    """Round the number of embedding rows up to a multiple of this (40,960 rows in the code behind the paper)."""
    max_length: int = number(256, ge=1, most=1 << 20)
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
