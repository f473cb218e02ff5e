"""Kill data preparation (SIGKILL) at random moments with a cold cache; the next process must produce the same data.

    python tests/torture_preparation.py --kills 30

Each preparation starts with an empty cache: it downloads archives (a small WMT 2014 from a slow server on loopback),
unpacks and joins them, surveys the corpus, trains a vocabulary and stores the text as ids. Every other time, a second
process prepares the same data concurrently and must take over. Every process is forked from this one, which has already
imported everything needed.
"""

import argparse
import hashlib
import os
import random
import re
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import ThreadingHTTPServer
from pathlib import Path
from unittest import mock

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))
sys.path.insert(0, str(Path(__file__).resolve().parent / "support"))

import loopback

from variations.configuration.compose import compose_run
from variations.data.transfer import Remote
from variations.tasks.translation.config import TranslationConfig
from variations.tasks.translation.data import wmt14
from variations.tasks.translation.data.module import TranslationData

PATIENCE = 120.0
"""Seconds after which an unfinished process counts as hung."""
SIZES = {"EUROPARL": 2000, "COMMON_CRAWL": 1500, "NEWS_COMMENTARY": 500, "NEWSTEST2013": 50, "NEWSTEST2014": 50}
"""Number of pairs in each archive."""
PAUSE = 0.02
"""Seconds between two chunks of a download."""
MOMENTS = ("downloading", "unpacking or joining", "surveying", "training sub-words", "storing ids")
LATEST = 0.1
"""Maximum seconds between the start of such a phase and the kill."""


def corpora() -> dict[str, bytes]:
    """Return a WMT 2014 of a few thousand short pairs, as archives by name."""
    rng = random.Random(5)

    def pairs(size: int) -> tuple[list[str], list[str]]:
        lines = [[f"w{rng.randrange(400)}" for _ in range(rng.randint(3, 9))] for _ in range(size)]
        return [" ".join(line) for line in lines], [f"{' '.join(reversed(line))} ." for line in lines]

    archives = {}
    for name, size in SIZES.items():
        part, members = getattr(wmt14, name), {}
        for side, lines in enumerate(pairs(size)):
            member = wmt14._member(part, "de" if side else "en", "de", side)
            mark = "<seg>{}</seg>\n" if member.endswith(".sgm") else "{}\n"
            members[member] = "".join(mark.format(line) for line in lines).encode()
        archives[f"/{name}.tgz"] = loopback.packed(members)
    return archives


@contextmanager
def served(archives: dict[str, bytes]) -> Iterator[None]:
    """Serve `data=wmt14_en_de` from a slow server on loopback, in a separate process."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), loopback.handler(loopback.Site(files=archives, pause=PAUSE)))
    child = os.fork()
    if child == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # hide errors about killed clients
        server.serve_forever()
        os._exit(0)
    url = f"http://127.0.0.1:{server.server_address[1]}"
    server.server_close()
    parts = {
        name: wmt14.Part(Remote(f"{url}/{name}.tgz"), getattr(wmt14, name).member, getattr(wmt14, name).target_member)
        for name in SIZES
    }
    training = [parts[name] for name in SIZES if not name.startswith("NEWSTEST")]
    try:
        with mock.patch.multiple(wmt14, **parts, TRAIN={"de": training}, SPACE={"de": 1_000_000}):
            yield
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def prepare(config: TranslationConfig) -> int:
    """Prepare the data in a new process; return the process id."""
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
    """Wait up to `PATIENCE` seconds for a process; return its exit code, or the negative number of its signal.

    Raises:
        TimeoutError: The process hangs.
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
    """Return the SHA-256 of every file in the cache, ignoring locks and the modification times of archives."""

    def lasting(path: Path) -> bytes:
        return re.sub(rb'"mtime_ns": \d+', b"", path.read_bytes()) if path.suffix == ".json" else path.read_bytes()

    def name(path: Path) -> str:  # survey names depend on the modification times of the surveyed files
        return "surveys/of the text" if path.parent.name == "surveys" else path.relative_to(cache).as_posix()

    return {
        name(path): hashlib.sha256(lasting(path)).hexdigest()
        for path in sorted(cache.rglob("*"))
        if path.is_file() and path.suffix != ".lock"
    }


def moment(cache: Path) -> str:
    """Infer the current phase from the files in a cache."""
    if any(cache.glob("tokens/*.tmp-*")):
        return "storing ids"
    if any(cache.glob("subwords/*.tmp-*")):
        return "training sub-words"
    if (cache / "wmt14" / "en-de").exists():
        return "surveying" if not any(cache.glob("surveys/*.json")) else "between two of these"
    if any(cache.glob("downloads/wmt14/*.part")):
        return "downloading"
    return "unpacking or joining" if any(cache.glob("wmt14/.en-de.tmp/*")) else "between two of these"


def strike(victim: int, cache: Path, wanted: str, rng: random.Random) -> str:
    """Kill a process soon after it, or a rival, has begun the wanted phase; return the phase at the kill."""
    while moment(cache) != wanted and os.waitid(os.P_PID, victim, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        time.sleep(0.001)
    time.sleep(rng.choice([0, rng.uniform(0, LATEST)]))  # at once in half of the cases: a phase may be short
    done = moment(cache)
    os.kill(victim, signal.SIGKILL)
    return done if end_of(victim) == -signal.SIGKILL else "nothing: the process had already ended"


def main() -> int:
    """Kill the preparation, let the next process finish, and compare the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    rng, met, faults = random.Random(arguments.seed), Counter[str](), []
    with tempfile.TemporaryDirectory() as folder, served(corpora()):
        cache = Path(folder, "cache")
        words = ["data=wmt14_en_de", "trainer.progress=false", f"data.cache={cache}", "data.vocabulary=300"]
        config = compose_run([*words, "logger=none", f"runs={folder}"])
        began = time.monotonic()
        if end_of(prepare(config)):
            raise RuntimeError("the preparation fails without a kill")
        whole, expected = time.monotonic() - began, contents(cache)
        for kill in range(arguments.kills):
            shutil.rmtree(cache)
            victim = prepare(config)
            rival = prepare(config) if kill % 2 else None
            met[strike(victim, cache, MOMENTS[kill // 2 % len(MOMENTS)], rng)] += 1
            for code in (end_of(rival) if rival is not None else 0, end_of(prepare(config))):
                if code:
                    faults.append(f"kill {kill + 1}: a process after it ended with code {code}")
            if (found := contents(cache)) != expected:
                names = sorted(name for name in found.keys() | expected.keys() if found.get(name) != expected.get(name))
                faults.append(f"kill {kill + 1}: other contents or remnants: {', '.join(names)}")
    print(f"kills (SIGKILL): {arguments.kills}, every other one with a rival; without kills: {whole:.2f} s; phases hit")
    for what, count in met.most_common():
        print(f"{count:5d} {what}")
    print("\n".join(faults) or f"each time the same {len(expected)} files, no remnants, no hang")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
