"""Training steps and decoding along the axes n, d_model, N, V and M."""

import gc
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from common import configuration, resident, timed, training_step
from rich.console import Console
from rich.progress import track
from series import Axis, Line

from variations import models
from variations.models.flops import Tokens, forward_macs
from variations.tasks.counting import state_bytes
from variations.tasks.sequences.counting import activation_bytes
from variations.tasks.sequences.decoding.beam import beam_search
from variations.tasks.sequences.timing import Paced
from variations.tasks.translation.config import TranslationConfig
from variations.training import performance

BEAM, SENTENCES = 4, 4
"""Of the decoding measured."""


@dataclass(frozen=True)
class Shape:
    """A model and its batch."""

    n: int = 32
    """Sub-words of every sentence, on both sides."""
    d_model: int = 256
    N: int = 2
    V: int = 2_000
    M: int | None = None
    """Heads, and branches of the Weighted Transformer; null: one for each 64 of d_model."""
    form: str = "baseline"
    tokens: int = 512
    """Sub-words of a batch on either side."""
    profile: str = "auto"

    @property
    def config(self) -> TranslationConfig:
        """The run's configuration; d_ff is 4 d_model, as in the papers."""
        config = configuration(self.form, "small", self.profile)
        model, config.trainer.accelerator = config.model, "cpu"
        model.d_model, model.d_ff, model.N = self.d_model, 4 * self.d_model, self.N
        model.h = self.M or max(1, self.d_model // 64)
        return config

    def step(self) -> tuple[Callable[[], None], int, int]:
        """A training step, the model's parameters, and the FLOPs of the step."""
        return training_step(self.config, self.V, self.tokens // self.n, self.n)

    def held(self, parameters: int) -> float:
        """Counted bytes: weights, gradients, Adam's moments, and what the backward pass keeps."""
        kept = activation_bytes(self.config, self.V, self.tokens // self.n, self.n, self.n)
        return float(state_bytes(self.config, parameters) + kept)

    def smallest(self) -> "Shape":
        """The same form in a few kilobytes."""
        return replace(self, n=4, d_model=16, N=1, V=64, M=self.M and 2, tokens=8)


@dataclass(frozen=True)
class Sweep:
    """One axis."""

    name: str
    """A field of `Shape`."""
    title: str
    values: Sequence[int]
    base: Shape
    forms: Sequence[str] = field(default=("baseline",))

    def what(self) -> str:
        """The rest of the shape, in words."""
        b = self.base
        others = {"n": f"n = {b.n}", "d_model": f"d_model = {b.d_model}", "N": f"N = {b.N}", "V": f"V = {b.V:,}"}
        told = ", ".join(text for name, text in others.items() if name != self.name)
        heads = "heads of width d_model/M" if self.name == "M" else "heads of width 64"
        text = f"One training step over {b.tokens:,} + {b.tokens:,} sub-words: {told}, d_ff = 4 d_model, {heads}."
        step = " The curves have a step where attention's kernel changes (above): each kernel keeps other tensors."
        return text + step if self.name == "n" else text


SWEEPS = [
    Sweep("n", "sentence length n", [16, 32, 64, 128, 256, 512, 1024], Shape(d_model=128, tokens=2048)),
    Sweep("d_model", "width d_model", [64, 128, 256, 512, 1024], Shape()),
    Sweep("N", "layers N", [1, 2, 4, 8, 16], Shape()),
    Sweep("V", "vocabulary V", [1000, 2000, 4000, 8000, 16_000, 32_000, 64_000], Shape(tokens=1024)),
    Sweep("M", "branches M", [1, 2, 4, 8, 16, 32], Shape(), ("composed", "naive")),
]
LENGTHS = [16, 32, 64, 128, 256, 512, 1024]
"""Of decoding."""
DECODED = Shape(d_model=128)
_TINY = Shape(n=8, d_model=32, N=1, V=100, tokens=32)
QUICK_SWEEPS = [
    replace(sweep, values=values, base=_TINY)
    for sweep, values in zip(SWEEPS, ([8, 16], [32, 64], [1, 2], [100, 200], [1, 2]), strict=True)
]
QUICK_LENGTHS = [4, 8]


def apart(function: Callable[..., Any], *arguments: Any) -> Any:
    """The result of `function` in its own process, forked from one that has only imported modules."""
    os.environ["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)  # of the forked process
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["networks", "preparation"])
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(function, *arguments).result()


def grown(work: Callable[[], object]) -> tuple[float, int]:
    """Seconds that `work` takes, and bytes by which it raises the peak of this process above its memory before."""
    gc.collect()
    before, began = resident("VmRSS"), time.perf_counter()
    work()
    return time.perf_counter() - began, max(0, resident("VmHWM") - before)


def training_memory(shape: Shape, threads: int | None) -> int:
    """Bytes of two steps, the model and its optimiser, with the shape's profile; for a fresh process."""
    performance.apply(shape.profile, "cpu", threads, {})

    def work(of: Shape) -> None:
        step, _, _ = of.step()
        for _ in range(2):  # Adam's moments exist after the first step
            step()

    work(shape.smallest())  # loads the libraries
    return grown(lambda: work(shape))[1]


def training(sweep: Sweep, rounds: int, profile: str, threads: int | None, console: Console) -> Axis:
    """Measure one axis; its points take turns within a round."""
    axis, steps, samples = Axis(sweep.name, sweep.title, sweep.what()), {}, {}
    for form in sweep.forms:
        axis.lines.append(line := Line("" if form == "baseline" else form))
        for x in sweep.values:
            shape = replace(sweep.base, form=form, profile=profile, **{sweep.name: x})
            steps[form, x], parameters, flops = shape.step()
            line.work[x], line.held[x] = float(flops), shape.held(parameters)
            line.seconds[x] = samples[form, x] = []
            line.peak[x] = apart(training_memory, shape, threads)
    in_turn(steps, samples, rounds, sweep.title, console)
    return axis


def in_turn(
    work: dict[Any, Callable[[], None]],
    samples: dict[Any, list[float]],
    rounds: int,
    title: str,
    console: Console,
    warmup: int = 2,
) -> None:
    """Append each one's seconds in every round after the warm-up."""
    keys = list(work)
    for r in track(range(warmup + rounds), title, console=console, disable=not console.is_terminal):
        # Each round starts with another one, so that the order varies.
        for key in keys[r % len(keys) :] + keys[: r % len(keys)]:
            seconds = timed(work[key]) / 1e3
            if r >= warmup:
                samples[key].append(seconds)


def decoder(shape: Shape) -> tuple[Callable[[], None], int]:
    """A function that decodes `SENTENCES` sentences of n sub-words into as many, and the model's parameters."""
    torch.manual_seed(1)
    model = models.build(shape.config, shape.V).eval()
    source = torch.randint(4, shape.V, (SENTENCES, shape.n), generator=torch.Generator().manual_seed(2))

    def run() -> None:
        with torch.inference_mode():
            paced = Paced(model, [shape.n] * SENTENCES)
            found = beam_search(paced, source, beam=BEAM, alpha=0.6, max_extra=0)
        if {len(nbest[0].tokens) for nbest in found} != {shape.n - 1}:  # EOS is the last one
            raise AssertionError("the outputs do not have the requested length")

    return run, models.count_parameters(model)


def decoding_memory(shape: Shape, threads: int | None) -> int:
    """Bytes of the model and of decoding once; for a fresh process."""
    performance.apply(shape.profile, "cpu", threads, {})
    decoder(shape.smallest())[0]()
    return grown(lambda: decoder(shape)[0]())[1]


def decoding_flops(shape: Shape) -> float:
    """Counted FLOPs: keys and values of each position are computed once; each step attends to the earlier ones."""
    n, rows = shape.n, SENTENCES * BEAM
    counted = Tokens(SENTENCES * n, rows * n, SENTENCES * n**2, rows * n * (n + 1) // 2, rows * n**2)
    return 2.0 * forward_macs(shape.config, counted, shape.V)


def decoding(
    base: Shape, lengths: Sequence[int], rounds: int, profile: str, threads: int | None, console: Console
) -> Axis:
    """Measure decoding along n."""
    what = (
        f"{SENTENCES} sentences of n sub-words decoded into n, beam {BEAM}: "
        f"d_model = {base.d_model}, N = {base.N}, V = {base.V:,}, random weights."
    )
    axis, line, work = Axis("n", "decoding, length n", what), Line(""), {}
    for n in lengths:
        shape = replace(base, n=n, profile=profile)
        work[n], parameters = decoder(shape)
        cache = 4 * 2 * 2 * shape.N * shape.d_model * SENTENCES * BEAM * n  # keys and values of self and cross
        line.seconds[n], line.work[n], line.held[n] = [], decoding_flops(shape), float(4 * parameters + cache)
        line.peak[n] = apart(decoding_memory, shape, threads)
    axis.lines.append(line)
    in_turn(work, line.seconds, rounds, axis.title, console, warmup=1)
    return axis
