"""Our model, loss and optimiser in a plain loop, the reference for the cost of Lightning, logging and validation."""

from contestant import Loss, main
from torch import Tensor, nn
from workloads import VOCABULARY, Workload

from variations import models
from variations.configuration.transformer import ModelConfig
from variations.models.loss import Smoothing, cross_entropy
from variations.tasks.translation.config import TranslationConfig
from variations.training import performance


def build(w: Workload) -> tuple[Loss, list[nn.Parameter]]:
    """The plain Transformer with the performance profile of this machine."""
    performance.apply("auto", "cpu", None, {})
    config = TranslationConfig(model=ModelConfig(N=w.N, d_model=w.d_model, d_ff=w.d_ff, h=w.h, dropout=0.1))
    net = models.build(config, VOCABULARY).train()
    smoothing = Smoothing(0.1)

    def loss(source: Tensor, target: Tensor) -> Tensor:
        total, _ = cross_entropy(net(source, target), net.output, target, smoothing)
        return total / target.ne(0).sum()

    return loss, list(net.parameters())


if __name__ == "__main__":
    main(build)
