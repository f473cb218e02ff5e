"""The Transformer (Vaswani et al. 2017, section 3).

Shapes: B sentences, S source and T target positions, d = d_model, V rows of the vocabulary.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from variations.configuration.transformer import ModelConfig, PositionsConfig
from variations.configuration.transformer import TransformerConfig as Config
from variations.models.kernels import Reference
from variations.models.kernels.segments import Mask, Packed, Segments
from variations.models.network import SequenceToSequence, Tokens
from variations.models.transformer import flops
from variations.models.transformer import positions as position_codes
from variations.models.transformer.layers import DecoderLayer, EncoderLayer, IncrementalLayer, LayerState

Layers = Callable[[int], nn.Module]
"""Constructs layer i, from 0, of a stack."""


@dataclass
class Cache:
    """Decoding state: one row per unfinished hypothesis; rows of a sentence are consecutive."""

    layers: list[LayerState]
    mask: Mask
    """(B, 1, 1, S): True at real source tokens; or segments, which are used only in training."""
    length: int = 0
    """Number of target positions so far."""

    def select(self, rows: Tensor, sentences: Tensor | None = None) -> None:
        """Keep, reorder or repeat rows and sentences, in place, as `tasks.sequences.decoding.protocol.Cache` says."""
        for layer in self.layers:
            if sentences is not None:
                layer.memory = layer.memory.select(sentences)
            layer.past = None if layer.past is None else layer.past.select(rows)
        if sentences is not None and isinstance(self.mask, Tensor):
            self.mask = self.mask.index_select(0, sentences)


class Transformer(SequenceToSequence):
    """Encoder and decoder over one shared vocabulary, or over two.

    Args:
        config: The network's shape.
        positions: The position encoding.
        vocabulary: V; only the source's if `config.target_vocabulary` is set.
        pad: The id of padding.
        bos: The id of the beginning of a sentence.
        kernels: Kernels of the device; None: torch's.
        encoder_layer: Constructs encoder layers; default: `EncoderLayer`.
        decoder_layer: Constructs decoder layers, which must be `IncrementalLayer`s; default: `DecoderLayer`.
    """

    varlen = True

    def __init__(
        self,
        config: ModelConfig,
        positions: PositionsConfig,
        vocabulary: int,
        *,
        pad: int = 0,
        bos: int = 1,
        kernels: Reference | None = None,
        encoder_layer: Layers | None = None,
        decoder_layer: Layers | None = None,
    ) -> None:
        super().__init__()
        self.config, self.pad, self.vocabulary = config, pad, vocabulary
        self.kernels = kernels = kernels or Reference()
        # The padding token embeds to zero, so that a decoder started with it reads the paper's vector of zeros.
        self.start_id = pad if config.decoder_start == "zero" else bos
        d = config.d_model
        rows = config.target_vocabulary or vocabulary
        self.target_embedding = _embedding(rows, d)
        self.source_embedding = self.target_embedding if config.tying == "three_way" else _embedding(vocabulary, d)
        self.output = _embedding(rows, d) if config.tying == "none" else self.target_embedding
        self.source_positions = position_codes.build(positions, d)
        self.target_positions = position_codes.build(positions, d)
        self.task = _embedding(config.task_vectors, d) if config.task_vectors else None
        encoder_layer = encoder_layer or (lambda i: EncoderLayer(config, kernels))
        decoder_layer = decoder_layer or (lambda i: DecoderLayer(config, kernels))
        self.encoder = nn.ModuleList(encoder_layer(i) for i in range(config.N))
        self.decoder = nn.ModuleList(decoder_layer(i) for i in range(config.N))
        final = (lambda: nn.LayerNorm(d, eps=config.norm_eps)) if config.norm == "pre" else nn.Identity
        self.encoder_norm, self.decoder_norm = final(), final()

    @classmethod
    def from_config(cls, config: Config, vocabulary: int, kernels: Reference) -> Self:
        """See `Network.from_config`."""
        return cls(config.model, config.positions, vocabulary, kernels=kernels)

    @classmethod
    def forward_macs(cls, config: Config, tokens: Tokens, vocabulary: int) -> int:
        """See `SequenceToSequence.forward_macs`."""
        return flops.transformer_macs(config.model, tokens, vocabulary)

    def embed(
        self, ids: Tensor, table: Tensor, positions: nn.Module, start: int = 0, segments: Segments | None = None
    ) -> Tensor:
        """drop(√d · E[ids] + PE); padding embeds to zero (section 3.4). (B, T) to (B, T, d)."""
        x = F.embedding(ids, table) * math.sqrt(self.config.d_model)  # (B, T, d)
        if segments is None:
            codes = positions(start, ids.size(1))  # (T, d)
        else:
            codes = positions(0, segments.longest)[segments.positions]
        x = x * ids.ne(self.pad).unsqueeze(-1) + codes.to(x)  # those of another package may be of the CPU
        if self.task is not None and positions is self.source_positions:
            x = x + self.task[0]
        return self.kernels.dropout(x, self.config.dropout) if self.training else x

    def encode(self, source: Tensor, packed: Packed | None = None) -> tuple[Tensor, Mask]:
        """Encoder output (B, S, d), and the mask of cross-attention.

        The mask is `packed`, or else (B, 1, 1, S), True at real tokens, or None if nothing is padded.
        """
        mask = self._mask(source) if packed is None else packed
        segments, own = (None, mask) if packed is None else (packed.keys, Packed(packed.keys, packed.keys))
        x = self.embed(source, self.source_embedding, self.source_positions, segments=segments)
        for layer in self.encoder:
            x = layer(x, own)
        return self.encoder_norm(x), mask

    def _mask(self, source: Tensor) -> Mask:
        real = source.ne(self.pad)
        # Checking for padding would be a host synchronisation on a GPU, and break the graph of torch.compile; there the
        # mask is always used.
        check = source.device.type == "cpu" and not torch.compiler.is_compiling()
        return None if check and bool(real.all()) else real[:, None, None, :]

    def decode(self, inputs: Tensor, cache: Cache) -> Tensor:
        """Hidden states (R, T, d) of the next T positions from their input ids (R, T); extends the cache."""
        segments = cache.mask.queries if isinstance(cache.mask, Packed) else None
        x = self.embed(inputs, self.target_embedding, self.target_positions, cache.length, segments)
        for layer, state in zip(self.decoder, cache.layers, strict=True):
            x = layer(x, state, cache.mask)
        cache.length += inputs.size(1)
        out: Tensor = self.decoder_norm(x)
        return out

    def start_cache(self, source: Tensor, packed: Packed | None = None) -> Cache:
        """Encode `source` (B, S) and prepare to decode one row per sentence."""
        memory, mask = self.encode(source, packed)
        layers = [layer for layer in self.decoder if isinstance(layer, IncrementalLayer)]  # for mypy
        return Cache([layer.start(memory) for layer in layers], mask)

    def decode_step(self, tokens: Tensor, cache: Cache) -> Tensor:
        """Logits (R, V) of the position after `tokens` (R,), the last ones decoded (`start_id` at first)."""
        return self.logits(self.decode(tokens[:, None], cache)[:, 0])

    def forward(self, source: Tensor, target: Tensor, packed: Packed | None = None) -> Tensor:
        """Hidden states (B, T, d) that predict `target` (B, T), each from the tokens before it.

        Source and target may each be concatenated into one row; `packed` then gives the sentence boundaries.
        """
        if packed is None:
            start = target.new_full((target.size(0), 1), self.start_id)
            inputs = torch.cat([start, target[:, :-1]], dim=1)
        else:
            inputs = target.roll(1, dims=1).masked_fill(packed.queries.positions == 0, self.start_id)
        return self.decode(inputs, self.start_cache(source, packed))


def _embedding(rows: int, d: int) -> nn.Parameter:
    return nn.Parameter(torch.randn(rows, d) * d**-0.5)
