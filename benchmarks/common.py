"""Shared by the benchmarks: sizes, forms, training steps, and a header with command, machine and settings."""

import os
import platform
import shlex
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import torch
import yaml

from variations import models
from variations.configuration.transformer import BranchConfig, ModelConfig, SequenceRecipe
from variations.models.flops import Tokens, training_flops
from variations.models.loss import Smoothing, cross_entropy
from variations.tasks.sequences.experiment import parameter_groups
from variations.tasks.translation.config import TranslationConfig
from variations.training import schedule

ROOT = Path(__file__).resolve().parents[1]
FORMS = ("baseline", "naive", "composed", "split")
"""The plain Transformer, two evaluations of the branched sub-layer with a shared FFN, and FFNs of width d_ff/M."""


def configuration(form: str, size: str, profile: str) -> TranslationConfig:
    """A run's configuration for one form at a size of `conf/size/`; all forms have the same dropout."""
    shape = yaml.safe_load((ROOT / "conf" / "size" / f"{size}.yaml").read_text(encoding="utf-8"))
    weighted = form != "baseline"
    branch = BranchConfig(ffn="split" if form == "split" else "shared")
    branch.impl = "naive" if form == "naive" else "composed"
    model = ModelConfig(kind="weighted" if weighted else "transformer", **shape)
    return TranslationConfig(model=model, branch=branch, recipe=SequenceRecipe(), profile=profile)


def sizes() -> list[str]:
    """Sizes of `conf/size/` that need no recipe (the rows of tables are scaled by theirs)."""
    return sorted(path.stem for path in (ROOT / "conf" / "size").glob("*.yaml") if not path.stem.startswith("table_"))


def training_step(
    config: TranslationConfig,
    vocabulary: int,
    sentences: int,
    length: int,
    *,
    device: str = "cpu",
    precision: str = "32-true",
) -> tuple[Callable[[], None], int, int]:
    """A function that takes one training step on a batch of a given number of pairs of `length` + `length` sub-words.

    Returns:
        The function, the model's parameters, and the counted FLOPs of the step.
    """
    torch.manual_seed(1)
    model = models.build(config, vocabulary, device).to(device).train()
    optimizer, rates = schedule.optimizer(parameter_groups(model, config), config)
    generator = torch.Generator().manual_seed(2)
    shape = (sentences, length)
    source, target = (torch.randint(4, vocabulary, shape, generator=generator).to(device) for _ in range(2))
    smoothing = Smoothing(config.recipe.label_smoothing, config.recipe.smoothing)

    def context() -> AbstractContextManager[object]:
        return torch.autocast(device, torch.bfloat16) if precision == "bf16-mixed" else nullcontext()

    def step() -> None:
        with context():
            loss, _ = cross_entropy(model(source, target), model.output, target, smoothing)
        (loss / target.numel()).backward()
        optimizer.step()
        optimizer.zero_grad()
        rates.step()
        model.after_update(frozen=False)

    tokens, pairs = source.numel(), sentences * length**2
    flops = training_flops(config, Tokens(tokens, tokens, pairs, pairs, pairs), vocabulary)
    return step, models.count_parameters(model), flops


def timed(step: Callable[[], None], device: str = "cpu") -> float:
    """Milliseconds of one step."""
    if device == "cuda":
        torch.cuda.synchronize()
    start = time.perf_counter()
    step()
    if device == "cuda":
        torch.cuda.synchronize()
    return (time.perf_counter() - start) * 1e3


def resident(which: str) -> int:
    """Bytes of this process in memory now (VmRSS), or at most so far (VmHWM).

    Not `resource.getrusage`: its peak of a child starts with the parent's memory at the start of the child.
    """
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(which))


def header(title: str, settings: dict[str, object]) -> list[str]:
    """Title, command, versions and processor, without any path of the machine."""
    arguments, skip = [], False
    for argument in sys.argv[1:]:
        if not skip and not argument.startswith("--output"):
            arguments.append(Path(argument).name if Path(argument).is_absolute() else argument)
        skip = argument == "--output"
    command = f"PYTHONPATH=src python benchmarks/{Path(sys.argv[0]).name} {shlex.join(arguments)}".strip()
    device = torch.cuda.get_device_name() if settings.get("device") == "cuda" else "none used"
    return [
        f"# {title}",
        "",
        f"Command: `{command}`",
        "",
        f"- Python {platform.python_version()}, torch {torch.__version__}, {platform.system()} {platform.machine()}",
        f"- CPU: {_processor()}, {os.cpu_count()} cores, {torch.backends.cpu.get_cpu_capability()}",
        f"- accelerator: {device}",
        *(f"- {key}: {value}" for key, value in settings.items()),
        "",
    ]


def load() -> str:
    """Load average of the last minute, which shows whether other processes used the machine."""
    return f"{os.getloadavg()[0]:.1f}"


def deliver(lines: list[str], output: Path | None) -> None:
    """Print the lines, and write them to `output` if there is one."""
    sys.stdout.write(_text(lines))
    if output is not None:
        write(lines, output)


def write(lines: list[str], output: Path) -> None:
    """Write the lines to a file, in one step."""
    output.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=output.parent, delete=False, encoding="utf-8") as file:
        file.write(_text(lines))
    Path(file.name).chmod(0o644)
    Path(file.name).replace(output)


def _text(lines: list[str]) -> str:
    return "\n".join(lines).rstrip() + "\n"


def _processor() -> str:
    path = Path("/proc/cpuinfo")
    names = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return next(
        (line.split(":", 1)[1].strip() for line in names if line.startswith("model name")), platform.processor()
    )
