"""The verb `complexity`: Table 1 of Vaswani et al. 2017 on this machine."""

import dataclasses
import shlex
import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from variations.commands.cli import command
from variations.commands.stored import bar, put
from variations.configuration.extras import need
from variations.configuration.places import spelled
from variations.configuration.schema import choice, number
from variations.store.atomic import refuse_unwritable
from variations.system.errors import ConfigError, UserError

if TYPE_CHECKING:
    from variations.planning.complexity.report import Report

LAYERS = ("self_attention", "recurrent", "convolution", "separable", "restricted")


@dataclass
class ComplexityConfig:
    """Keys of `complexity.py`."""

    n: list[int] = field(default_factory=lambda: [64, 128, 256, 512, 1024, 2048])
    """Sequence lengths."""
    d: list[int] = field(default_factory=lambda: [32, 64, 128, 256, 512, 1024])
    """Widths."""
    layers: list[str] = field(default_factory=lambda: list(LAYERS))
    """Kinds of layers."""
    kernel: int = number(3, ge=1)
    """Width k of the convolutions, odd."""
    neighbourhood: int = number(16, ge=1)
    """r of restricted self-attention: position i sees i-r to i+r."""
    heads: int = number(8, ge=1)
    """Attention heads; every d must be a multiple."""
    recurrent: str = choice("gru", "gru", "lstm")
    projections: bool = False
    """Also count W_Q, W_K, W_V and W_O; Table 1 leaves them out."""
    repeats: int = number(5, ge=1)
    """Rounds of timings, of which the median is used."""
    limit: float = number(90.0, gt=0)
    """Seconds after which no further round is started."""
    threads: int | None = number(None, ge=1)
    """CPU threads; null: torch's own choice."""
    accelerator: str = choice("cpu", "cpu", "gpu")
    format: str = choice("terminal", "terminal", "markdown", "json")
    out: str | None = None
    """File to write; null: standard output."""
    plot: str | None = None
    """Plot to write, .svg or .png: time against n and against d."""


def complexity(config: ComplexityConfig) -> None:
    """Time and count one layer of each kind in Table 1 of “Attention Is All You Need”; fit the exponents of n and d.

    Counted FLOPs give exact exponents, timings measured ones; both are shown beside the paper's O(·), its number of
    sequential operations and its maximum path length.
    """
    if found := faults(config):
        raise ConfigError(found)
    if config.plot is not None:
        need("dashboard", f"plot={config.plot}")
    refuse_unwritable(out=config.out, plot=config.plot)
    report = measured(config)
    from variations.planning.complexity import report as words

    if config.plot is not None:
        from variations.figures.canvas import save, style

        with style():
            sys.stderr.write(f"{save(words.plot(report.points, report.lines), Path(config.plot).expanduser())}\n")
    put(_text(config, report), config.out)


def faults(config: ComplexityConfig) -> list[str]:
    """Keys that cannot be measured, each with what to do."""
    found = []
    for key, values in (("n", config.n), ("d", config.d)):
        if len(set(values)) < 2 or min(values, default=0) < 1:
            found.append(f"{key}={values}: an exponent needs at least two different values, each at least 1.")
    if wrong := [layer for layer in config.layers if layer not in LAYERS]:
        found.append(f"layers={wrong}: valid choices are {', '.join(LAYERS)}.")
    if not config.layers:
        found.append(f"layers=[]: choose some of {', '.join(LAYERS)}.")
    if odd := [d for d in config.d if d % config.heads]:
        found.append(f"d={odd}: not a multiple of heads={config.heads}; choose other widths or heads.")
    if config.kernel % 2 == 0:
        found.append(f"kernel={config.kernel}: must be odd, to give a position equally many neighbours on both sides.")
    if config.plot is not None and Path(config.plot).suffix not in (".svg", ".png"):
        found.append(f"plot={config.plot}: must end in .svg or .png.")
    return found


def measured(config: ComplexityConfig) -> "Report":
    """Count, time and fit. Raises UserError if a GPU is asked for and there is none."""
    import torch

    from variations.planning.complexity.measure import Sizes, measure
    from variations.planning.complexity.report import Report, lines

    if config.accelerator == "gpu" and not torch.cuda.is_available():
        raise UserError("accelerator=gpu, but torch finds no GPU here: use accelerator=cpu.")
    if config.threads is not None:
        torch.set_num_threads(config.threads)
    torch.manual_seed(1)
    device = "cuda" if config.accelerator == "gpu" else "cpu"
    sizes = Sizes(config.heads, config.kernel, config.neighbourhood, config.recurrent, config.projections)
    layers = list(dict.fromkeys(config.layers))
    grid = [(n, d) for n in sorted(set(config.n)) for d in sorted(set(config.d))]
    with bar("measuring", config.repeats * len(grid) * len(layers)) as advance:
        points = measure(layers, grid, sizes, rounds=config.repeats, limit=config.limit, device=device, advance=advance)
    where = torch.cuda.get_device_name() if device == "cuda" else f"{torch.get_num_threads()} CPU threads"
    settings = dataclasses.asdict(sizes) | {
        "rounds": len(points[0].samples),
        "hardware": f"{where}, torch {torch.__version__}",
    }
    return Report(lines(points, config.kernel, config.neighbourhood), points, settings, same_command(config))


def same_command(config: ComplexityConfig) -> str:
    """The command that measures the same."""
    default = ComplexityConfig()
    changed = []
    for item in dataclasses.fields(config):
        value = getattr(config, item.name)
        if value != getattr(default, item.name):
            shown = f"[{','.join(map(str, value))}]" if isinstance(value, list) else str(value).lower()
            changed.append(f"{item.name}={value if isinstance(value, str) else shown}")
    return " ".join([spelled("complexity"), *map(shlex.quote, changed)])


def _text(config: ComplexityConfig, report: "Report") -> str:
    from variations.planning.complexity import report as words
    from variations.store.atomic import json_text

    if config.format == "json":
        return json_text(words.document(report)) + "\n"
    if config.format == "markdown":
        return words.markdown(report, Path(config.plot).name if config.plot is not None else None)
    interactive = config.out is None and sys.stdout.isatty()
    width = max(110, shutil.get_terminal_size().columns) if interactive else None
    return words.terminal(report, colour=interactive, width=width)


main = command(
    complexity,
    schema=ComplexityConfig,
    config_name="complexity",
    examples={
        "": "on the terminal, within two minutes",
        "plot=complexity.svg format=json": "",
        "format=markdown out=docs/results/complexity.md plot=docs/results/complexity.svg": "",
        "'layers=[self_attention,restricted]' 'n=[512,1024,2048]' 'd=[64,128,256]'": "",
    },
)
