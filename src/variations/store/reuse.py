"""Rows that differ from another row only at test time and reuse its trained weights."""

from pathlib import Path
from typing import Any

from variations.configuration.tasks import DEFAULT, named
from variations.store import inputs
from variations.store.identity import changed_keys, covered
from variations.store.run_folder import RunFolder
from variations.system.errors import UserError


def hindrances(config: dict[str, Any], source: dict[str, Any]) -> list[str]:
    """Return the keys in which the training of two runs differs, so that neither can use the other's weights."""
    test_only = ("variation.reuse", *named(config.get("task") or DEFAULT).test_only)
    return [key for key in changed_keys(source, config) if not covered(key, test_only)]


def trained_in(folder: RunFolder, source: str | None) -> RunFolder:
    """Return the run that trained the weights of `folder`: itself, or the one that `variation.source` names.

    Raises:
        UserError: that run is missing or not finished, or was trained with another configuration or other inputs.
    """
    if source is None:
        return folder
    found = RunFolder(Path(folder.path, source).resolve())
    what = f"{folder.path} tests the weights of the run in {found.path} (variation.source)"
    again = "finish that run, or train this one separately with sweep.reuse=false force=true"
    if not found.exists() or found.state() != "finished":
        raise UserError(f"{what}, which is missing or not finished: {again}.")
    if differing := hindrances(folder.config(), found.config()):
        raise UserError(f"{what}, which was trained with another configuration ({', '.join(differing)}): {again}.")
    if changed := inputs.changed(found, inputs.remembered(folder)):
        raise UserError(f"{what}, whose inputs were different ({', '.join(changed)} changed since): {again}.")
    return found
