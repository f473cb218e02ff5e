"""All faults of a command line in one message, before Hydra runs anything and before any folder is made."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from variations.config import Config
from variations.configuration.compose import compose_node, loader, to_config
from variations.configuration.faults import Fault, check
from variations.configuration.overrides import EVERYTHING, Screened, screen
from variations.configuration.spelling import spelled
from variations.errors import ConfigError, UserError
from variations.searching.definition import PLUGIN, define, is_search


def preflight(
    lines: Sequence[str],
    schema: type[Any],
    config_name: str,
    *,
    multirun: bool = False,
    runs_models: bool = False,
    extra_folder: str | None = None,
) -> list[str]:
    """Return every fault of a command line.

    Args:
        lines: The overrides as typed.
        schema: The verb's dataclass.
        config_name: The verb's primary configuration.
        multirun: Whether several runs are asked for.
        runs_models: Whether the verb trains, so that rules about single runs and grids hold.
        extra_folder: What `--config-dir` names.
    """
    screened = screen(lines, schema, loader(extra_folder), multirun=multirun)
    usable = [override.input_line or "" for override in screened.usable]
    others = [line for line in usable if line.startswith("hydra/sweeper=") and line != PLUGIN]
    if multirun and not others:
        later = _multirun_faults(usable, screened, extra_folder)
    else:
        kept = [o.input_line or "" for o in screened.usable if not o.is_sweep_override()]
        later = _single_faults(kept, screened, schema, config_name, extra_folder, runs_models and not multirun)
    return list(dict.fromkeys([*screened.faults, *later]))


def _single_faults(
    lines: Sequence[str],
    screened: Screened,
    schema: type[Any],
    config_name: str,
    extra_folder: str | None,
    runs_models: bool,
) -> list[str]:
    try:
        node, _ = compose_node(lines, config_name=config_name, extra_folder=extra_folder)
        config = to_config(node, schema)
    except ConfigError as error:
        return error.faults
    found = check(config)
    if isinstance(config, Config) and config.sweep.name is not None and not runs_models:
        found = [fault for fault in found if len(fault.keys) == 1]  # other rules hold for its rows, not for this
    if runs_models and isinstance(config, Config):
        found += _run_faults(config)
        found += _useless_branch(lines, [config]) or (_unequal_text([config]) if not found else [])
    return [fault.text for fault in found if not screened.doubts(fault.keys)]


def _multirun_faults(lines: Sequence[str], screened: Screened, extra_folder: str | None) -> list[str]:
    from variations.sweeping.jobs import composed_jobs, job_faults

    own = tuple(line for line in lines if not line.startswith(("hydra/", "hydra.")))
    try:
        if PLUGIN in lines or is_search(own, extra_folder):
            define(own, extra_folder)
            return []
        jobs = composed_jobs(tuple(lines), extra_folder)
    except UserError as error:
        found = error.faults if isinstance(error, ConfigError) else [str(error)]
        return [] if EVERYTHING in screened.doubtful else found
    found = job_faults(jobs, screened.doubts)
    if not any(line.startswith("sweep=") for line in lines):
        found += [f.text for f in _useless_branch(lines, [j.config for j in jobs]) if not screened.doubts(f.keys)]
    return found or _texts(_unequal_text([job.config for job in jobs]))


def _texts(found: Sequence[Fault]) -> list[str]:
    return [fault.text for fault in found]


def _unequal_text(configs: Sequence[Config]) -> list[Fault]:
    """Files of a user's own corpus whose numbers of lines differ, each pair once."""
    from variations.tasks.translation.data.textfiles import unequal_files

    corpora = dict.fromkeys(
        (c.data.root, (c.data.train, c.data.dev, c.data.test), c.data.source, c.data.target)
        for c in configs
        if c.data.kind == "folder" and c.data.root is not None
    )
    found = []
    for root, stems, source, target in corpora:
        for text in unequal_files(Path(str(root)).expanduser(), stems, source, target):
            found.append(Fault(("data.root", "data.train", "data.dev", "data.test"), text))
    return found


def _run_faults(config: Config) -> list[Fault]:
    if config.sweep.name is None or config.variation.row is not None or config.name is not None:
        return []
    text = (
        f"sweep={config.sweep.name} is many runs: add --multirun for all of them, or variation=TABLE/ROW for one, or "
        f"ask {spelled('plan')} for their cost."
    )
    return [Fault(("sweep.name",), text)]


def _useless_branch(lines: Sequence[str], configs: Sequence[Config]) -> list[Fault]:
    """Settings of the branches, typed by the user, for models of which none has branches."""
    if any(config.model.kind == "weighted" for config in configs):
        return []
    typed = [line for line in lines if line.startswith(("branch=", "branch."))]
    kind = configs[0].model.kind
    return [
        Fault(("model.kind",), f"{line} has no effect with model={kind}: add model=weighted, or leave it out.")
        for line in typed
    ]
