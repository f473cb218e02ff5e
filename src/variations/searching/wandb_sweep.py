"""A sweep in the format of W&B's own agents: `python src/plan.py sweep=NAME format=wandb`.

Each agent calls `train.py` with one combination, so that runs have the same folders, configurations and results as
with `--multirun`. W&B keeps no leases and does not retry.
"""

import math
from collections.abc import Sequence
from typing import Any

import yaml

from variations.configuration.places import IN_CHECKOUT, spelled
from variations.configuration.tasks import named
from variations.searching.definition import Definition, define, is_search
from variations.searching.space import Dimension
from variations.system.errors import ConfigError

METHODS = {"grid": "grid", "random": "random", "tpe": "bayes", "gp": "bayes"}


def sweep_yaml(arguments: Sequence[str]) -> str:
    """The YAML for `wandb sweep FILE`.

    Args:
        arguments: As for `train.py --multirun`, without the plan's own keys.

    Raises:
        ConfigError: It is neither a table's sweep nor a search, has faults, or cannot be expressed for W&B.
    """
    own = [line for line in arguments if not line.startswith(("hydra/", "hydra."))]
    if is_search(own):
        facts = _search(define(tuple(own)))
    elif any(line.startswith("sweep=") for line in own):
        facts = _table(own)
    else:
        raise ConfigError(["format=wandb writes a sweep: name one with sweep=NAME."])
    return yaml.safe_dump(facts, sort_keys=False, allow_unicode=True, width=120)


def _table(arguments: list[str]) -> dict[str, Any]:
    from variations.configuration.compose import compose_run, loader
    from variations.sweeping.grid_jobs import by_key
    from variations.sweeping.jobs import expand
    from variations.sweeping.table_rows import table_rows

    jobs = expand(arguments)
    if crossed := [key for key, override in by_key(arguments, loader()).items() if override.is_sweep_override()]:
        told = f"leave out the keys with several values ({', '.join(crossed)}), or run them with train.py --multirun"
        raise ConfigError([f"format=wandb writes a table's rows: {told}."])
    names = dict(table_rows(compose_run(arguments)))
    rows = list(dict.fromkeys(job.row for job in jobs))
    seeds = list(dict.fromkeys(job.seed for job in jobs))
    fixed = [line for line in jobs[0].overrides if not line.startswith(("variation=", "seed="))]
    parameters = {"variation": {"values": [names[row] for row in rows]}, "seed": {"values": seeds}}
    sweep = jobs[0].config.sweep
    return _sweep(sweep.name or "", "grid", jobs[0].config.logger.project, fixed, parameters)


def _search(definition: Definition) -> dict[str, Any]:
    settings = definition.settings
    if settings.sampler not in METHODS or len(definition.objectives) > 1:
        raise ConfigError(
            [
                f"sweep.search.sampler={settings.sampler} with metrics {', '.join(settings.metrics)}: a sweep of W&B "
                "has one metric and the methods grid, random and bayes; run this search with train.py --multirun."
            ]
        )
    method = METHODS[settings.sampler]
    if method != "grid" and len(definition.seeds) > 1:
        raise ConfigError(
            [
                f"sweep.search.sampler={settings.sampler} with seeds {', '.join(map(str, definition.seeds))}: W&B "
                "judges each run by itself, and would choose among the seeds as well: type seeds=[1], or run this "
                "search with train.py --multirun."
            ]
        )
    parameters: dict[str, Any] = {dimension.key: _parameter(dimension) for dimension in definition.dimensions}
    parameters["seed"] = {"values": list(definition.seeds)}
    # Without the sweep's own keys each run is a single one, with a folder named by its configuration.
    fixed = [line for line in definition.overrides if not line.lstrip("+").startswith(("sweep=", "sweep.", "name="))]
    objective, project = definition.objectives[0], definition.base.logger.project
    task = named(definition.base.task)
    facts = _sweep(definition.name, method, project, fixed, parameters)
    facts["metric"] = {"name": metric_name(task, objective.key), "goal": objective.direction}
    cells = math.prod(dimension.cells() or 1 for dimension in definition.dimensions)
    if method != "grid" or definition.total < cells:
        facts["run_cap"] = definition.total * len(definition.seeds)
    if settings.pruner.kind == "hyperband" and validated(task, objective.key):  # validations log this metric
        # W&B counts the values of the metric that a run has logged, one a validation; eta is 3 as in Optuna.
        facts["early_terminate"] = {"type": "hyperband", "min_iter": 1, "eta": 3}
    return facts


def _sweep(name: str, method: str, project: str, fixed: list[str], parameters: dict[str, Any]) -> dict[str, Any]:
    facts: dict[str, Any] = {"name": name, "project": project, "method": method}
    start = spelled("train").split()
    if IN_CHECKOUT:
        facts["program"] = "src/train.py"
        start = ["${interpreter}", "${program}"]
    command = ["${env}", *start, *fixed, "${args_no_hyphens}"]
    return facts | {"parameters": parameters, "command": command}


def validated(task: Any, key: str) -> str | None:
    """The quantity in validations that is a dev metric: `dev/ppl` for `dev_ppl`; None if there is none."""
    if not key.startswith("dev"):
        return None
    found: str | None = task.watched(key)
    return found if task.measure(key).is_loss or found == key.replace(".", "/", 1) else None


def metric_name(task: Any, key: str) -> str:
    """The name of one of our metrics in W&B: `dev/bleu`, `dev/ppl`, `parameters`."""
    return validated(task, key) or key.replace(".", "/", 1)


def _parameter(dimension: Dimension) -> dict[str, Any]:
    if dimension.kind == "choice":
        return {"values": ["null" if choice is None else choice for choice in dimension.choices]}  # None is a word
    ends: dict[str, Any] = {"min": dimension.low, "max": dimension.high}
    if dimension.kind == "int" and dimension.log:
        return {"distribution": "q_log_uniform_values", **ends, "q": 1}
    if dimension.step is not None and (dimension.kind, dimension.step) != ("int", 1):
        cells = dimension.cells() or 1
        values = [dimension.exact(dimension.low + index * dimension.step) for index in range(cells)]
        return {"values": values}  # quantised distributions may leave the interval
    if dimension.kind == "int":
        return {"distribution": "int_uniform", **ends}
    return {"distribution": "log_uniform_values" if dimension.log else "uniform", **ends}
