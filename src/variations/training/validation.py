"""Dev loss, perplexity and BLEU of a model in training."""

import math
from typing import TYPE_CHECKING, Any

import torch

from variations.config import RunConfig
from variations.tasks.translation.data.module import TranslationData
from variations.tasks.translation.scoring.bleu import moses, sacre_bleu
from variations.tasks.translation.scoring.gleu import sentence_gleu

if TYPE_CHECKING:
    from variations.tasks.translation.task import Translation


class Validation:
    """Measures the weights as they are; leaves the mode of the task as it was and draws no random numbers."""

    def __init__(self, config: RunConfig, data: TranslationData) -> None:
        self.config, self.data = config, data
        self.translated: tuple[list[str], list[str]] = ([], [])
        """Translations of the latest validation, and their references."""

    def __call__(self, task: "Translation") -> dict[str, Any]:
        """`dev/nll` (nats per sub-word, unsmoothed, EOS counted), `dev/ppl`, and `dev/bleu` of greedy translations."""
        training = task.training
        task.eval()
        try:
            metrics = self._loss(task)
            if self.config.trainer.val_bleu and task.global_rank == 0:  # metrics are written there
                metrics["dev/bleu"] = self._bleu(task)
        finally:
            task.train(training)
        return metrics

    def _loss(self, task: "Translation") -> dict[str, Any]:
        total, tokens = 0.0, 0
        limit = self.config.trainer.limit_val_batches
        with task.trainer.precision_plugin.forward_context():
            for number, batch in enumerate(self.data.dev_dataloader()):
                if limit is not None and number >= limit:
                    break
                nll, count = task.evaluate(batch.to(task.device))
                total, tokens = total + nll, tokens + count
        if self.data.trainer is not None and self.data.trainer.world_size > 1:  # each rank has read its share
            sums = torch.tensor([total, float(tokens)], device=task.device, dtype=torch.float64)
            total, tokens = task.trainer.strategy.reduce(sums, reduce_op="sum").tolist()
        nll = total / max(tokens, 1)
        return {"dev/nll": nll, "dev/ppl": math.exp(min(nll, 700.0))}

    def _bleu(self, task: "Translation") -> float:
        from variations.training.fit import translator

        sources, references = self.data.corpus.dev.read()
        limit = self.config.trainer.val_bleu
        greedy = translator(self.config, task, self.data, beam=1, nbest=1)
        with task.trainer.precision_plugin.forward_context():
            found = greedy.translate(sources[:limit], progress=False)
        self.translated = ([line.outputs[0].text for line in found], list(references[:limit]))
        return sacre_bleu(*self.translated).value

    def sentences(self) -> list[float]:
        """GLEU of each sentence translated by the latest validation, Moses-tokenised, in percent."""
        tokenise = moses(self.config.data.target)
        pairs = [(tokenise(hyp).split(), tokenise(ref).split()) for hyp, ref in zip(*self.translated, strict=True)]
        return [100 * sentence_gleu(hypothesis, reference) for hypothesis, reference in pairs]
