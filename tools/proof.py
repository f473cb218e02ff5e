"""Prove that a change of the code changes no result: the same runs before and after, bit for bit.

    git worktree add ../before COMMIT                                          # the code before
    python tools/proof.py record before.json --checkout ../before
    python tools/proof.py record after.json                                    # this checkout
    python tools/proof.py compare before.json after.json                       # exit code 1 if anything differs

`record` trains the tiny runs of RUNS (float32 on one CPU thread unless they say otherwise) by `python src/train.py`, on
a corpus that it writes itself, some four minutes in all. It reads from their folders: metrics of each update, SHA-256
of each tensor of the last checkpoint, of the best weights and of those to be averaged, hypotheses, scores. A checkout
is used only through command lines and run folders, so its modules may move; `packed` is the exception (see
FORCE_PACKING). Tensors are compared by value and by name: a renamed parameter is reported, but is not a difference.
Records of two processors or of two versions of torch may differ in the last bits, so make both on one machine.
`--only NAME` (may be repeated) selects runs; `--work DIR` keeps the runs for inspection.
"""

import argparse
import hashlib
import json
import os
import platform
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SIZES = {"train": 240, "valid": 24, "test": 16}
WORDS = {
    "the": "das", "house": "Haus", "garden": "Garten", "kindergarten": "Kinder-Garten", "apples": "Äpfel",
    "sees": "sieht", "buys": "kauft", "of": "von", "don't": "nicht", "3.5": "3,5", "two": "zwei",
    "green": "grün", "street": "Straße",
    "Mary": "Maria", "and": "und", "high-speed": "Hochgeschwindigkeits-", "train": "Zug", "quickly": "schnell",
    "\"old\"": "„alt“", "river": "Fluss",
}  # fmt: skip
SECONDS = 3600
"""Longest time of one command: seconds on an idle core, many minutes on a crowded machine."""
TIMED = {"seconds", "decoding_seconds", "hardware", "deterministic"}
"""Metrics and results that depend on the machine and the clock instead of the computation."""

COMMON = (
    "data=files", "data.root=corpus", "data.cache=cache", "data.source=en", "data.target=de", "data.vocabulary=120",
    "data.max_length=64", "model.d_model=32", "model.d_ff=64", "model.h=4", "model.N=1", "model.dropout=0.1",
    "recipe.batch_tokens=512", "recipe.warmup=12", "recipe.lr=0.4", "trainer.max_steps=32", "trainer.val_every=8",
    "trainer.val_bleu=4", "trainer.log_every=1", "trainer.progress=false", "trainer.threads=1", "decode.beam=3",
    "decode.alpha=2", "decode.max_extra=10", "logger=none", "runs=runs",
)  # fmt: skip
WEIGHTED = ("model=weighted", "branch.freeze_last=4", "branch.warmup=4")
LONG = (
    "trainer.max_steps=240", "trainer.val_every=120", "trainer.log_every=4", "recipe.warmup=60", "decode.alpha=0.6",
)  # fmt: skip
"""Enough for translations that are sentences, so that decoding is tested."""
RUNS: dict[str, tuple[str, ...]] = {
    "transformer": ("model.N=2",),
    "toy": (
        "data=toy", "data.root=null", "data.train_pairs=300", "data.vocabulary=400", "trainer.limit_test=8",
        "decode.beam=1",
    ),
    "additive_learned_positions": ("model=additive", "positions=learned"),
    "restricted_t2t_positions": ("model=restricted", "model.neighbourhood=3", "positions=sinusoidal_t2t"),
    "prenorm_untied_clipped": (
        "model.N=2", "model.norm=pre", "model.tying=none", "model.init=xavier", "model.decoder_start=bos",
        "model.d_k=4", "model.d_v=12", "model.attention_dropout=0.1", "model.relu_dropout=0.1",
        "recipe.schedule=inverse_sqrt", "recipe.lr=0.01", "recipe.clip=0.5", "recipe.weight_decay=0.01",
        "recipe.smoothing=torch", "decode.sets=[test,dev]",
    ),
    "weighted": WEIGHTED,
    "weighted_softmax_literal": (*WEIGHTED, "branch=softmax", "branch.impl=naive", "branch.wo_bias=per_branch"),
    "weighted_split": (
        *WEIGHTED, "branch=split", "branch.impl=naive", "branch.residual=outer+inner", "branch.inner_norm=true",
    ),
    "weighted_full_shared_scope": (
        *WEIGHTED, "model.N=2", "branch=full", "branch.scope=shared_enc_dec", "branch.center_grad=true",
    ),
    "weighted_topk": (*WEIGHTED, "branch=topk"),
    "weighted_topk_input": (*WEIGHTED, "branch=topk_input"),
    "weighted_shakeshake": (*WEIGHTED, "branch=shakeshake"),
    "weighted_decoder_self": (*WEIGHTED, "branch=decoder_self", "branch.rescale=M"),
    "weighted_uniform_at_test": (*WEIGHTED, "branch=uniform_at_test", "positions=learned"),
    "accumulation": (*WEIGHTED, "trainer.tokens_per_batch=160"),
    "ema": ("recipe.ema=0.9",),
    "averaging": ("recipe.average=3", "recipe.average_every=4", "trainer.checkpoint_every=6"),
    "bf16": (*WEIGHTED, "trainer.precision=bf16-mixed"),
    "packed": WEIGHTED,
    "two_ranks": (*WEIGHTED, "trainer.devices=2", "trainer.strategy=ddp"),
    "resume": WEIGHTED,
    "transformer_long": LONG,
    "weighted_long": (*WEIGHTED, *LONG),
}  # fmt: skip
TWIN = {"resume": "weighted"}
"""Runs that must equal another one, bit for bit."""
STOP_AT = 5
"""`resume` gets SIGTERM after this number of updates, and the same command again."""

FORCE_PACKING = """
import importlib, pathlib, runpy, sys
module, script = sys.argv[1:3]
asked = []
importlib.import_module(module).packs = lambda *given, **named: not asked.append(given)
sys.argv, sys.path[0] = sys.argv[2:], str(pathlib.Path(script).parent)
runpy.run_path(script, run_name="__main__")
if not asked:
    sys.exit("packs() was never called: FORCE_PACKING of tools/proof.py no longer fits this checkout")
"""
"""On a CPU no configuration trains without padding, so this answers for `packs()`, wherever the checkout keeps it."""


def say(text: str) -> None:
    """Report progress."""
    print(text, file=sys.stderr, flush=True)


def write_corpus(folder: Path) -> None:
    """Write generated English and its word-by-word German in reverse order: the same text on every machine."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = random.Random(14)  # noqa: S311 - for text, not for secrets
    for name, size in SIZES.items():
        lines = [[rng.choice(list(WORDS)) for _ in range(rng.randint(2, 14))] for _ in range(size)]
        german = ([WORDS[word] for word in reversed(line)] for line in lines)
        (folder / f"{name}.en").write_text("".join(f"{' '.join(line)} .\n" for line in lines), encoding="utf-8")
        (folder / f"{name}.de").write_text("".join(f"{' '.join(line)} .\n" for line in german), encoding="utf-8")


@dataclass
class Checkout:
    """The code under test, and the folder of its runs."""

    root: Path
    work: Path

    def command(self, name: str) -> list[str]:
        """The command line of a run."""
        changed = {word.partition("=")[0] for word in RUNS[name]}
        words = [*(word for word in COMMON if word.partition("=")[0] not in changed), *RUNS[name], f"name={name}"]
        script = str(self.root / "src" / "train.py")
        force = ["-c", FORCE_PACKING, self.module_of_packs()] if name == "packed" else []
        return [sys.executable, *force, script, *words]

    def module_of_packs(self) -> str:
        """The module that defines `packs`."""
        src = self.root / "src"
        found = [path for path in src.rglob("*.py") if re.search(r"^def packs\(", path.read_text(), re.MULTILINE)]
        if len(found) != 1:
            raise RuntimeError(f"{src} defines packs() {len(found)} times, not once: adapt FORCE_PACKING.")
        return ".".join(found[0].relative_to(src).with_suffix("").parts)

    def start(self, name: str) -> "subprocess.Popen[str]":
        """Start a run as a user would."""
        drop = ("SLURM_", "WANDB_", "VARIATIONS_", "HYDRA_")
        environment = {key: value for key, value in os.environ.items() if not key.startswith(drop)}
        environment |= {"PYTHONPATH": str(self.root / "src"), "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
        pipe = subprocess.PIPE
        command = self.command(name)
        return subprocess.Popen(command, cwd=self.work, env=environment, stdout=pipe, stderr=pipe, text=True)

    def run(self, name: str) -> Path:
        """Run to the end; returns the run's folder."""
        if name == "resume":
            with self.start(name) as process:
                stop_after(process, self.work / "runs" / "single" / name / "seed1" / "metrics.jsonl")
        with self.start(name) as process:
            output = finish(process, 0)
        return self.work / output.splitlines()[-1]


def stop_after(process: "subprocess.Popen[str]", metrics: Path) -> None:
    """Stop a run by SIGTERM after `STOP_AT` updates."""
    while process.poll() is None and (not metrics.exists() or len(metrics.read_text().splitlines()) < STOP_AT):
        time.sleep(0.005)
    process.send_signal(signal.SIGTERM)
    finish(process, 128 + signal.SIGTERM)
    say(f"  stopped after {len(metrics.read_text().splitlines())} updates")


def finish(process: "subprocess.Popen[str]", code: int) -> str:
    """Wait for a command that must end with an exit code; returns its standard output."""
    try:
        output, errors = process.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()  # its ranks end with it
        raise
    if process.returncode != code:
        raise RuntimeError(f"exit code {process.returncode}, not {code}:\n{errors[-2000:]}")
    return output


def tensors(content: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """Name and SHA-256 (its first 16 digits) of each tensor in nested containers."""
    import torch

    if isinstance(content, torch.Tensor):
        raw = content.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
        described = f"{content.dtype} {tuple(content.shape)} ".encode()
        yield name, hashlib.sha256(described + raw).hexdigest()[:16]
    elif isinstance(content, dict):
        for key, value in content.items():
            yield from tensors(value, f"{name}.{key}".lstrip("."))
    elif isinstance(content, list | tuple):
        for key, value in enumerate(content):
            yield from tensors(value, f"{name}.{key}")


def read_weights(folder: Path) -> dict[str, dict[str, str]]:
    """Tensors of the newest checkpoint of each kind, and of all weights to be averaged: digests by `file: part`."""
    import torch

    numbered: dict[str, list[tuple[int, Path]]] = {}
    for path in folder.iterdir():
        if match := re.fullmatch(r"(\D+)(\d+)\.\w+", path.name):
            numbered.setdefault(match[1], []).append((int(match[2]), path))
    kept = [file for kind, files in numbered.items() for file in sorted(files)[0 if kind == "weights" else -1 :]]
    parts: dict[str, dict[str, str]] = {}
    for _, path in sorted(kept, key=lambda file: file[1].name):
        for name, digest in tensors(torch.load(path, map_location="cpu", weights_only=True)):
            part, _, rest = name.partition(".")
            parts.setdefault(f"{path.name}: {part}", {})[rest] = digest
    return parts


def flat(content: Any, name: str = "") -> dict[str, Any]:
    """Nested containers as one dictionary with dotted keys."""
    if isinstance(content, list):
        content = {str(place): value for place, value in enumerate(content)}
    if not isinstance(content, dict):
        return {name: content}
    items = [(key, value) for key, value in content.items() if key not in TIMED]
    return {path: leaf for key, value in items for path, leaf in flat(value, f"{name}.{key}".lstrip(".")).items()}


def read_run(folder: Path) -> dict[str, Any]:
    """The results of a finished run."""
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    texts = {path.name: path.read_text(encoding="utf-8") for path in sorted((folder / "hypotheses").iterdir())}
    weights = read_weights(folder / "checkpoints")
    return {
        "metrics": {str(line["step"]): flat(line) for line in lines},
        "result": flat(json.loads((folder / "result.json").read_text())),
        "hypotheses": {
            name: {"sha256": hashlib.sha256(text.encode()).hexdigest(), "text": text.splitlines()}
            for name, text in texts.items()
        },
        # without names and order, which a renamed or reordered network does not change
        "weights_sha256": {part: summed(digests.values()) for part, digests in weights.items()},
        "weights": weights,
    }


def summed(digests: Any) -> str:
    """SHA-256 of a collection of digests in any order."""
    return hashlib.sha256("\n".join(sorted(digests)).encode()).hexdigest()


def machine() -> dict[str, str]:
    """Other things on which the last bits depend."""
    import torch

    return {
        "torch": torch.__version__,
        "python": platform.python_version(),
        "cpu": f"{platform.machine()} {torch.backends.cpu.get_cpu_capability()}",
    }


def record(out: Path, root: Path, only: list[str], work: Path | None) -> int:
    """Make the runs in a checkout and write their results to `out`; returns the exit code."""
    names, runs = only or list(RUNS), dict[str, Any]()
    git = ["git", "-C", str(root)]
    commit = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
    changed = subprocess.run([*git, "status", "--porcelain"], capture_output=True, text=True, check=True).stdout != ""
    with tempfile.TemporaryDirectory(prefix="proof-") as temporary:
        checkout = Checkout(root.resolve(), (work or Path(temporary)).resolve())
        write_corpus(checkout.work / "corpus")
        for place, name in enumerate(names, 1):
            began = time.monotonic()
            try:
                runs[name] = read_run(checkout.run(name))
                twin = runs.get(TWIN.get(name, ""), {"error": "there is none"})
                if "error" not in twin and (found := list(differences(twin, runs[name]))):
                    runs[name] = {"error": f"differs from {TWIN[name]}: {found[0]}"}
            except (RuntimeError, OSError, subprocess.TimeoutExpired) as error:
                runs[name] = {"error": str(error)}
            done = "failed" if "error" in runs[name] else "done"
            say(f"{place}/{len(names)} {name}: {done}, {time.monotonic() - began:.1f} s")
    content = {"commit": commit, "changed": changed, "machine": machine(), "runs": runs}
    out.with_suffix(".tmp").write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    out.with_suffix(".tmp").replace(out)
    failed = {name: run["error"] for name, run in runs.items() if "error" in run}
    for name, reason in failed.items():
        say(f"{name}: {reason}")
    return 1 if failed else 0


def differences(one: dict[str, Any], other: dict[str, Any]) -> Iterator[str]:
    """The differences between two runs in words, one line for each kind."""
    if one["metrics"].keys() != other["metrics"].keys():
        yield f"metrics: {len(one['metrics'])} lines, {len(other['metrics'])} lines"
    first: dict[str, str] = {}
    for step in one["metrics"].keys() & other["metrics"].keys():
        one_line, other_line = one["metrics"][step], other["metrics"][step]
        for key, told in unequal(one_line, other_line):
            if key not in first or int(step) < int(first[key].split()[1].rstrip(":")):
                first[key] = f"step {step}: {told}"
    for key, told in sorted(first.items()):
        yield f"{key}: first differs at {told}"
    for part, told in unequal(one["weights_sha256"], other["weights_sha256"]):
        names = [name for name, _ in unequal(one["weights"].get(part, {}), other["weights"].get(part, {}))]
        yield f"values of {part}: {told}; {len(names)} tensors, the first is {names[0]}"
    for name, (here, there) in both(one["hypotheses"], other["hypotheses"]):
        if here != there:
            lines = first_unequal(*(side["text"] if side else [] for side in (here, there)))
            yield f"hypotheses/{name}: {lines[0]!r}, {lines[1]!r}"
    for key, told in unequal(one["result"], other["result"]):
        yield f"result {key}: {told}"


def renamed(one: dict[str, Any], other: dict[str, Any]) -> Iterator[str]:
    """The tensors that have the same values under other names."""
    for part, (here, there) in both(one["weights"], other["weights"]):
        if here and there and here != there and Counter(here.values()) == Counter(there.values()):
            names = [name for name, _ in unequal(here, there)]
            yield f"names in {part}: {', '.join(names[:4])}{', …' if len(names) > 4 else ''}; values are the same"


def both(one: dict[str, Any], other: dict[str, Any]) -> Iterator[tuple[str, tuple[Any, Any]]]:
    """Pairs of values under the same key; None if a side has no such key."""
    for key in dict.fromkeys([*one, *other]):
        yield key, (one.get(key), other.get(key))


def unequal(one: dict[str, Any], other: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Keys with other values, and these values."""
    for key, (here, there) in both(one, other):
        if json.dumps(here) != json.dumps(there):  # a NaN is equal to itself
            told = [repr(side[key]) if key in side else "missing" for side in (one, other)]
            yield key, ", ".join(told)


def first_unequal(one: list[str], other: list[str]) -> tuple[str | None, str | None]:
    """The first lines that differ."""
    padded = [*one, *[None] * len(other)], [*other, *[None] * len(one)]
    return next(pair for pair in zip(*padded, strict=True) if pair[0] != pair[1])


def compare(one: Path, other: Path, only: list[str]) -> int:
    """Print what differs between two records; returns the exit code."""
    here, there = (json.loads(path.read_text(encoding="utf-8")) for path in (one, other))
    for record, path in ((here, one), (there, other)):
        print(f"{path}: commit {record['commit'][:12]}{' with changes' if record['changed'] else ''}")
    if here["machine"] != there["machine"]:
        print(f"warning: the machines differ, so the last bits may: {here['machine']}, {there['machine']}")
    wrong = 0
    for name, (before, after) in both(here["runs"], there["runs"]):
        if only and name not in only:
            continue
        if before is None or after is None:
            found, notes = [f"only in {one if after is None else other}"], list[str]()
        elif errors := [f"{run['error']}" for run in (before, after) if "error" in run]:
            found, notes = errors, list[str]()
        else:
            found, notes = list(differences(before, after)), list(renamed(before, after))
        wrong += bool(found)
        print(f"{name}: {'differs' if found else 'renamed' if notes else 'the same'}")
        for line in [*found, *notes]:
            print(f"  {line}")
    print(f"{wrong} runs differ." if wrong else "Nothing differs.")
    return 1 if wrong else 0


def main() -> int:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    recording, comparing = verbs.add_parser("record"), verbs.add_parser("compare")
    recording.add_argument("out", type=Path)
    recording.add_argument("--checkout", type=Path, default=Path(__file__).resolve().parents[1])
    recording.add_argument("--work", type=Path, help="folder that keeps corpus, cache and runs; must be empty")
    comparing.add_argument("one", type=Path)
    comparing.add_argument("other", type=Path)
    for verb in (recording, comparing):
        verb.add_argument("--only", action="append", default=[], choices=list(RUNS), metavar="NAME")
    given = parser.parse_args()
    if given.verb == "compare":
        return compare(given.one, given.other, given.only)
    if given.work and given.work.exists() and any(given.work.iterdir()):
        parser.error(f"{given.work} is not empty: finished runs would not be repeated.")
    return record(given.out, given.checkout, given.only, given.work)


if __name__ == "__main__":
    sys.exit(main())
