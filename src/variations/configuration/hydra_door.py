"""The only module that uses `hydra._internal`, which is not public and may change without notice.

Tested with hydra-core 1.3.8; pyproject.toml requires a version below 1.4.
"""

import copy
from argparse import ArgumentParser
from collections.abc import Hashable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from hydra import version as hydra_version
from hydra._internal.config_loader_impl import ConfigLoaderImpl as Loader
from hydra._internal.config_repository import ConfigRepository, IConfigRepository
from hydra._internal.utils import create_config_search_path, get_args_parser
from hydra.core.config_search_path import ConfigSearchPath, SearchPathQuery
from hydra.core.object_type import ObjectType
from hydra.core.override_parser.types import Override
from hydra.core.utils import setup_globals
from hydra.plugins.config_source import ConfigResult
from hydra.types import RunMode
from omegaconf import DictConfig, open_dict

from variations.configuration.own_classes import INSTALL
from variations.system.errors import ConfigError

VERSION_BASE = "1.3"

__all__ = ["VERSION_BASE", "Loader", "compose", "flags", "instantiate", "loader_of"]


class _Repository(ConfigRepository):
    """Hydra's own, which parses a file once as long as it is not edited: rows of a table have the same."""

    def __init__(self, config_search_path: ConfigSearchPath) -> None:
        super().__init__(config_search_path)
        self._parsed: dict[Any, ConfigResult] = {}

    def __deepcopy__(self, memo: dict[int, Any]) -> "_Repository":
        """For each composition, which only replaces the list of sources."""
        return copy.copy(self)

    def load_config(self, config_path: str) -> ConfigResult | None:
        """As Hydra's."""
        source = self._find_object_source(config_path, ObjectType.CONFIG)
        if source is None or source.scheme() == "structured":  # a schema, which a verb may replace
            return super().load_config(config_path)
        file = Path(source.path, source._normalize_file_name(config_path))
        version = file.stat() if file.is_file() else None
        key = (source.path, config_path, version and (version.st_ino, version.st_ctime_ns, version.st_size))
        if key not in self._parsed:
            found = super().load_config(config_path)
            if found is None:
                return None
            self._parsed[key] = found
        return copy.deepcopy(self._parsed[key])  # a composition changes it


def loader_of(conf: Path, first: Path | None = None) -> Loader:
    """Hydra's loader of a folder, and of one that comes before it, without Hydra's global state.

    `hydra.compose` keeps that state in singletons, which a sweeper running inside `hydra.main` cannot set up twice.
    """
    hydra_version.setbase(VERSION_BASE)
    setup_globals()
    search_path = create_config_search_path(str(conf))
    if first is not None:
        search_path.prepend("command-line", f"file://{first.resolve()}", anchor=SearchPathQuery(provider="schema"))
    loader = Loader(config_search_path=search_path)
    loader.repository = _Repository(search_path)
    return loader


def compose(
    loader: Loader, config_name: str, overrides: list[str], version: Hashable
) -> tuple[DictConfig, dict[str, str | None]]:
    """The composed tree without Hydra's own part, and the option chosen in each group.

    Overrides of groups determine which files are merged, which takes most of the time. The merged files are kept, so
    that rows of a table that differ in values alone share them. As in Hydra, values are set in the merged files.

    Args:
        loader: From `loader_of`.
        config_name: The primary configuration.
        overrides: What a user would type.
        version: Changes with the files and schemas.

    Raises:
        HydraException, OmegaConfBaseException: An override, a file or a value is wrong.
    """
    parsed, repository = loader._parse_overrides_and_create_caching_repo(config_name, overrides)
    loader.validate_sweep_overrides_legal(parsed, RunMode.RUN, from_shell=False)
    values, of_groups = [], []
    for line, item in zip(overrides, parsed, strict=True):
        if _sets_value(item, repository):
            values.append(item)
        else:
            of_groups.append(line)
    tree, choices = _merged(loader, config_name, tuple(of_groups), version)
    tree = copy.deepcopy(tree)
    loader._apply_overrides_to_config(values, tree)
    return tree, dict(choices)


def _sets_value(override: Override, repository: IConfigRepository) -> bool:
    """Whether an override sets a key of ours, as opposed to choosing an option of a group."""
    if override.is_hydra_override():
        return False
    return isinstance(override.value(), dict) or not repository.group_exists(override.key_or_group)


@lru_cache(maxsize=512)
def _merged(
    loader: Loader, config_name: str, of_groups: tuple[str, ...], _: Hashable
) -> tuple[DictConfig, dict[str, str | None]]:
    """The merged files without Hydra's own part, and the option chosen in each group; callers copy both."""
    tree = loader.load_configuration(config_name, list(of_groups), RunMode.RUN, from_shell=False)
    choices = dict(tree.hydra.runtime.choices)
    with open_dict(tree):
        del tree["hydra"]
    return tree, choices


def instantiate(settings: Any, where: str) -> Any:
    """The object that `_target_` and its arguments describe.

    Raises:
        ConfigError: There is no `_target_`, or the object cannot be created.
    """
    from hydra.errors import InstantiationException
    from hydra.utils import instantiate as made

    if not isinstance(settings, Mapping) or "_target_" not in settings:
        raise ConfigError([f"{where}: name a class as _target_: package.module.Class, its arguments as further keys."])
    try:
        return made(dict(settings))
    except (InstantiationException, ImportError, SystemExit) as error:
        cause: BaseException = error
        while cause.__cause__ is not None:
            cause = cause.__cause__
        hint = f". {INSTALL}" if isinstance(cause, ImportError) else ""
        text = f"{where}: {settings['_target_']} cannot be created: {' '.join(str(cause).split())}{hint}"
        raise ConfigError([text]) from error


def flags() -> ArgumentParser:
    """The parser of Hydra's own flags."""
    return get_args_parser()
