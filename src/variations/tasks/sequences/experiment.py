"""A sequence-to-sequence network trained by maximum likelihood with label smoothing."""

import dataclasses
import functools
import logging
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from variations import models
from variations.configuration.transformer import TransformerConfig
from variations.data.batching import Batch, halves
from variations.models.flops import Tokens, training_flops, uncounted
from variations.models.kernels import segments, varlen
from variations.models.loss import Smoothing, cross_entropy
from variations.models.network import BRANCH_WEIGHTS, SequenceToSequence
from variations.tasks.base import Experiment, ParameterGroup, Place
from variations.tasks.schedules import branch_rate, main_rate, own_schedule
from variations.tasks.sequences import agreement
from variations.tasks.sequences.data import Pairs, PairsData
from variations.tasks.sequences.decoding.translator import Codec, Translation, Translator, as_tested

log = logging.getLogger(__name__)


def perplexity(nll: float) -> float:
    """The exponential of a mean negative log-likelihood, at most e^700, which a float can hold; NaN stays NaN."""
    return math.exp(min(nll, 700.0))  # in this order: min(700.0, NaN) is 700


class SequenceExperiment(Experiment):
    """The network and its loss (see `tasks/base.py` for each member); a task adds its tests.

    Args:
        config: The run's configuration.
        data: Its pairs, after `setup`.
        codec: Converts text to ids and back.
        vocabulary: Rows of the (source) vocabulary.
        device: `cpu` or `cuda`.
    """

    def __init__(
        self, config: TransformerConfig, data: PairsData, codec: Codec, vocabulary: int, device: str = "cpu"
    ) -> None:
        self.config: Any = config
        self.codec = codec
        self.data: Any = data
        # torch.compile generates kernels from torch's operations, and cannot trace ours for a CPU.
        plain = config.trainer.compile and device == "cpu"
        kernels = dataclasses.replace(config, profile="reference") if plain else config
        self.network: SequenceToSequence = models.build(kernels, vocabulary, device)
        self.smoothing = Smoothing(config.recipe.label_smoothing, config.recipe.smoothing)
        self.packs = False
        """Whether training batches go through the network without padding."""
        self.cut: dict[str, list[str]] = {}
        """Reports of the test on over-long sentences, by set."""
        self.device: torch.device | str = device

    def translator(self, **changes: Any) -> Translator:
        """Beam search with the current weights; `changes` override the configuration's `decode`."""
        decode = dataclasses.replace(self.config.decode, **changes)
        return Translator(self.network, self.codec, decode, device=self.device, **as_tested(self.config))

    def tell_cuts(self, name: str, found: Sequence[Translation]) -> None:
        """Log, and record for the result, which sentences of a tested set were cut."""
        cuts = [f"line {number}: {item.cut}" for number, item in enumerate(found, start=1) if item.cut]
        for text in cuts:
            log.warning("%s set, %s", name, text)
        if cuts:
            self.cut[name] = cuts

    def remarks(self) -> list[str]:
        """What tables say below the run's row, as sentences."""
        return [f"{text}." for text in uncounted(self.config)]

    def parameter_groups(self) -> list[ParameterGroup]:
        """The weights with the recipe's schedule, and κ and α with their own (Ahmed et al. 2017, section 3)."""
        return parameter_groups(self.network, self.config)

    def start(self, place: Place) -> None:
        """Check whether batches can be unpadded on this device; of another package's network, decoding and FLOPs.

        Raises:
            UserError: It cannot.
        """
        self.device = place.device
        if keys := agreement.foreign(self.config):
            agreement.check(self.network, keys)
            training_flops(self.config, Tokens(1, 1, 1, 1, 1), self.network.vocabulary)
        self.packs = self.network.varlen and varlen.packs(self.config, place.device, self.network.kernels)

    def losses(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """The smoothed cross-entropy and the negative log-likelihood, summed over the target tokens, in nats."""
        if self.packs:
            tokens = batch.source_tokens, batch.target_tokens
            source, target, packed = segments.pack(batch.source, batch.target, tokens, pad=self.network.pad)
            hidden = self.network(source, target, packed)
        else:
            target = batch.target
            hidden = self.network(batch.source, target)
        return cross_entropy(hidden, self.network.output, target, self.smoothing)

    def count(self, batch: Batch) -> list[int]:
        """Pairs, tokens of each side, padded tokens of both, and FLOPs by arithmetic."""
        tokens = Tokens(batch.source_tokens, batch.target_tokens, *batch.products)
        flops = training_flops(self.config, tokens, self.network.vocabulary)
        return [len(batch), batch.source_tokens, batch.target_tokens, batch.padded_tokens, flops]

    def size(self, batch: Batch) -> str:
        """`14 and 17 sub-words`."""
        return f"{batch.source.shape[1]} and {batch.target.shape[1]} sub-words"

    def halves(self, batch: Batch) -> tuple[Batch, Batch]:
        """Alternate pairs."""
        return halves(batch)

    def before_update(self, units: int) -> None:
        """Centre the gradients of κ and α, if configured."""
        self.network.adjust_gradients()

    def after_update(self, step: int) -> None:
        """Project κ and α on the simplex, unless they are frozen."""
        steps = self.config.trainer.max_steps
        self.network.after_update(frozen=step > steps - self.config.branch.freeze_last)

    def metrics(self) -> dict[str, Any]:
        """κ and α of each branched sub-layer."""
        return self.network.metrics()

    @torch.no_grad()
    def evaluate(self, batch: Batch) -> tuple[float, int]:
        """Unsmoothed negative log-likelihood in nats and number of target tokens of a batch."""
        hidden = self.network(batch.source, batch.target)
        _, nll = cross_entropy(hidden, self.network.output, batch.target, self.smoothing)
        return float(nll), batch.target_tokens

    def dev_loss(self, place: Place) -> dict[str, float]:
        """`dev/nll` (nats per target token, unsmoothed, EOS counted) and `dev/ppl`."""
        total, tokens = 0.0, 0
        with place.precision():
            for batch in self.data.dev_dataloader():
                nll, count = self.evaluate(batch.to(place.device))
                total, tokens = total + nll, tokens + count
        summed, counted = place.sum([total, tokens])  # each rank has read its share
        nll = summed / max(counted, 1)
        return {"dev/nll": nll, "dev/ppl": perplexity(nll)}

    def loss_of(self, tokens: Pairs, place: Place) -> tuple[float, int]:
        """Total negative log-likelihood of the first `trainer.limit_test` pairs in nats, and their target tokens."""
        total, counted = 0.0, 0
        with place.precision():
            for batch in self.data.decoding_batches(tokens, limit=self.config.trainer.limit_test):
                nll, count = self.evaluate(batch.to(place.device))
                total, counted = total + nll, counted + count
        return total, counted


def parameter_groups(network: SequenceToSequence, config: TransformerConfig) -> list[ParameterGroup]:
    """A network's learned parameters with their schedules."""
    d, N, steps = config.model.d_model, config.model.N, config.trainer.max_steps
    main: Callable[[int], float] = functools.partial(main_rate, recipe=config.recipe, d_model=d, max_steps=steps)
    if ":" in config.recipe.schedule:
        main = own_schedule(config)
    own = {
        BRANCH_WEIGHTS: functools.partial(branch_rate, branch=config.branch, d_model=d, N=N, max_steps=steps),
    }
    options = {BRANCH_WEIGHTS: {"weight_decay": 0.0}}
    learned = {name: [p for p in group if p.requires_grad] for name, group in network.parameter_groups().items()}
    return [
        ParameterGroup(name, parameters, own.get(name, main), options.get(name, {}))
        for name, parameters in learned.items()
        if parameters
    ]
