"""Export of a trained Transformer to CTranslate2, a library for fast inference (`translate.py decoder=ctranslate2`).

The library supports the layers of the plain Transformer. A Weighted Transformer cannot be written in these layers: each
branch has its own non-linearity between head and sum, even with κ and α folded into the weights.
"""

import math
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn

from variations.data.special import BOS, EOS, PAD, UNK
from variations.models.transformer.layers import DecoderLayer, EncoderLayer
from variations.models.transformer.positions import Sinusoidal, sinusoids
from variations.models.transformer.transformer import Transformer
from variations.system.errors import UserError
from variations.tasks.sequences.decoding.protocol import Hypothesis, length_penalty
from variations.tasks.sequences.decoding.step import output_limits
from variations.tasks.sequences.decoding.translator import Translator, pad_sources

LONGEST = 1024
"""Number of positions of an exported model with sinusoids, unless more are needed."""


def export(model: Transformer, folder: Path, positions: int = LONGEST) -> None:
    """Write `model` to `folder`; its tokens are the ids as text (`"17"`).

    Args:
        model: The trained network.
        folder: The folder for its files.
        positions: Number of positions on either side, or of rows of its learned table, if that is larger.

    Raises:
        UserError: The library does not support the model.
    """
    if reasons := obstacles(model):
        raise UserError(f"decoder=ctranslate2 does not support this model: {'; '.join(reasons)}. Use decoder=torch.")
    from ctranslate2.specs import transformer_spec

    config = model.config
    spec = transformer_spec.TransformerSpec.from_config(config.N, config.h, pre_norm=config.norm == "pre")
    _embed(spec.encoder, model, model.source_embedding, model.source_positions, positions)
    _embed(spec.decoder, model, model.target_embedding, model.target_positions, positions)
    spec.decoder.projection.weight = _array(model.output)
    spec.decoder.start_from_zero_embedding = config.decoder_start == "zero"
    for ours, theirs in zip(model.encoder, spec.encoder.layer, strict=True):
        _encoder_layer(theirs, ours)
    for ours, theirs in zip(model.decoder, spec.decoder.layer, strict=True):
        _decoder_layer(theirs, ours)
    if config.norm == "pre":
        _norm(spec.encoder.layer_norm, model.encoder_norm)
        _norm(spec.decoder.layer_norm, model.decoder_norm)
    tokens = [str(row) for row in range(model.vocabulary)]
    spec.register_source_vocabulary(tokens)
    spec.register_target_vocabulary(tokens)
    special = {"unk_token": UNK, "bos_token": BOS, "eos_token": EOS, "decoder_start_token": model.start_id}
    for name, row in special.items():
        setattr(spec.config, name, str(row))
    spec.config.layer_norm_epsilon = config.norm_eps
    spec.config.add_source_bos = spec.config.add_source_eos = False
    spec.validate()
    folder.mkdir(parents=True, exist_ok=True)
    spec.save(str(folder))


def obstacles(model: Transformer) -> list[str]:
    """Why the library does not support a model; empty if it does."""
    config, found = model.config, []
    if config.kind == "weighted":
        found.append("it has branched attention (model=weighted), not that of the plain Transformer")
    elif type(model) is not Transformer:
        found.append(f"it is a {type(model).__name__} (model.kind={config.kind}), not a Transformer")
    if config.attention != "dot_product":
        found.append(f"its attention is {config.attention}")
    width = config.d_model // config.h
    if config.head_widths != (width, width):
        found.append("its d_k or d_v is not d_model/h")
    if config.task_vectors:
        found.append("it has task vectors")
    return found


def _array(x: Tensor) -> Any:
    return x.detach().float().cpu().contiguous().numpy()


def _embed(spec: Any, model: Transformer, table: Tensor, positions: nn.Module, count: int) -> None:
    embeddings = spec.embeddings[0] if isinstance(spec.embeddings, list) else spec.embeddings
    weight = table.detach().clone()
    weight[model.pad] = 0  # our padding embeds to zero
    embeddings.weight = _array(weight)
    spec.scale_embeddings = True
    if isinstance(positions, Sinusoidal):
        rows = sinusoids(count, positions.d_model, positions.config.form)
    else:
        rows = positions(0, max(count, len(cast(Tensor, positions.table))))  # beyond a learned table, its last row
    spec.position_encodings.encodings = _array(rows if isinstance(rows, Tensor) else torch.as_tensor(rows))


def _linear(spec: Any, *layers: tuple[Tensor, Tensor | None]) -> None:
    """Several matrices as one, stacked by rows."""
    spec.weight = _array(torch.cat([weight for weight, _ in layers]))
    biases = [torch.zeros(len(weight)) if bias is None else bias.detach().cpu() for weight, bias in layers]
    spec.bias = _array(torch.cat(biases))


def _norm(spec: Any, norm: Any) -> None:
    if not isinstance(norm, nn.LayerNorm):
        raise TypeError("not a LayerNorm")
    spec.gamma, spec.beta = _array(norm.weight), _array(norm.bias)


def _of(layer: nn.Linear) -> tuple[Tensor, Tensor | None]:
    return layer.weight, layer.bias


def _encoder_layer(spec: Any, layer: nn.Module) -> None:
    if not isinstance(layer, EncoderLayer):
        raise TypeError("not a plain encoder layer")
    _linear(spec.self_attention.linear[0], _of(layer.self_heads.inputs))
    _linear(spec.self_attention.linear[1], _of(layer.self_output.output))
    _feed_forward(spec.ffn, layer)
    for part, residual in zip((spec.self_attention, spec.ffn), layer.residuals, strict=True):
        _norm(part.layer_norm, residual.norm)


def _decoder_layer(spec: Any, layer: nn.Module) -> None:
    if not isinstance(layer, DecoderLayer):
        raise TypeError("not a plain decoder layer")
    _linear(spec.self_attention.linear[0], _of(layer.self_heads.inputs))
    _linear(spec.self_attention.linear[1], _of(layer.self_output.output))
    _linear(spec.attention.linear[0], _of(layer.cross_heads.query))
    _linear(spec.attention.linear[1], _of(layer.cross_heads.inputs))
    _linear(spec.attention.linear[2], _of(layer.cross_output.output))
    _feed_forward(spec.ffn, layer)
    for part, residual in zip((spec.self_attention, spec.attention, spec.ffn), layer.residuals, strict=True):
        _norm(part.layer_norm, residual.norm)


def _feed_forward(spec: Any, layer: Any) -> None:
    _linear(spec.linear_0, _of(layer.feed_forward.inner))
    _linear(spec.linear_1, _of(layer.feed_forward.outer))


@dataclass
class ExportedTranslator(Translator):
    """As `Translator`, with CTranslate2's beam search on the CPU in float32.

    It ranks hypotheses by log P / |Y|^α, and may generate padding and BOS, to which trained models give little
    probability. The reported scores are log P / lp(|Y|), as in `Translator`.

    Raises:
        UserError: The library does not support the model.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.model, Transformer):
            raise UserError("decoder=ctranslate2 needs a Transformer.")
        import ctranslate2

        positions = max(LONGEST, (self.max_source or 0) + self.decode.max_extra)
        with tempfile.TemporaryDirectory() as folder:
            export(self.model, Path(folder), positions)
            threads = torch.get_num_threads()
            self._engine = ctranslate2.Translator(folder, device="cpu", intra_threads=threads, compute_type="float32")

    def search(self, sources: Sequence[Sequence[int]], *, progress: bool = True) -> list[list[Hypothesis]]:
        """See `Translator.search`. The library takes one length limit per call, so sentences are grouped by limit."""
        if not sources:
            return []
        padded, room = pad_sources(sources), self.decode.batch_tokens // self.decode.beam
        limits = output_limits(padded, pad=PAD, max_extra=self.decode.max_extra, max_length=self.max_target)
        alike: dict[int, list[int]] = {}
        for index, limit in enumerate(limits):
            alike.setdefault(limit, []).append(index)
        found: list[list[Hypothesis]] = [[] for _ in sources]
        for limit, indices in alike.items():
            results = self._engine.translate_batch(
                [[str(token) for token in sources[index]] for index in indices],
                beam_size=self.decode.beam,
                num_hypotheses=self.decode.nbest,
                length_penalty=self._alpha,
                min_decoding_length=0,
                max_decoding_length=limit,
                max_input_length=0,
                max_batch_size=max(room, *(len(sources[index]) for index in indices)),
                batch_type="tokens",
                return_scores=True,
            )
            for index, result in zip(indices, results, strict=True):
                found[index] = self._hypotheses(result, limit)
        return found

    @property
    def _alpha(self) -> float:
        """The library's exponent: 0 for a single beam, which chooses nothing by it, and whose scores it may divide."""
        return self.decode.alpha if self.decode.beam > 1 else 0.0

    def _hypotheses(self, result: Any, limit: int) -> list[Hypothesis]:
        found = []
        for tokens, score in zip(result.hypotheses, result.scores, strict=True):
            words = [int(token) for token in tokens]
            finished = len(words) < limit
            length = len(words) + finished
            log_probability = score * math.pow(length, self._alpha)
            penalised = log_probability / length_penalty(length, self.decode.alpha)
            found.append(Hypothesis(words, penalised, log_probability, finished))
        return found
