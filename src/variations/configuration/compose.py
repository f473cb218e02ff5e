"""From overrides to a typed configuration, and back to plain dictionaries.

Everything that needs a configuration outside the command line (the sweeper, the plan, tests) calls `compose_run`.
YAML files may use these resolvers:

- `${width:N}`: N times `recipe.scale.width`, rounded, at least 1;
- `${depth:N}`: N times `recipe.scale.depth`, rounded, at least 1;
- `${steps:N}`: N times `recipe.scale.steps`, rounded, at least 1;
- `${divide:a,b}`: a / b, rounded down, at least 1;
- `${least:a,b}`: the smaller of both;
- `${package:NAME}`: the folder of an installed package.

Rows of the papers' tables write widths, depths and lengths with the first three: a recipe scales all rows alike.
A value typed on the command line replaces the expression, so it is never scaled.
"""

import copy
import dataclasses
import os
import re
import threading
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache, reduce
from pathlib import Path, PurePath
from typing import Any, TypeVar, cast

import yaml
from hydra.core.config_store import ConfigStore
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from omegaconf.resolvers.oc import env

from variations.configuration import doors, hydra_door, tasks
from variations.configuration.doors import package_folder
from variations.configuration.hydra_door import Loader, loader_of
from variations.configuration.overrides import Key, leaf_keys, type_fault
from variations.configuration.places import CONF
from variations.configuration.row_file import row_faults
from variations.configuration.schema import RunConfig
from variations.configuration.suggestions import did_you_mean, options, options_text, switched_off
from variations.system.errors import ConfigError, by_ctrl_c, yaml_fault

T = TypeVar("T")
_SCHEMAS: dict[str, type[Any]] = {}
"""The schema registered for each primary configuration."""
_STORED: dict[str, type[Any]] = {}
"""The schema of each task in Hydra's store, which all verbs of a process share."""
_READ: set[str] = set()
"""Variables of the environment that configurations have read so far."""
_LOCK = threading.Lock()
TYPES = {"Integer": "a whole number", "Float": "a number", "Boolean": "true or false"}
"""What OmegaConf's types are called in messages."""


def scaled(n: float, kind: str, scale: Mapping[str, Any]) -> int:
    """The value of `${width:n}`, `${depth:n}` or `${steps:n}`, by its `kind`, under a recipe's `scale`."""
    return max(1, round(n * float(scale.get(kind, 1.0))))


def register_resolvers() -> None:
    """Make `${width:}` and the others known to OmegaConf, and have `${oc.env:}` note what it reads."""
    new = OmegaConf.register_new_resolver
    new("width", lambda n, *, _root_: scaled(n, "width", _root_.recipe.scale), replace=True)
    new("depth", lambda n, *, _root_: scaled(n, "depth", _root_.recipe.scale), replace=True)
    new("steps", lambda n, *, _root_: scaled(n, "steps", _root_.recipe.scale), replace=True)
    new("divide", lambda a, b: max(1, int(a) // int(b)), replace=True)
    new("least", lambda *numbers: min(numbers), replace=True)
    new("oc.env", _variable, replace=True)
    new("package", lambda name: str(package_folder(name) or name), replace=True)


def _variable(name: str, *default: Any) -> str | None:
    """OmegaConf's own `${oc.env:NAME,DEFAULT}`, which notes the name: a cached configuration depends on its value."""
    _READ.add(name)
    return env(name, *default)


def register_schema(schema: type[Any], config_name: str) -> None:
    """Store a verb's schema as `<config_name>_schema`, and a primary configuration if `conf/` has none."""
    store = ConfigStore.instance()
    _SCHEMAS[config_name] = schema
    if issubclass(schema, RunConfig):
        for name in tasks.names():  # `conf/task/NAME.yaml` starts from its task's schema, and a verb adds its own keys
            known = tasks.schema_for(schema, name)
            if _STORED.get(name) is not known:  # storing one takes a tenth of a second
                store.store(group="schema", name=name, node=known, provider="variations")
                _STORED[name] = known
    else:
        store.store(name=f"{config_name}_schema", node=schema, provider="variations")
    if (CONF / f"{config_name}.yaml").exists():
        return
    quiet = [{"override hydra/output": "none"}]
    quiet += [{"override hydra/hydra_logging": "none"}, {"override hydra/job_logging": "none"}]
    hydra = {"output_subdir": None, "job": {"name": config_name, "chdir": False}}
    primary = {"defaults": [f"{config_name}_schema", "_self_", *quiet], "hydra": hydra}
    store.store(name=config_name, node=primary, provider="variations")


def loader() -> Loader:
    """The loader of `conf/`, and of the folder that `--config-dir` names."""
    return _loader(doors.given())


@lru_cache(maxsize=4)
def _loader(given: Path | None) -> Loader:
    register_resolvers()
    register_schema(RunConfig, "train")
    return loader_of(CONF, given)


def frozen_loader() -> Loader:
    """A new loader of the same folders, which reads each file only once."""
    loader()  # which registers what the files use
    return loader_of(CONF, doors.given(), frozen=True)


def compose_node(
    overrides: Sequence[str], *, config_name: str = "train", whole: bool = False, files: Loader | None = None
) -> tuple[DictConfig, dict[str, str | None]]:
    """Return the composed tree without Hydra's own part, and the option chosen in each group; `whole`: also in Hydra's.

    Args:
        overrides: What a user would type.
        config_name: The primary configuration.
        whole: Include Hydra's groups in the options.
        files: Reads the files; None: `loader()`.

    Raises:
        ConfigError: A file, key or value is wrong; the message says which.
    """
    return _compose_node(overrides, config_name, _written(), files or loader(), whole=whole)


def _compose_node(
    overrides: Sequence[str], config_name: str, written: Hashable, found: Loader, *, whole: bool = False
) -> tuple[DictConfig, dict[str, str | None]]:
    """As `compose_node`, of files in the state that `written` identifies."""
    try:
        with _LOCK:
            if config_name in _SCHEMAS:  # all verbs of a process share Hydra's store
                register_schema(_SCHEMAS[config_name], config_name)
            version = (written, _SCHEMAS.get(config_name), tuple(_STORED.items()))
            lines = [switched_off(line) for line in overrides]
            node, choices = hydra_door.compose(found, config_name, lines, version, whole=whole)
    except RecursionError as error:
        raise ConfigError(
            ["the files of the configuration include each other in a circle: check `defaults`."]
        ) from error
    except (HydraException, OmegaConfBaseException, yaml.YAMLError, ValueError, TypeError) as error:
        if by_ctrl_c(error):
            raise KeyboardInterrupt from error
        raise ConfigError(row_faults(overrides, error, found) or [composition_fault(error)]) from error
    OmegaConf.set_struct(node, False)
    return node, choices


def to_config(node: DictConfig | Mapping[str, Any], schema: type[T]) -> T:
    """Check a tree against a schema, resolve its interpolations, and return the dataclass.

    Args:
        node: The composed tree.
        schema: Its dataclass; RunConfig means the schema of the task that the tree names.

    Raises:
        ConfigError: A key is unknown, a value has the wrong type, or an interpolation fails.
    """
    register_resolvers()
    if issubclass(schema, RunConfig):
        schema = cast(type[T], tasks.schema_for(schema, node.get("task")))
    try:
        typed = node if _is_checked(node, schema) else OmegaConf.merge(_typed(cast(Any, schema)), node)
        result = OmegaConf.to_object(typed)
    except OmegaConfBaseException as error:
        if by_ctrl_c(error):
            raise KeyboardInterrupt from error
        raise ConfigError([composition_fault(error)]) from error
    if not isinstance(result, schema):
        raise ConfigError([f"expected keys and values for {schema.__name__}"])
    if faults := [*_container_faults(result)]:
        raise ConfigError(faults)
    _respell(result)
    return result


def _respell(config: Any) -> None:
    """Give the keys of SPELLED their one spelling."""
    for key, spelled in SPELLED.items():
        group, _, name = key.partition(".")
        part = getattr(config, group, None)
        if hasattr(part, name):
            setattr(part, name, spelled(getattr(part, name)))


def _plain_paths(value: Any) -> Any:
    """A path, or a list of paths, without a slash at the end; anything else as it is."""
    if isinstance(value, list):
        return [_plain_paths(each) for each in value]
    return str(PurePath(value)) if value and isinstance(value, str) else value


def _in_order(value: Any) -> Any:
    """A list in alphabetical order; anything else as it is."""
    return sorted(value, key=str) if isinstance(value, list) else value


SPELLED = {"data.root": _plain_paths, "data.extra": _plain_paths, "decode.sets": _in_order}
"""Keys that may identify a run and can be typed in several ways, with the function that gives the one spelling."""


def _container_faults(config: Any) -> Iterator[str]:
    """Lists and dictionaries that an interpolation has replaced by something else, which OmegaConf does not check."""
    for key, item in _containers(cast(Any, type(config))).items():
        value = reduce(getattr, key.split("."), config)
        if not isinstance(value, list | dict | None) and (fault := type_fault(key, value, item)):
            yield fault


@lru_cache(maxsize=16)
def _containers(schema: type[Any]) -> dict[str, Key]:
    """The keys of a schema that have lists or dictionaries."""
    return {key: item for key, item in leaf_keys(schema).items() if item.is_container}


def _is_checked(node: DictConfig | Mapping[str, Any], schema: type[Any]) -> bool:
    """Whether OmegaConf has checked each value of a tree by its schema when it was set, and no key is new or absent."""
    if not isinstance(node, DictConfig) or OmegaConf.get_type(node) is not schema:
        return False
    names = [item.name for item in dataclasses.fields(schema)]
    if set(node) != {*names} or any(OmegaConf.is_missing(node, name) for name in names):
        return False
    values = [node[name] for name in names if not OmegaConf.is_interpolation(node, name)]
    kinds = [(value, OmegaConf.get_type(value)) for value in values if isinstance(value, DictConfig)]
    return all(_is_checked(value, kind) for value, kind in kinds if dataclasses.is_dataclass(kind))


@lru_cache(maxsize=16)
def _typed(schema: type[Any]) -> DictConfig:
    """A schema as an OmegaConf node, which callers must copy, as `merge` does, and not change."""
    return cast(DictConfig, OmegaConf.structured(schema))


def compose_run(overrides: Sequence[str] = (), *, files: Loader | None = None) -> Any:
    """Return the configuration, of its task's schema, that `train` would run with these overrides.

    Args:
        overrides: What a user would type, such as `["model=weighted", "trainer.max_steps=100"]`.
        files: Reads the files; None: `loader()`.

    Raises:
        ConfigError: The overrides cannot be composed. Cross-field rules are left to `faults.faults`.
    """
    return copy.deepcopy(_composed(tuple(overrides), _written(), files or loader()))


@lru_cache(maxsize=2048)
def _composed(overrides: tuple[str, ...], written: Hashable, found: Loader) -> Any:
    """As `compose_run`, cached: Hydra takes a tenth of a second for a row, and a table composes it several times."""
    node, _ = _compose_node(overrides, "train", written, found)
    return to_config(node, RunConfig)


def _written() -> Hashable:
    """Path, time and size of each configuration file, and what was read of the environment: if one of them changes,
    a configuration is composed again."""
    found: list[tuple[str, int, int]] = []
    for folder in doors.folders():
        for place, _, files in os.walk(folder, followlinks=True):
            for path in (Path(place, name) for name in files):
                with suppress(FileNotFoundError):  # an editor's lock, a dangling link
                    status = path.stat()
                    found.append((str(path), status.st_mtime_ns, status.st_size))
    return tuple(found), tuple((name, os.environ.get(name)) for name in sorted(_READ))


def composition_fault(error: BaseException) -> str:
    """Describe in one sentence why a configuration could not be composed."""
    cause: BaseException = error
    while isinstance(cause.__cause__, HydraException | OmegaConfBaseException):
        cause = cause.__cause__
    if isinstance(cause, yaml.YAMLError):
        return f"{_yaml_file(cause)} is not valid YAML: {yaml_fault(cause)}"
    written = str(cause)
    key_line = re.search(r"^\s*full_key: (.+)$", written, re.MULTILINE)
    full_key = getattr(cause, "full_key", None) or (key_line[1] if key_line else None)
    in_file = re.match(r"In '([^']+)'", str(error))
    lines = [line.strip() for line in written.splitlines() if line.strip() and "while composing config" not in line]
    text = lines[0] if lines else type(cause).__name__
    if match := re.match(r"Key '(.+)' not in '(.+)'", text):
        key = full_key or match[1]
        known = list(leaf_keys(tasks.schema_of(None)))
        group = key.removeprefix("variation.")
        of_row = in_file is not None and in_file[1].startswith("variation/") and group != key
        if of_row and any(name.startswith(f"{group}.") for name in known):
            text = f"unknown key '{key}'. The first line of a row's file must be `# @package _global_`."
        elif "." in match[1] and key in known:
            inner = match[1].replace(".", ": {") + ": …" + "}" * match[1].count(".")
            text = f"'{match[1]}' is written with a dot; in a file write `{inner}`"
        elif owners := [name for name in tasks.BUILT_IN if key in leaf_keys(tasks.schema_of(name))]:
            return _of_other_tasks(key, in_file and in_file[1], owners)
        else:
            near = did_you_mean(key, known)
            if inside := [name for name in known if name.endswith(f".{key}")]:
                forms = (f"`{name.removesuffix(f'.{key}').replace('.', ': {')}: {{{key}: …}}`" for name in inside[:3])
                near = f" Did you mean {' or '.join(forms)}?"
            text = f"unknown key '{key}'." + near if near else f"unknown key '{key}'"
            if in_file is not None and in_file[1].startswith(("model/", "positions/")):
                text = f"{text.rstrip('.')}. Keys of a class of your own belong below `options:`"
    elif re.match(r"Merge error: list is not a subclass of", text):
        text = "the file contains a list, but must contain keys and values: remove the dash before each key"
    elif match := re.match(r"Could not override '(.+)'\. No match in the defaults list", text):
        if "@variation." in match[1]:
            text = "The first line of a row's file must be `# @package _global_`"
        else:
            text = f"there is no group '{match[1]}' here: leave {match[1]}=… out"
    elif match := re.search(r"Could not find '(\w+)/([^']+)'$", text):
        valid = options(loader(), match[1])
        return f"{match[1]}={match[2]}: there is no such option.{options_text(match[1], match[2], valid)}"
    elif match := re.match(r"Value (.+) of type '\w+' could not be converted to (\w+)", text):
        text = f"must be {TYPES.get(match[2], match[2])}, not {match[1]}"
    elif match := re.match(r"Cannot assign container '(.+)' of type", text):
        text = f"must be a single value, not {match[1]}"
    elif match := re.match(r"Cannot convert '\w+' to string: '(.+)'$", text):
        text = f"must be text, not {match[1]}"
    elif text.endswith(("is not a ListConfig, list or tuple.", "Cannot merge DictConfig with ListConfig")):
        text = f"must be a list such as {_example(full_key)}"
    if full_key and full_key not in text:
        text = f"{full_key}: {text}"
    return f"{in_file[0]}: {text}" if in_file and in_file[0] not in text else text


def _example(key: str | None) -> str:
    """A list for a key, of numbers or of names."""
    kinds = [found[key].type for name in tasks.BUILT_IN if key in (found := leaf_keys(tasks.schema_of(name)))]
    return "[1,2]" if any("int" in str(kind) or "float" in str(kind) for kind in kinds) else "[a,b]"


def _yaml_file(error: yaml.YAMLError) -> str:
    name = getattr(getattr(error, "problem_mark", None), "name", None)
    if name is None:
        return "a configuration file"
    return doors.shown(Path(name))


def _of_other_tasks(key: str, option: str | None, owners: Sequence[str]) -> str:
    """Say that a key belongs to other tasks; `option` is the file that sets it, such as `debug/limit`."""
    text = f"{key} is a key of {' and '.join(f'task={name}' for name in owners)}, and this run has another task"
    remedy = f" Add {' or '.join(f'task={name}' for name in owners)}, or leave it out."
    if option is None:
        return f"{text}.{remedy}"
    group, _, choice = option.partition("/")
    return f"{group}={choice} cannot be used here: it sets {key}, which {text.removeprefix(key).strip()}.{remedy}"


def to_dict(config: Any) -> dict[str, Any]:
    """Return a configuration as nested plain dictionaries for YAML or JSON; a faster `dataclasses.asdict`."""
    return {item.name: _plain(getattr(config, item.name)) for item in dataclasses.fields(config)}


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return to_dict(value)
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list) else value


def from_dict(values: Mapping[str, Any], schema: type[T]) -> T:
    """Return the configuration that `to_dict` wrote; keys that are absent take their defaults.

    Raises:
        ConfigError: A key is unknown to this version, or a value has the wrong type.
    """
    return to_config(OmegaConf.create(dict(values)), schema)


def load(path: Path) -> Any:
    """Read a run's frozen `config.yaml`, by the schema of its task.

    Raises:
        ConfigError: The file is missing, is not YAML, or does not fit the schema.
    """
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ConfigError([f"there is no configuration at {path}: name a run folder with a config.yaml"]) from error
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigError([f"{path} cannot be read: {' '.join(str(error).split())}"]) from error
    if not isinstance(values, dict):
        raise ConfigError([f"{path} does not contain keys and values: is it a run's config.yaml?"])
    try:
        return from_dict(values, RunConfig)
    except ConfigError as error:
        raise ConfigError([f"{path}: {fault}" for fault in error.faults]) from error
