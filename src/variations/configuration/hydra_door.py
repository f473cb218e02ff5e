"""The only module that uses `hydra._internal`, which is not public and may change without notice.

Tested with hydra-core 1.3.8; pyproject.toml requires a version below 1.4.
"""

import copy
from argparse import ArgumentParser
from collections.abc import Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Self

from hydra import version as hydra_version
from hydra._internal.config_loader_impl import ConfigLoaderImpl as Loader
from hydra._internal.config_repository import CachingConfigRepository, ConfigRepository, IConfigRepository
from hydra._internal.defaults_list import create_defaults_list
from hydra._internal.hydra import Hydra
from hydra._internal.utils import create_config_search_path, get_args_parser
from hydra.core.config_search_path import ConfigSearchPath, SearchPathQuery
from hydra.core.default_element import GroupDefault, InputDefault
from hydra.core.object_type import ObjectType
from hydra.core.override_parser.types import Override
from hydra.core.utils import setup_globals
from hydra.errors import ConfigCompositionException
from hydra.plugins.config_source import ConfigResult, ConfigSource
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException

from variations.configuration.doors import refuse_hidden
from variations.configuration.own_classes import INSTALL
from variations.system.errors import ConfigError
from variations.system.file_times import is_settled

VERSION_BASE = "1.3"

__all__ = ["VERSION_BASE", "Loader", "compose", "flags", "instantiate", "loader_of", "without_mode"]


class _Repository(ConfigRepository):
    """Hydra's own, which reads a file or a folder once as long as it is not edited: rows of a table have the same."""

    def __init__(self, config_search_path: ConfigSearchPath) -> None:
        super().__init__(config_search_path)
        self._parsed: dict[Any, ConfigResult] = {}
        self._listed: dict[Any, list[str]] = {}

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """For each composition, which only replaces the list of sources."""
        return copy.copy(self)

    def load_config(self, config_path: str) -> ConfigResult | None:
        """As Hydra's."""
        source = self._find_object_source(config_path, ObjectType.CONFIG)
        if source is None or source.scheme() == "structured":  # a schema, which a verb may replace
            return super().load_config(config_path)
        refuse_hidden(config_path.removesuffix(".yaml"))
        file = Path(source.path, source._normalize_file_name(config_path))
        version = file.stat() if file.is_file() else None
        key = (source.path, config_path, version and (version.st_ino, version.st_ctime_ns, version.st_size))
        if key not in self._parsed:
            found = super().load_config(config_path)
            if found is None:
                return None
            self._parsed[key] = found
        return copy.deepcopy(self._parsed[key])  # a composition changes it

    def get_group_options(self, group_name: str, results_filter: ObjectType | None = ObjectType.CONFIG) -> list[str]:
        """As Hydra's."""
        found = (self._list(source, group_name, results_filter) for source in self.sources)
        return sorted({name for names in found for name in names})

    def _list(self, source: ConfigSource, group: str, kind: ObjectType | None) -> list[str]:
        """What a source has in a group."""
        changed: int | None = None  # a package stays as it is
        if source.scheme() == "file":
            try:
                changed = Path(source.path, group).stat().st_mtime_ns
            except OSError:
                return []
        key = (source.scheme(), source.path, group, kind, changed)
        if key in self._listed:
            return self._listed[key]
        names = source.list(group, kind) if source.is_group(group) else []
        if (changed is None or is_settled(changed)) and source.scheme() in ("file", "pkg"):
            self._listed[key] = names
        return names


class _Frozen(_Repository):
    """Reads each file only once: what is edited or deleted afterwards has no effect."""

    def load_config(self, config_path: str) -> ConfigResult | None:
        """As Hydra's."""
        if config_path not in self._parsed:
            found = super().load_config(config_path)
            if found is None:
                return None
            self._parsed[config_path] = found
        return copy.deepcopy(self._parsed[config_path])


class _WithoutHydra(CachingConfigRepository):
    """The files of one composition, without what they say of Hydra's own part.

    Args:
        cached: Where they come from.
        primary: Name of the primary configuration.
    """

    def __init__(self, cached: CachingConfigRepository, primary: str) -> None:
        self.delegate, self.cache, self.primary = cached, {}, primary

    def load_config(self, config_path: str) -> ConfigResult | None:
        """As Hydra's."""
        if config_path not in self.cache:
            found = self.delegate.load_config(config_path)
            self.cache[config_path] = found if found is None else self._ours(config_path, found)
        return self.cache[config_path]

    def _ours(self, config_path: str, found: ConfigResult) -> ConfigResult:
        defaults = [item for item in found.defaults_list or [] if not _of_hydra(item)]
        of_the_root = config_path == self.primary or found.header["package"] == "_global_"
        if of_the_root and isinstance(found.config, DictConfig) and "hydra" in found.config:
            with open_dict(found.config):
                del found.config["hydra"]
        return replace(found, defaults_list=defaults)


def _of_hydra(item: InputDefault) -> bool:
    """Whether an entry of a defaults list is about one of Hydra's groups."""
    return isinstance(item, GroupDefault) and (item.group or "").startswith("hydra/")


def loader_of(conf: Path, given: Path | None = None, *, frozen: bool = False) -> Loader:
    """Hydra's loader of a folder, and of the one that `--config-dir` names, without Hydra's global state.

    If it is `frozen`, it reads each file only once.

    `hydra.compose` keeps that state in singletons, which a sweeper running inside `hydra.main` cannot set up twice.
    """
    hydra_version.setbase(VERSION_BASE)
    setup_globals()
    search_path = create_config_search_path(str(conf))
    if given is not None:
        search_path.prepend("command-line", f"file://{given.resolve()}", anchor=SearchPathQuery(provider="schema"))
    loader = Loader(config_search_path=search_path)
    loader.repository = (_Frozen if frozen else _Repository)(search_path)
    return loader


def compose(
    loader: Loader, config_name: str, overrides: list[str], version: Hashable, *, whole: bool = False
) -> tuple[DictConfig, dict[str, str | None]]:
    """The composed tree without Hydra's own part, and the option chosen in each group.

    Overrides of groups determine which files are merged, which takes most of the time. The merged files are kept, so
    that rows of a table that differ in values alone share them. As in Hydra, values are set in the merged files.

    Args:
        loader: From `loader_of`.
        config_name: The primary configuration.
        overrides: What a user would type.
        version: Changes with the files and schemas.
        whole: Include Hydra's groups in the options.

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
    whole = whole or any(item.is_hydra_override() for item in parsed)  # they are checked by being merged
    tree, choices = _merged(loader, config_name, tuple(of_groups), version, whole=whole)
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
    loader: Loader, config_name: str, of_groups: tuple[str, ...], _: Hashable, *, whole: bool
) -> tuple[DictConfig, dict[str, str | None]]:
    """The merged files without Hydra's own part, and the option chosen in each group; callers copy both.

    Hydra merges its own part, too, which takes nearly half of the time: unless `whole`, its steps are done here.
    """
    if whole:
        tree = loader.load_configuration(config_name, list(of_groups), RunMode.RUN, from_shell=False)
        choices = dict(tree.hydra.runtime.choices)
        with open_dict(tree):
            del tree["hydra"]
        return tree, choices
    overrides, cached = loader._parse_overrides_and_create_caching_repo(config_name, list(of_groups))
    files = _WithoutHydra(cached, config_name)
    try:
        found = create_defaults_list(files, config_name, overrides, prepend_hydra=False, skip_missing=False)
        tree = loader._compose_config_from_defaults_list(found.defaults, files)
        OmegaConf.set_struct(tree, True)
        loader._apply_overrides_to_config(found.config_overrides, tree)
    except OmegaConfBaseException as error:
        raise ConfigCompositionException from error
    return tree, dict(found.overrides.known_choices)


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


@contextmanager
def without_mode() -> Iterator[None]:
    """Spare Hydra from composing everything once more only to read `hydra.mode`, where nothing sets it."""
    own = Hydra.get_mode
    Hydra.get_mode = lambda *_, **__: None  # type: ignore[method-assign]
    try:
        yield
    finally:
        Hydra.get_mode = own  # type: ignore[method-assign]


def flags() -> ArgumentParser:
    """The parser of Hydra's own flags."""
    return get_args_parser()
