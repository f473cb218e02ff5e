"""Kill the preparation of data (SIGKILL) at random moments with a cold cache; what the next process makes is the same.

    python tests/torture_preparation.py --kills 30

Each kill meets an empty cache, in which the corpus is surveyed, a vocabulary trained and the text stored as ids. Every
other time a second process wants the same at the same moment and must take over. Every process is forked from this one,
which has imported all that is needed.
"""

import argparse
import hashlib
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from variations.configuration.compose import compose_run
from variations.tasks.translation.config import TranslationConfig
from variations.tasks.translation.data.module import TranslationData

PATIENCE = 120.0
"""Seconds after which a process that is still at it hangs."""


def corpus(folder: Path, pairs: int = 4000) -> Path:
    """Some thousand short pairs."""
    folder.mkdir(parents=True)
    rng = random.Random(5)
    for name, size in {"train": pairs, "valid": 50, "test": 50}.items():
        lines = [[f"w{rng.randrange(400)}" for _ in range(rng.randint(3, 9))] for _ in range(size)]
        (folder / f"{name}.en").write_text("".join(f"{' '.join(line)}\n" for line in lines))
        (folder / f"{name}.de").write_text("".join(f"{' '.join(reversed(line))} .\n" for line in lines))
    return folder


def prepare(config: TranslationConfig) -> int:
    """Prepare the data in a process of its own, and return its number."""
    child = os.fork()
    if child:
        return child
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        TranslationData(config).prepare_data()
        os._exit(0)
    finally:
        os._exit(1)


def end_of(child: int) -> int:
    """Wait for a process, but not for ever; return its exit code, negative: by that signal.

    Raises:
        TimeoutError: it hangs.
    """
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    raise TimeoutError(f"the preparation hung for {PATIENCE:.0f} s")


def contents(cache: Path) -> dict[str, str]:
    """SHA-256 of every file of the cache, locks apart."""
    return {
        path.relative_to(cache).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(cache.rglob("*"))
        if path.is_file() and path.suffix != ".lock"
    }


def main() -> int:
    """Kill, let the next process finish, compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    rng, met, faults = random.Random(arguments.seed), 0, []
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        cache = place / "cache"
        words = [
            "data=files",
            "trainer.progress=false",
            f"data.root={corpus(place / 'corpus')}",
            f"data.cache={cache}",
            "data.vocabulary=300",
        ]
        config = compose_run([*words, "logger=none", f"runs={place}"])
        began = time.monotonic()
        if end_of(prepare(config)):
            raise RuntimeError("the preparation fails even when nobody disturbs it")
        whole, expected = time.monotonic() - began, contents(cache)
        for kill in range(arguments.kills):
            shutil.rmtree(cache)
            victim = prepare(config)
            rival = prepare(config) if kill % 2 else None
            time.sleep(rng.uniform(0, whole))
            os.kill(victim, signal.SIGKILL)
            met += end_of(victim) == -signal.SIGKILL
            for code in (end_of(rival) if rival is not None else 0, end_of(prepare(config))):
                if code:
                    faults.append(f"kill {kill + 1}: a process after it ended with code {code}")
            if (found := contents(cache)) != expected:
                names = sorted(name for name in found.keys() | expected.keys() if found.get(name) != expected.get(name))
                faults.append(f"kill {kill + 1}: other contents or remnants: {', '.join(names)}")
    print(f"kills (SIGKILL): {arguments.kills}, of which {met} met a process at work; undisturbed: {whole:.2f} s")
    print("\n".join(faults) or f"each time the same {len(expected)} files, no remnants, no hang")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
