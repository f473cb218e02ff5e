"""Training on a GPU in bf16: tokens per second and model-FLOP utilisation of our networks, torch's and Hugging Face's.

All contestants of a size train on the same batches, whose sentences have the lengths of translated text, with fused
Adam. A round is one pass over the batches by each contestant in turn, timed without synchronisation between its
updates, as in training. Utilisation is the counted FLOPs of real tokens (3 × 2 × multiply-accumulates of matrix
products) per second, divided by what one large bf16 product reaches on the same device in the same process. With
`--compile`, all networks are compiled by torch.compile with its default settings.
"""

import argparse
import statistics
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "speed"))

import numpy as np
import torch
from common import configuration, deliver, header, load, sizes, timed, write
from rich.console import Console
from torch import Tensor, nn
from torch.nn import functional as F
from workloads import BOS, EOS, PAD, Workload

from variations import models
from variations.models.flops import Tokens, training_flops
from variations.models.kernels import segments, varlen
from variations.models.loss import Smoothing, cross_entropy
from variations.tasks.translation.config import TranslationConfig
from variations.training import performance

MEAN, SPREAD, LONGEST = 28, 0.5, 120
"""Sub-words of a sentence: log-normal, as in translated news; the target's length differs by 15 %."""
BATCHES = 4
"""Of a round: short, shorter and longer than usual, and long sentences."""
OURS = {
    "ours, padded": ("baseline", "auto"),
    "ours, without padding": ("baseline", "experimental"),
    "ours, Weighted, padded": ("composed", "auto"),
    "ours, Weighted, without padding, fused branches": ("composed", "experimental"),
}
"""Our contestants: the form of the network and the profile."""
PEERS = ("torch.nn.Transformer", "Hugging Face Marian")


@dataclass
class Batch:
    """Padded ids on the device, (B, S) and (B, T), and their counts."""

    source: Tensor
    target: Tensor
    tokens: Tokens


@dataclass
class Contestant:
    """A network in training."""

    name: str
    config: TranslationConfig
    """Of ours; for a peer, that of our network of its size, by which FLOPs are counted."""
    step: Callable[[Batch], None]
    parameters: int
    how: str
    """What it runs."""
    seconds: list[float] = field(default_factory=list)
    """Of each round."""
    peak: int = 0
    """Bytes above those allocated before the step."""
    first: float = 0.0
    """Seconds of the first round, compilation included."""


def parser() -> argparse.ArgumentParser:
    """Command line."""
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    p.add_argument("--sizes", nargs="+", choices=sizes(), default=["multi30k", "small", "base", "big"])
    p.add_argument("--device", choices=["cpu", "cuda"], default="cuda")
    p.add_argument("--tokens", type=int, default=25_000, help="padded sub-words of a batch's side")
    p.add_argument("--vocabulary", type=int, default=37_000)
    p.add_argument("--rounds", type=int, default=7, help="timed, after one that is not")
    p.add_argument("--compile", action="store_true", help="compile every network with torch.compile")
    p.add_argument("--only", nargs="+", choices=[*OURS, *PEERS], default=[*OURS, *PEERS], help="contestants")
    p.add_argument("--output", type=Path, help="write the report to this Markdown file too")
    return p


def draw(tokens: int, vocabulary: int, device: str) -> list[Batch]:
    """Batches of sentences of about the same length, at four places of the distribution of lengths."""
    rng = np.random.default_rng(1)
    pool = np.clip(np.exp(rng.normal(np.log(MEAN) - SPREAD**2 / 2, SPREAD, 200_000)), 2, LONGEST)
    batches = []
    for quantile in (np.arange(BATCHES) + 0.5) / BATCHES:
        middle = np.quantile(pool, quantile)
        near = rng.permutation(pool[np.abs(pool / middle - 1) < 0.05])  # the lengths of one bucket
        count = int(tokens / (1.1 * middle))
        s = np.round(near[:count]).astype(int)
        t = np.clip(np.round(s * rng.normal(1, 0.15, len(s))), 2, LONGEST).astype(int)
        counts = Tokens(int(s.sum()), int(t.sum()), int((s * s).sum()), int((t * t).sum()), int((s * t).sum()))
        batches.append(Batch(*(_ids(side, vocabulary, rng).to(device) for side in (s, t)), counts))
    return batches


def _ids(lengths: "np.ndarray[tuple[int], np.dtype[np.int64]]", vocabulary: int, rng: np.random.Generator) -> Tensor:
    ids = rng.integers(4, vocabulary, (len(lengths), lengths.max()))
    place = np.arange(lengths.max())
    ids[place[None, :] == lengths[:, None] - 1] = EOS
    ids[place[None, :] >= lengths[:, None]] = PAD
    return torch.from_numpy(ids)


def ours(name: str, size: str, args: argparse.Namespace) -> Contestant:
    """Our network by the profile of the contestant, and what its self-tests have chosen."""
    form, profile = OURS[name]
    config, device = configuration(form, size, profile), torch.device(args.device)
    config.trainer.precision = "bf16-mixed"
    net = models.build(config, args.vocabulary, args.device).to(device).train()
    packs = net.varlen and varlen.packs(config, device, net.kernels)
    smoothing = Smoothing(0.1)
    if args.compile:
        net.compile()

    def loss(batch: Batch) -> Tensor:
        if packs:
            tokens = batch.tokens.source, batch.tokens.target
            source, target, packed = segments.pack(batch.source, batch.target, tokens, pad=net.pad)
            total, _ = cross_entropy(net(source, target, packed), net.output, target, smoothing)
        else:
            total, _ = cross_entropy(net(batch.source, batch.target), net.output, batch.target, smoothing)
        return total / batch.tokens.target

    how = f"{net.kernels.name}, {'without padding' if packs else 'padded'}"
    update = _step(loss, net.parameters(), args.device, after=lambda: net.after_update(frozen=False))
    return Contestant(name, config, update, models.count_parameters(net), how)


def peer(name: str, size: str, args: argparse.Namespace) -> Contestant:
    """A plain loop around another package's network of the same size."""
    config = configuration("baseline", size, "auto")
    build, m = _torch if name == PEERS[0] else _marian, config.model
    workload = Workload(size, m.N, m.d_model, m.d_ff, m.h, args.tokens, 0, args.rounds)
    net, logits = build(workload, args.vocabulary, m.dropout)
    net.to(args.device).train()
    if args.compile:
        net.compile()

    def loss(batch: Batch) -> Tensor:
        given = torch.cat([torch.full_like(batch.target[:, :1], BOS), batch.target[:, :-1]], 1)
        out = logits(batch.source, given).flatten(0, 1)
        return F.cross_entropy(out, batch.target.flatten(), ignore_index=PAD, label_smoothing=0.1)

    parameters = sum(p.numel() for p in net.parameters())
    return Contestant(name, config, _step(loss, net.parameters(), args.device), parameters, "padded")


Logits = Callable[[Tensor, Tensor], Tensor]


def _torch(workload: Workload, vocabulary: int, dropout: float) -> tuple[nn.Module, Logits]:
    from train_torch import Translator

    net = Translator(workload, vocabulary, dropout)
    return net, net


def _marian(workload: Workload, vocabulary: int, dropout: float) -> tuple[nn.Module, Logits]:
    from marian import model

    net = model(workload, vocabulary, dropout)
    return (
        net,
        lambda source, given: net(input_ids=source, attention_mask=source.ne(PAD), decoder_input_ids=given).logits,
    )


def _step(
    loss: Callable[[Batch], Tensor],
    parameters: Iterable[nn.Parameter],
    device: str,
    after: Callable[[], object] = lambda: None,
) -> Callable[[Batch], None]:
    """One update, and what follows `after` it: the Weighted Transformer's weights of branches are projected."""
    optimizer = torch.optim.Adam(list(parameters), lr=1e-4, betas=(0.9, 0.98), eps=1e-9, fused=True)

    def step(batch: Batch) -> None:
        with torch.autocast(device, torch.bfloat16):
            value = loss(batch)
        value.backward()
        optimizer.step()
        after()
        optimizer.zero_grad(set_to_none=True)

    return step


def time_round(contestant: Contestant, batches: list[Batch], device: str) -> float:
    """Seconds of one pass over the batches."""
    torch.backends.cuda.enable_cudnn_sdp(contestant.name in PEERS)  # torch's default; ours do without it

    def steps() -> None:
        for batch in batches:
            contestant.step(batch)

    return timed(steps, device) / 1e3


def largest_product(device: str) -> float:
    """FLOP/s of a large bf16 product of random numbers: the median of ten."""
    n = 8192 if device == "cuda" else 1024
    a, b = (torch.randn(n, n, device=device, dtype=torch.bfloat16) for _ in range(2))
    seconds = [timed(lambda: torch.mm(a, b), device) / 1e3 for _ in range(13)]
    return 2 * n**3 / statistics.median(seconds[3:])


def measure(size: str, args: argparse.Namespace, console: Console) -> list[str]:
    """The table of one size."""
    batches = draw(args.tokens, args.vocabulary, args.device)
    players = []
    for name in args.only:
        torch.manual_seed(1)
        contestant = (ours if name in OURS else peer)(name, size, args)
        console.print(f"{size}: {name}, {contestant.how}")
        try:
            contestant.first = time_round(contestant, batches, args.device)
        except RuntimeError as error:
            console.print(f"{size}: {name} fails: {str(error).splitlines()[0]}")
            continue
        if args.compile:  # the programs for other shapes
            contestant.first += time_round(contestant, batches, args.device)
        players.append(contestant)
    if not players:
        return [f"## {size}", "", "None of them runs here.", ""]
    for r in range(args.rounds):
        for contestant in players[r % len(players) :] + players[: r % len(players)]:
            before = torch.cuda.memory_allocated() if args.device == "cuda" else 0
            if args.device == "cuda":
                torch.cuda.reset_peak_memory_stats()
            contestant.seconds.append(time_round(contestant, batches, args.device))
            ms = 1e3 * contestant.seconds[-1] / len(batches)
            console.print(f"{size}, round {r + 1} of {args.rounds}: {contestant.name}, {ms:.1f} ms an update")
            if args.device == "cuda":
                contestant.peak = max(contestant.peak, torch.cuda.max_memory_allocated() - before)
    return _table(size, batches, players, largest_product(args.device), args.vocabulary)


def _table(size: str, batches: list[Batch], players: list[Contestant], product: float, vocabulary: int) -> list[str]:
    m = players[0].config.model
    tokens = sum(b.tokens.source + b.tokens.target for b in batches)
    padded = sum(b.source.numel() + b.target.numel() for b in batches)
    peers = [p for p in players if p.name in PEERS]
    best = [min((p.seconds[r] for p in peers), default=float("nan")) for r in range(len(players[0].seconds))]
    lines = [
        f"## `size={size}`: N={m.N}, d_model={m.d_model}, d_ff={m.d_ff}, h={m.h}",
        "",
        f"{len(batches)} batches of {tokens // len(batches):,} sub-words of both sides on average, "
        f"{100 * (1 - tokens / padded):.0f} % of the padded batch is padding. A large bf16 product reaches "
        f"{product / 1e12:.0f} TFLOP/s.",
        "",
        "| contestant | parameters | sub-words/s | step, ms | speed ÷ better peer's (range) | utilisation "
        "| memory of a step, GB | first round, s |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for p in players:
        seconds = statistics.median(p.seconds)
        ratios = [b / s for b, s in zip(best, p.seconds, strict=True)]
        flops = sum(training_flops(p.config, b.tokens, vocabulary) for b in batches)
        ratio = f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})" if peers else ""
        lines.append(
            f"| {p.name} ({p.how}) | {p.parameters / 1e6:.1f}M | {tokens / seconds:,.0f} "
            f"| {1e3 * seconds / len(batches):.1f} | {ratio} | {100 * flops / seconds / product:.1f} % "
            f"| {p.peak / 1e9:.1f} | {p.first:.1f} |"
        )
    return [*lines, ""]


def main() -> None:
    """Measure and report."""
    args = parser().parse_args()
    console, before = Console(stderr=True, highlight=False), load()
    performance.apply("auto", args.device, None, {})
    lines: list[str] = []
    report: list[str] = []
    for size in args.sizes:  # the report is written again after each size, so that little is lost with the machine
        lines += measure(size, args, console)
        settings = {"device": args.device, "rounds": args.rounds, "load before and after": f"{before}, {load()}"}
        report = [*header("Training on a GPU beside the peers", settings), *lines]
        if size != args.sizes[-1] and args.output is not None:
            write(report, args.output)
    deliver(report, args.output)


if __name__ == "__main__":
    main()
