"""A translation network that learns by maximum likelihood with label smoothing (Vaswani et al. 2017, section 5)."""

import dataclasses
import functools
import math
import time
from typing import Any

import torch
from torch import Tensor

from variations import models
from variations.data.batching import Batch, halves
from variations.errors import UserError
from variations.models.flops import Tokens, training_flops
from variations.models.kernels import segments, varlen
from variations.models.loss import Smoothing, cross_entropy
from variations.models.network import BRANCH_WEIGHTS, SequenceToSequence
from variations.store.atomic import write_text
from variations.store.ledger import RunFolder
from variations.tasks.base import ParameterGroup, Place
from variations.tasks.schedules import branch_rate, frozen_steps, main_rate
from variations.tasks.translation.config import TranslationConfig
from variations.tasks.translation.data.corpora import TextPair
from variations.tasks.translation.data.module import TranslationData
from variations.tasks.translation.decoding.translator import Translator
from variations.tasks.translation.inspection.stored import store_maps
from variations.tasks.translation.scoring.ladder import as_dict, score_all
from variations.tasks.translation.validation import Validation


class TranslationExperiment:
    """The network, its loss, and its tests (see `tasks/base.py` for each member).

    Args:
        config: The run's configuration.
        data: Its corpus, set up.
        device: `cpu` or `cuda`.
    """

    def __init__(self, config: TranslationConfig, data: TranslationData, device: str = "cpu") -> None:
        self.config, self.data = config, data
        # torch.compile makes kernels of its own from torch's, and cannot look into ours for a CPU.
        plain = config.trainer.compile and device == "cpu"
        kernels = dataclasses.replace(config, profile="reference") if plain else config
        self.network: SequenceToSequence = models.build(kernels, data.subwords.size, device)
        self.smoothing = Smoothing(config.recipe.label_smoothing, config.recipe.smoothing)
        self.packs = False
        """Whether training batches go through the network without padding."""
        self.device: torch.device | str = device
        self.validation = Validation(config, data, self.evaluate, lambda: self.translator(beam=1, nbest=1))

    def parameter_groups(self) -> list[ParameterGroup]:
        """The weights under the recipe's schedule, and κ and α under their own (Ahmed et al. 2017, section 3)."""
        return parameter_groups(self.network, self.config)

    def start(self, place: Place) -> None:
        """Whether batches may go without padding on this device."""
        self.device = place.device
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
        """Pairs, tokens of each side, slots of both, and FLOPs by arithmetic."""
        tokens = Tokens(batch.source_tokens, batch.target_tokens, *batch.products)
        flops = training_flops(self.config, tokens, self.network.vocabulary)
        return [len(batch), batch.source_tokens, batch.target_tokens, batch.padded_tokens, flops]

    def size(self, batch: Batch) -> str:
        """`14 and 17 sub-words`."""
        return f"{batch.source.shape[1]} and {batch.target.shape[1]} sub-words"

    def halves(self, batch: Batch) -> tuple[Batch, Batch]:
        """Every other pair."""
        return halves(batch)

    def before_update(self) -> None:
        """κ and α may have their gradients centred."""
        self.network.adjust_gradients()

    def after_update(self, step: int) -> None:
        """κ and α return to the simplex, unless they are frozen."""
        steps = self.config.trainer.max_steps
        self.network.after_update(frozen=step > steps - frozen_steps(self.config.branch, steps))

    def metrics(self) -> dict[str, Any]:
        """κ and α of each branched sub-layer."""
        return self.network.metrics()

    @torch.no_grad()
    def evaluate(self, batch: Batch) -> tuple[float, int]:
        """Unsmoothed negative log-likelihood in nats and number of target tokens of a batch."""
        hidden = self.network(batch.source, batch.target)
        _, nll = cross_entropy(hidden, self.network.output, batch.target, self.smoothing)
        return float(nll), batch.target_tokens

    def translator(self, **changes: Any) -> Translator:
        """Beam search with the present weights; `changes` of the configuration's `decode`."""
        positions = self.config.positions
        return Translator(
            self.network,
            self.data.subwords,
            dataclasses.replace(self.config.decode, **changes),
            device=self.device,
            max_target=positions.max_length if positions.kind == "learned" else None,
        )

    def validate(self, place: Place) -> dict[str, float]:
        """Dev loss, perplexity and BLEU."""
        return self.validation(place)

    def dev_scores(self) -> list[float]:
        """GLEU of each dev sentence that the latest validation has translated."""
        return self.validation.sentences()

    def test(self, folder: RunFolder, place: Place) -> dict[str, Any]:
        """Translate and score the sets of `decode.sets`, keep the text, and take the losses of dev and test set."""
        data = self.data
        began = time.monotonic()
        scores = {name: self._translate_and_score(folder, place, name) for name in self.config.decode.sets}
        seconds = time.monotonic() - began
        with place.precision(), torch.inference_mode():
            store_maps(folder, self.network, data.subwords, self.config.decode.attention)
        dev = self.validate(place)
        total, tokens, words = self._test_loss(place)
        return {
            "scores": scores,
            "loss": {
                "dev_nll": dev["dev/nll"],
                "dev_ppl": dev["dev/ppl"],
                "test_nll": total / max(1, tokens),
                "test_ppl": math.exp(min(700.0, total / max(1, tokens))),
                "test_ppl_per_word": math.exp(min(700.0, total / max(1, words))),
            },
            "vocabulary": data.subwords.size,
            "dropped_pairs": data.train_tokens.dropped,
            "decoding_seconds": seconds,
        }

    def _translate_and_score(self, folder: RunFolder, place: Place, name: str) -> dict[str, dict[str, Any]]:
        sources, references = (lines[: self.config.trainer.limit_test] for lines in self._set(name).read())
        with place.precision(), torch.inference_mode():
            found = self.translator(nbest=1).translate(sources, progress=self.config.trainer.progress)
        hypotheses = [line.outputs[0].text for line in found]
        folder.hypotheses.mkdir(exist_ok=True)
        for suffix, lines in (("hyp", hypotheses), ("ref", references), ("src", sources)):
            write_text(folder.hypotheses / f"{name}.{suffix}", "".join(f"{line}\n" for line in lines))
        return as_dict(score_all(hypotheses, references, self.config.data.target))

    def _set(self, name: str) -> TextPair:
        corpus = self.data.corpus
        found = {"dev": corpus.dev, "test": corpus.test, **corpus.others}
        if name not in found:
            raise UserError(f"decode.sets names {name!r}, but the corpus has only {', '.join(found)}.")
        return found[name]

    def _test_loss(self, place: Place) -> tuple[float, int, int]:
        """Total negative log-likelihood of the test references in nats, their sub-words and their words."""
        data, limit = self.data, self.config.trainer.limit_test
        total, tokens = 0.0, 0
        with place.precision():
            for batch in data.decoding_batches(data.test_tokens, limit=limit):
                nll, count = self.evaluate(batch.to(place.device))
                total, tokens = total + nll, tokens + count
        _, references = data.corpus.test.read()
        return total, tokens, sum(len(line.split()) for line in references[:limit])


def parameter_groups(network: SequenceToSequence, config: TranslationConfig) -> list[ParameterGroup]:
    """A network's learned parameters with their schedules."""
    d, N, steps = config.model.d_model, config.model.N, config.trainer.max_steps
    main = functools.partial(main_rate, recipe=config.recipe, d_model=d)
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
