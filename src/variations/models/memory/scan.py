"""GRU and LSTM over all times as one operation each, with hand-written gradients.

In a recurrence of small states, starting operations costs more than arithmetic. Therefore the non-recurrent part of the
gradient is computed for all times at once; a backward step takes three operations (GRU) or seven (LSTM), and the
gradient of U is one product. Texts that have ended are skipped: `active` is the number of the B texts of each restart,
longest first, that are read at each time. States after the end of a text are 0 or arbitrary, and have no gradient.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


class GRUScan(torch.autograd.Function):
    """States (T, R, B, d) from projected inputs (T, R, B, 3d) and U (R, d, 3d); the initial state is 0."""

    @staticmethod
    def forward(ctx: Any, projected: Tensor, U: Tensor, active: Sequence[int]) -> Tensor:
        """See `recurrent.GRU` for the equations. The columns are those of z, r and the candidate."""
        T, R, B, width = projected.shape
        d = width // 3
        states = projected.new_zeros(T + 1, R, B, d)
        gates, said = torch.zeros_like(projected), torch.zeros_like(projected)  # z, r, candidate; U h
        for first, end, k in _stretches(active):
            x, gate, of_h = (each[first:end, :, :k] for each in (projected, gates, said))
            x_2, both, of_gates = (each[..., : 2 * d].unbind() for each in (x, gate, of_h))
            z, r, candidate = (part.unbind() for part in gate.split(d, -1))
            x_1, of_candidate, of_state = x[..., 2 * d :].unbind(), of_h[..., 2 * d :].unbind(), of_h.unbind()
            h = states[first : end + 1, :, :k].unbind()
            for t in range(end - first):
                torch.bmm(h[t], U, out=of_state[t])
                torch.add(x_2[t], of_gates[t], out=both[t]).sigmoid_()
                torch.addcmul(x_1[t], r[t], of_candidate[t], out=candidate[t]).tanh_()
                torch.lerp(candidate[t], h[t], z[t], out=h[t + 1])
        ctx.active = active
        ctx.save_for_backward(states, gates, said[..., 2 * d :], U)
        return states[1:]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        """Gradients of the projected inputs and of U."""
        states, gates, said, U = ctx.saved_tensors
        T, R, B, width = gates.shape
        d = width // 3
        U_T, back = U.mT, gates.new_zeros(T, R, B, 3, d)  # of hU
        carried = gradient.clone(memory_format=torch.contiguous_format)
        to_candidate = gates.new_zeros(T, R, B, d)
        for first, end, k in reversed(list(_stretches(ctx.active))):
            past, gate, part, of_h = (each[first:end, :, :k] for each in (states, gates, back, said))
            z, r, candidate = gate.split(d, -1)
            to = torch.mul(1 - z, 1 - candidate.square(), out=to_candidate[first:end, :, :k])
            torch.mul(past - candidate, z * (1 - z), out=part[..., 0, :])
            torch.mul(to, r, out=part[..., 2, :])
            torch.mul(part[..., 2, :], of_h * (1 - r), out=part[..., 1, :])
            now = carried[first:end, :, :k]
            h, wide, z_t = now.unbind(), now.unsqueeze(-2).unbind(), z.unbind()
            product, of_state = part.unbind(), part.flatten(-2).unbind()
            for t in reversed(range(end - first)):
                product[t].mul_(wide[t])
                before = h[t - 1] if t else carried[first - 1, :, :k]
                if first + t:
                    before.addcmul_(h[t], z_t[t]).baddbmm_(of_state[t], U_T)
        of_U = _product(states[:-1], back.flatten(-2))
        torch.mul(carried, to_candidate, out=back[..., 2, :])
        return back.flatten(-2), of_U, None


class LSTMScan(torch.autograd.Function):
    """States (T, R, B, d) from projected inputs (T, R, B, 4d) and U (R, d, 4d); the initial state is 0."""

    @staticmethod
    def forward(ctx: Any, projected: Tensor, U: Tensor, active: Sequence[int]) -> Tensor:
        """See `lstm.LSTM` for the equations. The columns are those of i, f, o and g."""
        T, R, B, width = projected.shape
        d = width // 4
        gates = torch.zeros_like(projected)
        states, cells = projected.new_zeros(T + 1, R, B, d), projected.new_zeros(T + 1, R, B, d)
        squashed = projected.new_zeros(T, R, B, d)
        for first, end, k in _stretches(active):
            gate = gates[first:end, :, :k]
            x, every, three = projected[first:end, :, :k].unbind(), gate.unbind(), gate[..., : 3 * d].unbind()
            i, f, o, g = (part.unbind() for part in gate.split(d, -1))
            h, c = states[first : end + 1, :, :k].unbind(), cells[first : end + 1, :, :k].unbind()
            tanh_c = squashed[first:end, :, :k].unbind()
            for t in range(end - first):
                torch.baddbmm(x[t], h[t], U, out=every[t])
                three[t].sigmoid_()
                _tanh_(g[t])
                torch.mul(f[t], c[t], out=c[t + 1]).addcmul_(i[t], g[t])
                _tanh_(tanh_c[t].copy_(c[t + 1]))
                torch.mul(o[t], tanh_c[t], out=h[t + 1])
        ctx.active = active
        ctx.save_for_backward(states, cells, squashed, gates, U)
        return states[1:]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        """Gradients of the projected inputs and of U."""
        states, cells, squashed, gates, U = ctx.saved_tensors
        d = gates.shape[-1] // 4
        U_T, back = U.mT, torch.zeros_like(gates)
        carried = gradient.clone(memory_format=torch.contiguous_format)
        c = torch.zeros_like(carried[0])
        for first, end, k in reversed(list(_stretches(ctx.active))):
            tanh_c, past = squashed[first:end, :, :k], cells[first:end, :, :k]
            i, f, o, g = gates[first:end, :, :k].split(d, -1)
            of_i, of_f, of_o, of_g = back[first:end, :, :k].split(d, -1)
            torch.mul(g, i * (1 - i), out=of_i)
            torch.mul(past, f * (1 - f), out=of_f)
            torch.mul(tanh_c, o * (1 - o), out=of_o)
            torch.mul(i, 1 - g.square(), out=of_g)
            to_cell, kept = (o * (1 - tanh_c.square())).unbind(), f.unbind()
            by_cell = [part.unbind() for part in (of_i, of_f, of_g)]
            by_state, of_state, h = of_o.unbind(), back[first:end, :, :k].unbind(), carried[first:end, :, :k].unbind()
            c_k = c[:, :k]
            for t in reversed(range(end - first)):
                c_k.addcmul_(h[t], to_cell[t])
                for part in by_cell:
                    part[t].mul_(c_k)
                by_state[t].mul_(h[t])
                c_k.mul_(kept[t])
                if first + t:
                    before = h[t - 1] if t else carried[first - 1, :, :k]
                    before.baddbmm_(of_state[t], U_T)
        return back, _product(states[:-1], back), None


def _stretches(active: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """First time, end and number of texts of each stretch with equally many active texts, rounded up to fours."""
    first = 0
    for t in range(1, len(active) + 1):
        if t == len(active) or -(-active[t] // 4) != -(-active[first] // 4):
            yield first, t, -(-active[first] // 4) * 4
            first = t


def _product(states: Tensor, back: Tensor) -> Tensor:
    """The gradient of U (R, d, width): previous states (T, R, B, d) times gradients, summed over times and texts."""
    return states.transpose(0, 1).flatten(1, 2).mT @ back.transpose(0, 1).flatten(1, 2)


def _tanh_(x: Tensor) -> Tensor:
    """tanh in place as 2 σ(2x) - 1: on a CPU, torch's sigmoid is seven times as fast as its tanh."""
    return x.mul_(2).sigmoid_().mul_(2).sub_(1)
