"""What every command has in common: Hydra's command line, with all faults reported together and defined exit codes.

    main = command(train, schema=Config, config_name="train")

in `commands/train.py`; `src/train.py` and `variations train` call it. The task receives the typed configuration.
Exit codes are those of `errors.ExitCode`.
"""

import argparse
import contextlib
import functools
import importlib
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.errors import ConfigCompositionException
from hydra.types import RunMode
from omegaconf import DictConfig

from variations.commands.completion import completion
from variations.commands.console import told_when_interrupted
from variations.commands.help import help_text
from variations.commands.preflight import configurations, preflight, with_task
from variations.configuration.compose import (
    composition_fault,
    loader,
    register_resolvers,
    register_schema,
    to_config,
)
from variations.configuration.doors import folders, open_given, open_typed
from variations.configuration.hydra_door import VERSION_BASE, flags, without_mode
from variations.configuration.overrides import is_axis, typed_keys
from variations.configuration.places import CONF, spelled
from variations.configuration.rules import is_text
from variations.configuration.schema import RunConfig
from variations.configuration.suggestions import did_you_mean, switched_off
from variations.configuration.tasks import named
from variations.sweeping.table_jobs import single_run
from variations.system import streams
from variations.system.errors import ConfigError, ExitCode, UserError
from variations.system.exceptions import short_traceback
from variations.tasks.base import Verb


def command(
    task: Callable[[Any], Any],
    *,
    schema: type[Any],
    config_name: str,
    multirun: bool = False,
    axes: bool = False,
    examples: Mapping[str, str] | None = None,
    aliases: Mapping[str, str] | None = None,
    reworded: Callable[[list[str]], list[str]] | None = None,
) -> Callable[[], None]:
    """Return the `main` of a verb.

    Args:
        task: Does the work; receives an instance of `schema`. Its docstring heads `--help`.
        schema: Dataclass of the verb's keys.
        config_name: The file `conf/<config_name>.yaml`; without such a file, the schema is used alone.
        multirun: Whether the verb accepts `--multirun`, as those do that train.
        axes: Whether keys may have several values without `--multirun`; the verb then reads them with `typed`.
        examples: Arguments, and what they do, shown by `--help`.
        aliases: Other names for keys. A key cannot have the name of a folder of `conf/`, which Hydra would take for a
            group; an alias can.
        reworded: Returns overrides that stand for those typed.
    """

    @told_when_interrupted(continues=multirun)
    @_written(work_goes_on=multirun)
    def main() -> None:
        register_resolvers()
        register_schema(schema, config_name)
        args = _arguments(aliases or {})
        if args.help:
            sys.stdout.write(help_text(task, schema, config_name, examples or {}, multirun=multirun))
            return
        if args.shell_completion:
            sys.stdout.write(completion(args.overrides, schema, config_name))
            return
        if issubclass(schema, RunConfig):
            more = with_task(args.overrides)[len(args.overrides) :]
            args.overrides += more
            sys.argv += more
        if reworded is not None:
            flags_typed = [word for word in sys.argv[1:] if word not in args.overrides]
            args.overrides = reworded(args.overrides)
            sys.argv[1:] = [*flags_typed, *args.overrides]
        as_typed = [*sys.argv]
        several = args.multirun or "hydra.mode=MULTIRUN" in args.overrides
        if not (args.hydra_help or args.experimental_rerun):
            if several and not multirun:
                fail(ConfigError([f"--multirun is for {spelled('train')}; leave it out here."]))
            found = preflight(
                args.overrides,
                schema,
                args.config_name or config_name,
                multirun=several,
                axes=axes,
                runs_models=multirun and args.cfg is None and args.info is None,
                one_run=multirun and args.cfg is not None,
            )
            if args.multirun and (args.info or args.cfg not in (None, "job")):
                found.append("--multirun goes with --cfg job, which prints the configuration of each row, only.")
            if found:
                fail(ConfigError(found))
            if multirun and not several:
                more = single_run(args.overrides)
                sys.argv[1:] = [*(word for word in sys.argv[1:] if word not in args.overrides), *more]
        if args.multirun and args.cfg is not None:
            sys.stdout.write(configurations(args.overrides, args.package))
            return
        _TYPED[:] = args.overrides
        if axes:  # Hydra itself receives none
            several_values = [line for line in args.overrides if is_axis(line, loader())]
            sys.argv[1:] = [word for word in sys.argv[1:] if word not in several_values]
        with contextlib.nullcontext() if _may_set_mode(args) else without_mode():
            _run(task, schema, config_name, as_typed)

    return main


def command_of(task: str, verb: str) -> Callable[[], None]:
    """Return the `main` of a verb that a task provides (`Task.verbs`)."""
    module, _, name = named(task).verbs[verb].partition(":")
    found: Verb = getattr(importlib.import_module(module), name)

    def load_network(path: Path) -> Any:
        from variations.store.ledger import RunFolder
        from variations.training.weights import load_network

        loaded = load_network(path)
        if fault := RunFolder(path).unfinished():
            sys.stderr.write(f"warning: {path} {fault}: its test may use other weights than these.\n")
        return loaded

    @functools.wraps(found.work)
    def work(config: Any) -> None:
        found.work(config, load_network)

    return command(work, schema=found.schema, config_name=verb, examples=found.examples)


_TYPED: list[str] = []


def typed() -> list[str]:
    """The overrides of this command line as typed, without Hydra's own."""
    return [line for line in _TYPED if not line.lstrip("+~").startswith(("hydra/", "hydra."))]


def typed_settings(*groups: str) -> list[str]:
    """The keys of these groups that were typed, except those that only name the sweep."""
    keys = (key for key in typed_keys(typed()) if key not in ("sweep", "sweep.name"))
    return [key for key in keys if key.partition(".")[0] in groups]


@contextlib.contextmanager
def _written(*, work_goes_on: bool) -> Iterator[None]:
    """Check that the current folder exists when a command starts, and that all output is written when it ends."""
    streams.prepare(work_goes_on=work_goes_on)
    try:
        here = str(Path.cwd())
    except FileNotFoundError:
        fail(UserError("The current folder has been deleted: change to another one (cd) and repeat the command."))
    if work_goes_on and not is_text(here):
        fail(UserError(f"The path of the current folder, {here!a}, is not UTF-8: rename it, or use a UTF-8 locale."))
    try:
        yield
        sys.stdout.flush()
    except UserError as error:
        fail(error)


def _arguments(aliases: Mapping[str, str]) -> argparse.Namespace:
    """Parse flags and overrides in any order; Hydra's parser, which reads `sys.argv` again, requires flags first."""
    parser = flags()
    setattr(parser, "error", _misread)  # noqa: B010 (mypy: a method is replaced): one sentence instead of a usage
    args, unknown = parser.parse_known_intermixed_args()
    if unknown:
        known = [name for action in parser._actions for name in action.option_strings if name.startswith("--")]
        faults = [f"{word}: there is no such flag.{did_you_mean(word, known)}" for word in unknown]
        fail(ConfigError([f"{fault} --help lists them." for fault in faults]))
    if args.config_dir is not None and not Path(args.config_dir).is_dir():
        fail(ConfigError([f"--config-dir {args.config_dir}: there is no such folder."]))
    typed = list(args.overrides)
    try:
        open_given(args.config_dir)  # its files come before those of the search path
        opened = [switched_off(word) for word in open_typed(typed)]
    except ConfigError as error:
        fail(error)
    split = [word.partition("=") for word in opened]
    args.overrides = ["".join((aliases.get(key, key), *rest)) for key, *rest in split]
    sys.argv[1:] = [*(word for word in sys.argv[1:] if word not in typed), *args.overrides]
    return args


def _may_set_mode(args: argparse.Namespace) -> bool:
    """Whether the words or files of the user may set `hydra.mode`, which no file of ours does."""
    theirs = folders() != [CONF] or args.config_path is not None
    return theirs or any(word.lstrip("+").startswith("hydra.mode") for word in args.overrides)


def _misread(message: str) -> NoReturn:
    if match := re.match(r"argument (--[\w-]+)/(-\w): ignored explicit argument '(.*)'", message):
        message = f"{match[2]}{match[3]}: there is no such flag. Did you mean '{match[1]}'?"
        fail(ConfigError([f"{message} --help lists them."]))
    fail(ConfigError([f"{message}: see --help."]))


def _run(task: Callable[[Any], Any], schema: type[Any], config_name: str, as_typed: list[str]) -> None:
    """Let Hydra compose and start the work, which finds `sys.argv` as it was typed."""

    @functools.wraps(task)
    def typed(node: DictConfig) -> Any:
        sys.argv[:] = as_typed
        config = to_config(node, schema)
        if HydraConfig.get().mode == RunMode.MULTIRUN:
            return task(config)  # the sweeper reports a failed run, and continues
        try:
            return task(config)
        except UserError as error:
            fail(error)
        except PermissionError as error:
            if error.filename is None:
                raise
            fail(UserError(f"{error.filename} cannot be used: {error.strerror}. Change its permissions or its owner."))
        except Exception as error:  # noqa: BLE001 - a fault of this program, or of a class of another package
            sys.stderr.write(short_traceback(error))
            sys.exit(ExitCode.FAILED)

    register_schema(schema, config_name)  # it may have been replaced by another verb's meanwhile
    os.environ.setdefault("HYDRA_FULL_ERROR", "1")  # whole tracebacks, for our own errors
    try:
        hydra.main(version_base=VERSION_BASE, config_path=str(CONF), config_name=config_name)(typed)()
    except UserError as error:
        fail(error)
    except ConfigCompositionException as error:  # for example in hydra.launcher; the other keys have been checked
        fail(ConfigError([composition_fault(error)]))


def fail(error: UserError) -> NoReturn:
    """Write a user's error to standard error, without a traceback, and exit with its code."""
    sys.stderr.write(f"error: {error}\n")
    sys.exit(error.exit_code)
