"""Runs on a Ray cluster, or on a Ray instance of this machine that ends with the sweep.

A run is a named, detached actor, so a restarted sweep finds it again. Ray never retries: only the sweep decides what
has failed, and no run is executed twice.
"""

import logging
import os
import secrets
import socket
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from variations.configuration.extras import need
from variations.store.atomic import read_object
from variations.store.process_identity import Process
from variations.sweeping.pool import Ended, PooledRun
from variations.sweeping.settings import RaySettings
from variations.sweeping.supervise import uses_gpus
from variations.system.errors import ConfigError, UserError

NAMESPACE = "variations"
LOOK = 1.0
"""Seconds between queries to Ray."""
MOST = 256
"""Largest number of runs that are queued or running in a cluster."""
STARTS = 3
STORE_BYTES = 100 * 1024**2
"""Object store of a Ray instance on this machine; runs exchange nothing through it."""


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")


@dataclass
class RayPool:
    """A pool in Ray.

    Raises:
        ConfigError: Settings are invalid.
        UserError: Ray is not installed, or the cluster does not answer.
    """

    settings: RaySettings
    runs: Path
    """Root of the run store; notes are kept in `.ray/` below it. All machines must see it."""
    say: Callable[[str], None] = _say
    name: str = "ray"
    _watched: dict[str, PooledRun] = field(default_factory=dict)
    _alive: frozenset[str] = frozenset()
    _looked: float = float("-inf")

    def __post_init__(self) -> None:
        if found := self.settings.faults():
            raise ConfigError(found)
        self._folder = self.runs.expanduser().absolute() / ".ray"
        self._own = self.settings.address is None
        self._ray = connected(self.settings)
        where = Process.of().key if self._own else str(self._ray.get_runtime_context().gcs_address)
        self._cluster = f"{where}#"

    @property
    def outlives(self) -> bool:
        """See `Pool`: on a cluster, unless `detach` is off."""
        return not self._own and self.settings.detach

    def room(self) -> int:
        """See `Pool`."""
        return MOST - len(self._watched)

    def submit(self, run: PooledRun) -> str:
        """See `Pool`."""
        from variations.sweeping.ray_actor import RunActor

        word = secrets.token_hex(8)
        options = self._options(run)
        self._refuse_impossible(options)
        actor = self._ray.remote(RunActor).options(
            name=word, namespace=NAMESPACE, lifetime="detached", max_restarts=0, max_task_retries=0, **options
        )
        key = self._cluster + word
        actor.remote(str(run.folder), str(self._note(word)), key)
        self._watched[key] = run
        self._looked = float("-inf")
        return key

    def alive(self, key: str) -> bool | None:
        """See `Pool`."""
        if self._note(key.rpartition("#")[2]).exists():
            return False
        word = self._word(key)
        if word is not None:
            self._look()
            return word in self._alive
        # A Ray instance of another sweep, which ends with that sweep; it may be waiting for one of our runs.
        other = Process.from_key(key.partition("#")[0])
        return None if other is None else other.alive()

    def adopt(self, run: PooledRun, key: str) -> None:
        """See `Pool`."""
        self._watched[key] = run

    def ended(self) -> list[Ended]:
        """See `Pool`."""
        return [self._end(key) for key in list(self._watched) if self.alive(key) is False]

    def stop(self) -> None:
        """See `Pool`: on a cluster, runs continue unless `detach` is off."""
        if self.outlives:
            if count := len(self._watched):
                self.say(
                    f"{count} run{'s' if count > 1 else ''} continue{'' if count > 1 else 's'} in the Ray cluster. The "
                    "same command follows them again; if it has hydra.launcher.detach=false, Ctrl-C ends them."
                )
            return
        try:
            self._wait_for_end()
        except KeyboardInterrupt:
            for actor in self._actors():
                self._ray.kill(actor)
            self._looked = float("-inf")

    # Details --------------------------------------------------------------------------------------------------------

    def _options(self, run: PooledRun) -> dict[str, Any]:
        chosen = self.settings
        each = chosen.gpus if chosen.gpus is not None else float(uses_gpus(run.folder))
        gpus = each * run.devices
        options: dict[str, Any] = {
            "num_cpus": chosen.cpus * run.devices,
            "num_gpus": int(gpus) if gpus >= 1 else gpus,
            "resources": dict(chosen.resources or {}),
            "runtime_env": {"env_vars": _variables(chosen)},
        }
        if chosen.mem_gb is not None:
            options["memory"] = int(chosen.mem_gb * 1024**3)
        return options

    def _refuse_impossible(self, options: dict[str, Any]) -> None:
        """Refuse a run that Ray on this machine can never start; a cluster may still grow."""
        offered = self._ray.cluster_resources() if self._own else {}
        wanted = {"CPU": options["num_cpus"], "GPU": options["num_gpus"], "memory": options.get("memory", 0)}
        wanted |= options["resources"]
        short = [name for name, count in wanted.items() if self._own and count > offered.get(name, 0)]
        if short:
            listed = ", ".join(f"{wanted[name]:g} {name}, of {offered.get(name, 0):g}" for name in short)
            raise UserError(
                f"hydra/launcher=ray: a run requests {listed} here: see hydra.launcher.cpus, gpus and mem_gb."
            )

    def _word(self, key: str) -> str | None:
        """The actor's name in a key of this cluster; None for others."""
        return key.removeprefix(self._cluster) if key.startswith(self._cluster) else None

    def _note(self, word: str) -> Path:
        return self._folder / f"{word}.json"

    def _look(self) -> None:
        if time.monotonic() - self._looked < LOOK:
            return
        self._looked = time.monotonic()
        self._alive = frozenset(self._ray.util.list_named_actors())

    def _end(self, key: str) -> Ended:
        run = self._watched.pop(key)
        note = read_object(self._note(key.rpartition("#")[2]))
        if note is None:
            return Ended(
                run,
                None,
                "its Ray actor left no note: it was killed, memory ran out, its machine failed, or the disk is full",
            )
        return Ended(run, note.get("code"), str(note.get("reason") or ""))

    def _actors(self) -> Iterator[Any]:
        for key in self._watched:
            word = self._word(key)
            if word is None:
                continue
            try:
                yield self._ray.get_actor(word)
            except ValueError:  # it has just ended
                continue

    def _wait_for_end(self) -> None:
        for actor in self._actors():
            actor.stop.remote()
        while any(self.alive(key) for key in self._watched if self._word(key) is not None):
            time.sleep(0.2)


def connected(settings: RaySettings) -> Any:
    """Return the module `ray`, connected.

    Raises:
        UserError: Ray is not installed, or does not answer.
    """
    need("ray", "hydra/launcher=ray")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_worker_niceness", "0")  # with Ray's own 15, other work would starve the rows
    if settings.address is not None and _has_token():
        os.environ.setdefault("RAY_AUTH_MODE", "token")  # by default, Ray uses no token when it joins a cluster
    import ray

    common: dict[str, Any] = {"namespace": NAMESPACE, "log_to_driver": False, "logging_level": logging.ERROR}
    try:
        if settings.address is None:
            _start(ray, settings, common)
        else:
            _reach(settings.address, settings.start_s)
            # The resources of an existing cluster must not be given again: no object_store_memory here.
            ray.init(address=settings.address, **common)
    except Exception as error:  # Ray raises many kinds, also Exception itself
        where = settings.address or "this machine"
        raise UserError(
            f"hydra/launcher=ray: Ray on {where} does not answer ({_first_line(error)}): start one with `ray start "
            "--head`, name its hydra.launcher.address, or leave the address out for a Ray instance on this machine. A "
            "cluster with token authentication needs its token in RAY_AUTH_TOKEN or ~/.ray/auth_token."
        ) from error
    return ray


def _start(ray: Any, settings: RaySettings, common: dict[str, Any]) -> None:
    """Start Ray on this machine; try again if it exceeds its limit of 30 s, which is short for a busy machine."""
    for more in range(STARTS - 1, -1, -1):
        try:
            ray.init(
                address="local",
                num_cpus=settings.num_cpus,
                num_gpus=settings.num_gpus,
                include_dashboard=False,
                object_store_memory=STORE_BYTES,
                **common,
            )
            return
        except Exception as error:
            ray.shutdown()
            if not more or "timed out during startup" not in str(error):
                raise


def _has_token() -> bool:
    places = [os.environ.get("RAY_AUTH_TOKEN_PATH"), str(Path("~/.ray/auth_token").expanduser())]
    return bool(os.environ.get("RAY_AUTH_TOKEN")) or any(place and Path(place).is_file() for place in places)


def _reach(address: str, seconds: float) -> None:
    """Check whether anything listens at `host:port`; Ray itself would keep trying for many minutes."""
    host, _, port = address.rpartition(":")
    if host and port.isdigit() and "//" not in host:
        socket.create_connection((host, int(port)), timeout=seconds).close()


def _variables(settings: RaySettings) -> dict[str, str]:
    source = str(Path(__file__).resolve().parents[2])
    paths = os.pathsep.join(filter(None, [source, os.environ.get("PYTHONPATH")]))
    threads = str(max(1, int(settings.cpus)))
    return {
        "PYTHONPATH": paths,
        "OMP_NUM_THREADS": threads,
        **{name: str(value) for name, value in (settings.environment or {}).items()},
    }


def _first_line(error: BaseException) -> str:
    return next((line.strip().rstrip(".") for line in str(error).splitlines() if line.strip()), type(error).__name__)
