"""The settings of `hydra/launcher=slurm` and `=ray`, with all faults reported at once. Imports nothing heavy."""

import re
from dataclasses import dataclass, field
from typing import Any

OPTION = re.compile(r"[a-z][a-z0-9-]*")
MODULE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+/-]*")
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
OURS = ("array", "comment", "job-name", "nodes", "ntasks", "ntasks-per-node", "output", "error", "open-mode", "signal")
"""Options of sbatch that the pool sets itself."""


@dataclass
class SlurmSettings:
    """What a run's job requests; null: the cluster's default."""

    partition: str | None = None
    """The partition whose machines are used, as for `sbatch`."""
    account: str | None = None
    """The account that is charged, as for `sbatch`."""
    qos: str | None = None
    """The quality of service, as for `sbatch`."""
    time_min: int = 24 * 60
    """Time limit of a job in minutes; the run saves before it, and is requeued."""
    mem_gb: float | None = None
    """Memory on each machine."""
    cpus: int = 4
    """CPU cores for each device, or on a CPU for each process."""
    gpus_per_node: int | None = None
    """null: trainer.devices of runs with trainer.accelerator=gpu, else none."""
    array_parallelism: int = 32
    """Runs of an array that are executed at the same time."""
    signal_delay_s: int = 120
    """Seconds before the time limit at which a run is told to finish its update and save."""
    modules: list[str] = field(default_factory=list)
    """Modules for `module load`, in this order."""
    environment: Any = None
    """Variables to set, as {NAME: value}."""
    additional: Any = None
    """Further options of sbatch, such as {constraint: a100}."""
    poll_s: float = 10.0
    """Seconds between queries to Slurm; one query covers all runs."""

    def faults(self) -> list[str]:
        """Return what is wrong with the values."""
        at = "hydra.launcher."
        found = [
            f"{at}{name}={getattr(self, name)}: must be at least {least}."
            for name, least in {
                "time_min": 1, "cpus": 1, "array_parallelism": 1, "signal_delay_s": 1, "gpus_per_node": 0, "poll_s": 0.1
            }.items()
            if getattr(self, name) is not None and getattr(self, name) < least
        ]  # fmt: skip
        if self.mem_gb is not None and self.mem_gb <= 0:
            found.append(f"{at}mem_gb={self.mem_gb}: must be greater than 0.")
        if self.signal_delay_s >= 60 * self.time_min:
            found.append(
                f"{at}signal_delay_s={self.signal_delay_s}: must be less than the time limit, "
                f"time_min={self.time_min} minutes."
            )
        found += [f"{at}modules: '{m}' cannot be the name of a module." for m in self.modules if not _is(MODULE, m)]
        found += _variable_faults(self.environment)
        return found + self._option_faults(at)

    def _option_faults(self, at: str) -> list[str]:
        found = _table_faults("additional", self.additional)
        additional = {} if found else dict(self.additional or {})
        values = {"partition": self.partition, "account": self.account, "qos": self.qos} | additional
        for name, value in values.items():
            key = str(name).replace("_", "-")
            where = f"{at}{name}" if name not in additional else f"{at}additional: {name}"
            if not _is(OPTION, key):
                found.append(
                    f"{where}: is not an option of sbatch; write it as in sbatch's manual, without the dashes."
                )
            elif name in additional and key in OURS:
                found.append(f"{where}: the launcher sets it; leave it out.")
            elif not isinstance(value, str | int | float | bool | None) or "\n" in str(value):
                found.append(f"{where}: must be a word, a number or true, on one line.")
        return found


def _is(pattern: re.Pattern[str], text: object) -> bool:
    return isinstance(text, str) and pattern.fullmatch(text) is not None


def _table_faults(name: str, value: object) -> list[str]:
    # These keys are untyped, because Hydra adds no new name to an empty typed dictionary.
    good = value is None or (isinstance(value, dict) and all(isinstance(key, str) for key in value))
    return [] if good else [f"hydra.launcher.{name}={value}: write names and values, as {{name: value}}."]


def _variable_faults(value: object) -> list[str]:
    found = _table_faults("environment", value)
    if isinstance(value, dict) and not found:
        wrong = [name for name in value if not _is(VARIABLE, name)]
        found += [f"hydra.launcher.environment: '{name}' cannot be the name of a variable." for name in wrong]
        wrong = [name for name, text in value.items() if not isinstance(text, str | int | float)]
        found += [f"hydra.launcher.environment: {name} must be a word or a number." for name in wrong]
    return found


@dataclass
class RaySettings:
    """Where Ray runs, and what each run reserves."""

    address: str | None = None
    """`auto` or `host:port` of a cluster; null: a Ray instance on this machine, which ends with the sweep."""
    cpus: float = 1.0
    """CPU cores for each device, or on a CPU for each process."""
    gpus: float | None = None
    """GPUs for each device, such as 0.5 for two runs on one GPU; null: 1 if trainer.accelerator=gpu, otherwise none."""
    mem_gb: float | None = None
    """Memory that Ray reserves for a run; null: none."""
    resources: Any = None
    """Further resources that the cluster's machines offer, such as {a100: 1}."""
    num_cpus: int | None = None
    """Cores that a Ray instance on this machine may use; null: all."""
    num_gpus: int | None = None
    """GPUs that a Ray instance on this machine may use; null: all."""
    environment: Any = None
    """Variables to set, as {NAME: value}."""
    detach: bool = True
    """true: on a cluster, runs continue after Ctrl-C; false: they save and end, as on this machine."""
    start_s: float = 60.0
    """Seconds within which a cluster at `host:port` must answer."""

    def faults(self) -> list[str]:
        """Return what is wrong with the values."""
        at = "hydra.launcher."
        found = []
        for name in ("cpus", "gpus", "mem_gb", "num_cpus", "num_gpus", "start_s"):
            value = getattr(self, name)
            if value is not None and value < 0:
                found.append(f"{at}{name}={value}: must not be less than 0.")
        if self.gpus is not None and self.gpus > 1 and self.gpus != int(self.gpus):
            found.append(f"{at}gpus={self.gpus}: only a single GPU can be shared: above 1, write a whole number.")
        if self.address is not None and (self.num_cpus is not None or self.num_gpus is not None):
            found.append(
                f"{at}num_cpus and num_gpus: are for a Ray instance on this machine; a cluster has its "
                "own: leave them out."
            )
        found += _table_faults("resources", self.resources)
        if isinstance(self.resources, dict):
            wrong = [name for name, n in self.resources.items() if not isinstance(n, int | float) or n <= 0]
            found += [f"{at}resources: {name} must be a number above 0." for name in wrong]
        found += _variable_faults(self.environment)
        return found
