"""A plain Transformer encoder (Vaswani et al. 2017) over a story and a question: a row without a paper."""

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from variations.models.memory.base import EMPTY, Reader, initialise
from variations.models.memory.recurrent import lookup
from variations.models.memory.stories import Stories


class Linear(nn.Module):
    """x W + b in each of R restarts."""

    def __init__(self, restarts: int, inputs: int, outputs: int) -> None:
        super().__init__()
        self.W = nn.Parameter(torch.empty(restarts, inputs, outputs))
        self.b = nn.Parameter(torch.empty(restarts, 1, outputs))

    def forward(self, x: Tensor) -> Tensor:
        """(R, T, inputs) to (R, T, outputs)."""
        return torch.baddbmm(self.b, x, self.W)


class Layer(nn.Module):
    """x + MultiHead(LN(x)), then x + FFN(LN(x)): pre-norm, which needs no warm-up at this size."""

    def __init__(self, restarts: int, d: int, h: int) -> None:
        super().__init__()
        self.h = h
        self.qkv, self.out = Linear(restarts, d, 3 * d), Linear(restarts, d, d)
        self.up, self.down = Linear(restarts, d, 4 * d), Linear(restarts, 4 * d, d)

    def forward(self, x: Tensor, there: Tensor) -> tuple[Tensor, Tensor]:
        """The next x (R, B, T, d), and the attention of each word to each, as a mean over heads (R, B, T, T)."""
        R, B, T, d = x.shape
        heads = self.qkv(_normal(x).flatten(1, 2)).view(R, B, T, 3, self.h, d // self.h).permute(3, 0, 1, 4, 2, 5)
        q, k, v = heads.unbind(0)  # (R, B, h, T, d / h)
        mask = there[:, :, None, None]  # (R, B, 1, 1, T)
        attended = scaled_dot_product_attention(q, k, v, mask).transpose(2, 3).reshape(R, B * T, d)
        x = x + self.out(attended).view_as(x)
        weight = ((q @ k.mT) * (d // self.h) ** -0.5).masked_fill(~mask, -torch.inf).softmax(-1).mean(2).detach()
        return x + self.down(self.up(_normal(x).flatten(1, 2)).relu()).view_as(x), weight


class TransformerReader(Reader):
    """R Transformer encoders over the words of the question and of the story.

    A word's vector is the sum of three learned vectors: of the word, of its position in the sentence, and of the
    sentence's age (0: the question). The answer is predicted from the mean over the question's words.

    Args:
        words: vocabulary size, with the empty word.
        memory: largest age.
        longest: words of the longest sentence or question.
        d: width of the model; a multiple of `h`.
        layers: N.
        h: heads.
        seeds: one for each restart.
    """

    def __init__(self, words: int, memory: int, longest: int, d: int, layers: int, h: int, seeds: list[int]) -> None:
        super().__init__()
        R = len(seeds)
        self.embedding = nn.Parameter(torch.empty(R, words, d))
        self.position_embedding = nn.Parameter(torch.empty(R, longest, d))
        self.time_embedding = nn.Parameter(torch.empty(R, memory + 1, d))
        self.layers = nn.ModuleList(Layer(R, d, h) for _ in range(layers))
        self.W_a = nn.Parameter(torch.empty(R, d, words))
        initialise(self, seeds)

    def forward(self, stories: Stories) -> tuple[Tensor, list[Tensor]]:
        """See `Reader.forward`: a layer's attention is that of the question to each sentence's words, summed."""
        R, B, J = stories.questions.shape
        told = stories.spread(stories.sentences).view(R, B, stories.n * J)  # (R, B, n·J)
        words = torch.cat([stories.questions, told], 2)  # (R, B, T)
        times = torch.cat([torch.zeros_like(stories.questions[..., :1]), stories.spread(stories.times)], 2)
        x = lookup(self.embedding, words) + lookup(self.time_embedding, times.repeat_interleave(J, 2))  # (R, B, T, d)
        x = x + self.position_embedding.repeat(1, stories.n + 1, 1).unsqueeze(1)
        there = words != EMPTY  # (R, B, T)
        asked = there[..., :J].to(x.dtype)
        asked = asked / asked.sum(-1, keepdim=True)  # (R, B, J), for the mean over the question's words
        reads = []
        for layer in self.layers:
            x, weight = layer(x, there)
            reads.append((asked.unsqueeze(-1) * weight[:, :, :J, J:]).sum(2).view(R, B, stories.n, J).sum(-1))
        answer = (asked.unsqueeze(-1) * _normal(x[:, :, :J])).sum(2)  # (R, B, d)
        return answer @ self.W_a, reads


def _normal(x: Tensor) -> Tensor:
    """Layer normalisation without gain and bias, which the following linear map includes."""
    return torch.nn.functional.layer_norm(x, x.shape[-1:])
