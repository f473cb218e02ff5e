"""A plain loop around Hugging Face's Marian model; with --tuned, our allocator, precision and fused Adam."""

import torch
from contestant import Loss, main
from marian import model
from torch import Tensor, nn
from workloads import BOS, PAD, Workload


def build(w: Workload) -> tuple[Loss, list[nn.Parameter]]:
    """The model and the label-smoothed loss of its logits."""
    net = model(w).train()
    criterion = nn.CrossEntropyLoss(ignore_index=PAD, label_smoothing=0.1)

    def loss(source: Tensor, target: Tensor) -> Tensor:
        given = torch.cat([torch.full_like(target[:, :1], BOS), target[:, :-1]], 1)
        logits = net(input_ids=source, attention_mask=source.ne(PAD), decoder_input_ids=given).logits
        return criterion(logits.flatten(0, 1), target.flatten())

    return loss, list(net.parameters())


if __name__ == "__main__":
    main(build)
