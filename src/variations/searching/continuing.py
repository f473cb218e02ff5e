"""Whether a study may continue: with this definition, in this store, with these texts and own code."""

import json
import re
import secrets
import socket
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from variations.configuration.compose import load, to_dict
from variations.configuration.places import SEED_FOLDER
from variations.searching.definition import TRIAL, Definition
from variations.store import inputs
from variations.store.atomic import read_regular, told_if_unwritable, write_text
from variations.store.identity import changed_keys
from variations.store.ledger import RunFolder
from variations.store.naming import run_folder
from variations.store.own_code import changed_inputs
from variations.system.errors import UserError

STORE = "store"
"""User attribute of a study: the token of the store that has its trials, and where that was when it was started."""
IDENTITY = "study.id"
"""File of that token, which moves with the trials."""


def facts_of(definition: Definition) -> dict[str, Any]:
    """What must not change during a study, as plain data."""
    facts = {
        "space": {dimension.key: dimension.plain() for dimension in definition.dimensions},
        "metrics": {objective.key: objective.direction for objective in definition.objectives},
        "fixed": definition.fixed(),
        "reports": {
            "sweep.search.pruner.kind": "of items" if definition.settings.pruner.kind == "wilcoxon" else "of steps"
        },
    }
    plain: dict[str, Any] = json.loads(json.dumps(facts, sort_keys=True))
    return plain


def faults(known: Mapping[str, Any], fresh: Mapping[str, Any], definition: Definition, study: Any) -> list[str]:
    """Why a study that was started with the facts `known` cannot continue with those of `definition`, `fresh`."""
    found = [*_changes(known, fresh, definition), *_other_inputs(definition, study)]
    return found or _other_settings(definition, study)


def _changes(known: Mapping[str, Any], fresh: Mapping[str, Any], definition: Definition) -> list[str]:
    """Why a study cannot continue with this definition; number of trials, sampler and pruner may change.

    A pruner by items (`wilcoxon`) and one by steps cannot follow each other: what trials have reported to the study is
    then of the other kind.
    """
    found = []
    words = {
        "space": "another space",
        "metrics": "other metrics",
        "fixed": "other settings of its trials",
        "reports": "a pruner of another kind",
    }
    for part, text in words.items():
        old, new = known.get(part, fresh[part] if part == "reports" else {}), fresh[part]  # older studies lack it
        keys = [key for key in sorted({*old, *new}) if old.get(key) != new.get(key)]
        if keys:
            listed = "; ".join(f"{key}: {_short(old.get(key))} → {_short(new.get(key))}" for key in keys)
            found.append(
                f"the study '{definition.name}' in {definition.storage} was started with {text} ({listed}), so its "
                "trials could not be compared. Give this search another name: sweep.name=NAME."
            )
    return found


def other_inputs(folder: RunFolder, former: RunFolder) -> list[str]:
    """Names of the texts and own modules that differ between the runs of two trials."""
    here, there = inputs.remembered(folder), inputs.remembered(former)
    return inputs.other_texts(here, there, folder.config(), former.config()) + inputs.other_modules(here, there)


def _other_inputs(definition: Definition, study: Any) -> list[str]:
    """Why a study cannot continue: its texts or its own code have changed since its first finished trial began.

    Nor can it if it has finished trials but none of their runs, from which this would be seen.
    """
    runs = (path.parent for trial in _trials(definition) for path in trial.glob("seed*/config.yaml"))
    begun = [folder for path in runs if SEED_FOLDER.fullmatch(path.name) and (folder := RunFolder(path)).begun()]
    if not begun:
        states = [trial.state.name for trial in study.get_trials(deepcopy=False)]
        finished, counted = states.count("COMPLETE"), len(states) - states.count("WAITING")
        if not finished or counted >= definition.total:  # nothing further is tried
            return []
        return [
            f"the study '{definition.name}' in {definition.storage} has {finished} finished trials, but none of their "
            f"runs is in {definition.home}, so it is not known whether further trials would use the same texts. Name "
            "the folder that contains them (runs=DIR), put them back, or give this search another name: "
            "sweep.name=NAME."
        ]
    numbers = {trial.number for trial in study.get_trials(deepcopy=False) if trial.state.name == "COMPLETE"}
    by_number = {int(folder.row.removeprefix(TRIAL)): folder for folder in begun}
    first = by_number[min(by_number.keys() & numbers, default=max(by_number))]
    try:
        found = changed_inputs(load(first.path / "config.yaml"), first)
    except UserError as error:
        return [str(error)]
    names = [sentence.partition(" changed after ")[0] for sentence in found]
    return [
        f"{name} changed after {first.row} of the study '{definition.name}' was started, so further trials could not "
        "be compared with it. Restore the former contents, or give this search another name: sweep.name=NAME."
        for name in names
    ]


def _other_settings(definition: Definition, study: Any) -> list[str]:
    """Why a study cannot continue: its values now stand for other settings than those of one of its trials.

    This compares whole configurations, since `fixed` leaves out what an option of the space sets.
    """
    for trial in study.get_trials(deepcopy=False):
        begun = any(definition.home.glob(f"{TRIAL}{trial.number}/seed*/config.yaml"))
        if trial.state.name in ("WAITING", "FAIL") or not begun:
            continue  # a trial that was chosen, but not started, has perhaps not all values yet
        for config in definition.configs(trial.number, trial.params):
            folder = RunFolder(run_folder(config))
            if folder.begun() and (changes := changed_keys(folder.config(), to_dict(config))):
                values = "; ".join(f"{_short(old)} → {_short(new)}" for old, new in changes.values())
                return [
                    f"{', '.join(changes)} changed after {folder.row} of the study '{definition.name}' was started "
                    f"({values}), so further trials could not be compared with it. Restore the former contents, or "
                    "give this search another name: sweep.name=NAME."
                ]
    return []


def _short(value: Any) -> str:
    return "nothing" if value is None else json.dumps(value, ensure_ascii=False)


def refuse_foreign(definition: Definition, study: Any) -> None:
    """Refuse the study of another store, whose trials this search would not find.

    Raises:
        UserError: It was started there.
    """
    known = study.user_attrs.get(STORE)
    its_own = definition.settings.storage is None  # the storage is beside the trials, even if the file is lost
    if its_own or known is None or known["token"] == _token(definition):
        return
    with suppress(OSError):
        definition.home.rmdir()  # if it was made for this search
    raise UserError(
        f"the study '{definition.name}' in {definition.storage} was started on {known['host']} in {known['home']}, "
        f"and {definition.home} does not contain its {IDENTITY}: name the folder that contains its trials (runs=DIR), "
        "or give this search another name: sweep.name=NAME."
    )


def claim(definition: Definition, study: Any) -> None:
    """Record that a study belongs to this store.

    Raises:
        UserError: The store cannot be written.
    """
    if study.user_attrs.get(STORE) is not None:
        return
    if _token(definition) is None:
        with told_if_unwritable(definition.home, "; choose another place with runs=DIR."):
            write_text(definition.home / IDENTITY, f"{secrets.token_hex(8)}\n")
    where = {"host": socket.gethostname(), "home": str(definition.home)}
    study.set_user_attr(STORE, {"token": _token(definition), **where})


def _token(definition: Definition) -> str | None:
    try:
        return read_regular(definition.home / IDENTITY).strip()
    except FileNotFoundError:
        return None


def trial_folders(definition: Definition) -> list[str]:
    """Names of the folders of trials in this store, sorted."""
    return sorted(path.name for path in _trials(definition))


def _trials(definition: Definition) -> list[Path]:
    """Folders of trials; others with similar names, such as copies of them, are not."""
    return [p for p in definition.home.glob(f"{TRIAL}[0-9]*") if re.fullmatch(rf"{TRIAL}\d+", p.name) and p.is_dir()]


def refuse_orphans(definition: Definition) -> None:
    """Refuse folders of trials whose study is missing, which would be mistaken for those of a new study."""
    if left := trial_folders(definition):
        raise UserError(
            f"{definition.home} contains {len(left)} trials ({left[0]}, …), but their study is not in "
            f"{definition.storage}: name its storage with sweep.search.storage=…, or another search with sweep.name=…."
        )
