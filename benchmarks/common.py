"""What the benchmarks share: sizes, forms, and a header that says what was measured on what."""

import os
import platform
import shlex
import sys
import tempfile
from pathlib import Path

import torch
import yaml

from variations.config import BranchConfig, Config, ModelConfig, RecipeConfig

ROOT = Path(__file__).resolve().parents[1]
FORMS = ("baseline", "naive", "sum_first", "composed", "split")
"""The plain Transformer, three evaluations of the branched sub-layer with a shared FFN, and FFNs of width d_ff/M."""


def configuration(form: str, size: str, profile: str) -> Config:
    """A run's configuration for one form at a size of `conf/size/`; all forms have the same dropout."""
    shape = yaml.safe_load((ROOT / "conf" / "size" / f"{size}.yaml").read_text(encoding="utf-8"))
    weighted = form != "baseline"
    branch = BranchConfig(ffn="split" if form == "split" else "shared")
    branch.impl = form if form in ("naive", "sum_first") else "composed"
    model = ModelConfig(kind="weighted" if weighted else "transformer", **shape)
    return Config(model=model, branch=branch, recipe=RecipeConfig(), profile=profile)


def sizes() -> list[str]:
    """Sizes of `conf/size/` that stand for themselves (tables' rows are scaled by their recipe)."""
    return sorted(path.stem for path in (ROOT / "conf" / "size").glob("*.yaml") if not path.stem.startswith("table_"))


def header(title: str, settings: dict[str, object]) -> list[str]:
    """Title, command, versions and processor, without any path of the machine."""
    arguments, skip = [], False
    for argument in sys.argv[1:]:
        if not skip and not argument.startswith("--output"):
            arguments.append(argument)
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
    """Load average of the last minute, which says whether others used the machine."""
    return f"{os.getloadavg()[0]:.1f}"


def deliver(lines: list[str], output: Path | None) -> None:
    """Print the lines, and write them to `output` if there is one."""
    text = "\n".join(lines).rstrip() + "\n"
    sys.stdout.write(text)
    if output is not None:
        output.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=output.parent, delete=False, encoding="utf-8") as file:
            file.write(text)
        Path(file.name).chmod(0o644)
        Path(file.name).replace(output)


def _processor() -> str:
    path = Path("/proc/cpuinfo")
    names = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return next(
        (line.split(":", 1)[1].strip() for line in names if line.startswith("model name")), platform.processor()
    )
