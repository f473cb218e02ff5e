"""The source of the tasks and classes of other packages that a run uses: an input like its texts, kept with the run."""

import importlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from variations.configuration.compose import to_dict
from variations.configuration.own_classes import file_of, is_as_imported, is_dotted, module_of
from variations.configuration.rules import CLASS_NAME
from variations.configuration.tasks import BUILT_IN, DEFAULT, named
from variations.store import inputs
from variations.store.checksums import file_sha256
from variations.store.run_folder import RunFolder
from variations.system.errors import UserError

_INSTALLED = ("variations", "hydra", "torch", "lightning", "pytorch_lightning", "lightning_fabric")
"""Packages whose versions environment.json has."""


def modules(config: Mapping[str, Any]) -> dict[str, Path]:
    """The files of the modules that a configuration names in `package.module:Class` or a callback's `_target_`.

    Of a task of another package, the files beside that of its class as well.

    Returns:
        By name of the copy in the run's folder, `package.module.py`. Modules that cannot be found are left out.
    """
    found = _of_task(str(config.get("task") or DEFAULT))
    return found | _files(module for module, _ in _named(config))


def _files(modules: Iterable[str]) -> dict[str, Path]:
    """The files of modules that are not installed with us, by name of their copy."""
    own = (module for module in dict.fromkeys(modules) if module.partition(".")[0] not in _INSTALLED)
    return {f"{module}.py": file for module in own if (file := file_of(module)) is not None}


def _defining(config: Mapping[str, Any]) -> dict[str, Path]:
    """The files of the modules that define the named classes, which may stand elsewhere; imports them."""
    found = []
    for module, path in _named(config):
        try:
            value: Any = importlib.import_module(module)
            for name in path.split("."):
                value = getattr(value, name)
        except (ImportError, AttributeError):  # told where the class is used
            continue
        if isinstance(where := getattr(value, "__module__", None), str):
            found.append(where)
    return _files(found)


def _of_task(name: str) -> dict[str, Path]:
    if name in BUILT_IN:
        return {}
    module = type(named(name)).__module__
    package, file = module.rpartition(".")[0], file_of(module)
    if not package or file is None:
        return {} if file is None else {f"{module}.py": file}
    return {f"{package}.{path.name}": path for path in sorted(file.parent.glob("*.py"))}


def _named(config: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Module and class of each name in `config`."""
    for group in ("model", "positions", "recipe"):
        for _, value in _strings(config.get(group)):
            if match := CLASS_NAME.fullmatch(value):
                yield match[1], match[2]
    for key, value in _strings(config.get("callbacks")):
        # `path`, or the first of `_args_`, is what hydra.utils.get_class imports.
        if key in ("_target_", "path", "_args_") and is_dotted(value):
            module = module_of(value)
            yield module, value.removeprefix(f"{module}.")


def _strings(value: Any, key: str = "") -> Iterator[tuple[str, str]]:
    """The strings in nested mappings and lists, each with the last key above it."""
    if isinstance(value, str):
        yield key, value
    elif isinstance(value, Mapping):
        for name, part in value.items():
            yield from _strings(part, str(name))
    elif isinstance(value, Sequence):
        for part in value:
            yield from _strings(part, key)


def refuse_edited(config: Mapping[str, Any]) -> None:
    """Check that this process would train the code that is stored with the run.

    Raises:
        UserError: A module was edited after this process imported it.
    """
    if late := [str(file) for file in modules(config).values() if not is_as_imported(file)]:
        raise UserError(
            f"{', '.join(late)} changed after this process imported it, so the former code would be trained: start the "
            "command again (in a notebook, restart the kernel)."
        )


def keep(config: Any, folder: RunFolder) -> dict[str, str]:
    """Copy the modules of a run into its folder; return the SHA-256 of each.

    Raises:
        UserError: The run was trained with other contents of one, or one was edited since this process imported it.
    """
    refuse_edited(to_dict(config))
    kept: dict[str, str] = {}
    for name, file in (_defining(to_dict(config)) | modules(to_dict(config))).items():
        kept |= inputs.keep(folder, file, name)
    return kept


def edited(made_from: Mapping[str, str]) -> list[str]:
    """Names of a run's own modules whose files here are not those that it was `made_from` (SHA-256 by name)."""
    return [name for name, file in _kept(made_from).items() if file_sha256(file) != made_from[name]]


def _kept(names: Iterable[str]) -> dict[str, Path]:
    """The present files of a run's own modules, by name of their copies, which are among the `names` of its inputs."""
    return _files(name.removesuffix(".py") for name in names if name.endswith(".py"))


def changed_inputs(config: Any, folder: RunFolder) -> list[str]:
    """Return a sentence for whatever has changed since a run was started: its texts, or the code of its own classes."""
    return [*named(config.task).changed_inputs(config, folder), *changed_code(folder)]


def refuse_changed_inputs(config: Any, folder: RunFolder) -> None:
    """Check that a run that has trained continues with its inputs.

    Raises:
        UserError: Some have changed since, or its files cannot be read.
    """
    if folder.has_trained() and (changed := changed_inputs(config, folder)):
        raise UserError(f"{folder.path} cannot continue: {' '.join(changed)}")


def inputs_here(config: Any) -> bool:
    """Whether the texts of a run are on this machine; if only nodes of a cluster have them, its runs compare them."""
    root = getattr(getattr(config, "data", None), "root", None)
    return not named(config.task).needs_download(config) and (root is None or Path(root).expanduser().is_dir())


def refuse_to_continue(config: Any, folder: RunFolder, *, compared: bool = False) -> None:
    """Check that a run can continue: with its inputs, unless they were `compared`, its checkpoints and measurements.

    Raises:
        UserError: It cannot, or its files cannot be read.
    """
    if not compared:
        refuse_changed_inputs(config, folder)
    folder.refuse_lost_checkpoints()
    folder.refuse_lost_measurements()


def changed_code(folder: RunFolder) -> list[str]:
    """Return a sentence if the code of the run's own classes has changed since it was started; else empty."""
    files = _kept(inputs.remembered(folder))
    names = inputs.changed(folder, {name: file_sha256(file) for name, file in files.items()})
    if not names:
        return []
    return [
        f"{', '.join(str(files[name]) for name in names)} changed after this run was started with the "
        f"former code, which is kept in {folder.path}. force=true starts a new attempt with the present code (in a "
        "sweep, of all rows; rows=[…] names some). Or give the changed class another name, in a row of its own."
    ]
