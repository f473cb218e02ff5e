"""Label-smoothed cross-entropy that never materialises the logits of a whole batch.

The smoothed target distribution q over V rows, target t:

    t2t         1-ε at t, ε/(V-1) elsewhere            (tensor2tensor, the paper's code)
    torch       (1-ε) at t plus ε/V everywhere          (Szegedy et al.)
    annotated   1-ε at t, ε/(V-2) elsewhere, 0 at PAD   (The Annotated Transformer)

Cross-entropy is logΣexp(z) - Σ q·z, so only its first term and two sums over logits are needed.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

CHUNK_ELEMENTS = 1 << 22
"""Number of logits in memory at a time on a CPU: 16 MB in float32, which its cache may hold."""
GPU_CHUNKS = 16
"""The factor for a GPU, where small chunks take less time than their launch."""


def chunk_elements(device: str) -> int:
    """Number of logits in memory at a time on a device type."""
    return CHUNK_ELEMENTS * (1 if device == "cpu" else GPU_CHUNKS)


@dataclass(frozen=True)
class Smoothing:
    """A smoothed target distribution."""

    eps: float
    form: str = "t2t"
    pad: int = 0

    def weights(self, V: int) -> tuple[float, float]:
        """Probability of the target, and of every other row with non-zero probability."""
        match self.form:
            case "t2t":
                return 1 - self.eps, self.eps / (V - 1)
            case "torch":
                return 1 - self.eps + self.eps / V, self.eps / V
            case "annotated":
                return 1 - self.eps, self.eps / (V - 2)
            case _:
                raise ValueError(f"unknown form of label smoothing: {self.form}")


def cross_entropy(hidden: Tensor, output: Tensor, target: Tensor, smoothing: Smoothing) -> tuple[Tensor, Tensor]:
    """Sums over the target tokens without padding.

    Args:
        hidden: (B, T, d) last hidden states.
        output: (V, d) output projection; logits are hidden · outputᵀ.
        target: (B, T) ids; positions equal to `smoothing.pad` do not count.
        smoothing: The target distribution.

    Returns:
        The smoothed cross-entropy (differentiable) and the unsmoothed negative log-likelihood, in nats.
    """
    flat, wanted = hidden.reshape(-1, hidden.size(-1)), target.reshape(-1)
    real = wanted.ne(smoothing.pad)
    if flat.device.type == "cpu":  # on a GPU, removing padding would be a host synchronisation
        flat, wanted, real = flat[real], wanted[real], real[real]
    if torch.is_autocast_enabled(flat.device.type):
        dtype = torch.get_autocast_dtype(flat.device.type)
        flat, output = flat.to(dtype), output.to(dtype)
    # On a GPU, autocast would make softmax return float32, which a product with bfloat16 refuses.
    with torch.autocast(flat.device.type, enabled=False):
        loss, nll = _CrossEntropy.apply(flat, output, wanted, real, smoothing)
    return loss, nll


class _CrossEntropy(torch.autograd.Function):
    """Both gradients are computed with the loss, chunk by chunk, and scaled in the backward pass.

    The gradient with respect to the logits is softmax(z) - q. The part of q that is equal for all rows (`off`) needs no
    pass over the logits: it adds -off · Σ_j E_j to the gradient of h, and -off · Σ_n h_n to that of every E_j.
    """

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, output: Tensor, target: Tensor, real: Tensor, smoothing: Smoothing
    ) -> tuple[Tensor, Tensor]:
        V, wide = output.size(0), torch.float64 if hidden.dtype == torch.float64 else torch.float32
        on, off = smoothing.weights(V)
        need_hidden, need_output = ctx.needs_input_grad[:2]
        dhidden = torch.empty_like(hidden) if need_hidden else None
        doutput = torch.zeros_like(output, dtype=wide) if need_output else None
        loss, nll = hidden.new_zeros((), dtype=wide), hidden.new_zeros((), dtype=wide)
        output_sum = output.sum(0, dtype=wide)
        output_t = output.t()
        rows = max(1, chunk_elements(hidden.device.type) // V)
        for start in range(0, hidden.size(0), rows):
            h, t, r = (x[start : start + rows] for x in (hidden, target, real))
            z = h @ output_t  # (rows, V)
            at_target = z.gather(1, t[:, None])[:, 0].to(wide)
            if need_hidden or need_output:
                # Computed in float32 and rounded once. In bfloat16 log_sum has an unbiased error of about 0.003 nats
                # per token; rounding the logits costs more.
                p = torch.softmax(z, dim=-1)
                log_sum = z.amax(dim=-1).to(wide) - p.amax(dim=-1).to(wide).log()
            else:
                log_sum = z.to(wide).logsumexp(dim=-1)
            others = h.to(wide) @ output_sum - at_target
            if smoothing.form == "annotated":
                others = others - z[:, smoothing.pad].to(wide)
            nll += ((log_sum - at_target) * r).sum()
            loss += ((log_sum - on * at_target - off * others) * r).sum()
            if not (need_hidden or need_output):
                continue
            # Not scatter_, which copies all of p, twice.
            p[torch.arange(len(t), device=t.device), t] = ((at_target - log_sum).exp() - (on - off)).to(p.dtype)
            if smoothing.form == "annotated":
                p[:, smoothing.pad] += off
            counted = r[:, None].to(wide)
            dz = p if h.device.type == "cpu" else p.mul_(counted.to(p.dtype))  # on a CPU, padding is already removed
            if dhidden is not None:
                torch.addmm((-off * counted * output_sum).to(h.dtype), dz, output, out=dhidden[start : start + rows])
            if doutput is not None:
                if doutput.dtype == dz.dtype:
                    doutput.addmm_(dz.t(), h)
                else:
                    doutput += dz.t() @ h
                doutput.sub_((h.to(wide) * counted).sum(0), alpha=off)
        ctx.save_for_backward(dhidden, doutput)
        ctx.output_dtype = output.dtype
        ctx.mark_non_differentiable(nll)
        return loss, nll

    @staticmethod
    def backward(ctx: Any, dloss: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        dhidden, doutput = ctx.saved_tensors
        return (
            None if dhidden is None else dhidden * dloss,
            None if doutput is None else doutput.mul_(dloss).to(ctx.output_dtype),
            None,
            None,
            None,
        )
