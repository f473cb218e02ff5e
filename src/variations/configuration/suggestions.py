"""What the user probably meant: near names, and what other systems call our keys."""

import difflib
from collections.abc import Iterator, Sequence
from pathlib import Path

from hydra.core.object_type import ObjectType

from variations.configuration.hydra_door import Loader
from variations.configuration.places import IN_CHECKOUT, SINGLE, spelled

OTHER_NAMES = {
    "heads": "model.h",
    "num_heads": "model.h",
    "n_heads": "model.h",
    "layers": "model.N",
    "num_layers": "model.N",
    "n_layers": "model.N",
    "n": "model.N",
    "hidden_size": "model.d_model",
    "width": "model.d_model",
    "ffn_size": "model.d_ff",
    "branches": "branch.M",
    "learning_rate": "recipe.lr",
    "batch_size": "recipe.batch_tokens",
    "warmup_steps": "recipe.warmup",
    "steps": "trainer.max_steps",
    "gpus": "trainer.devices",
    "accumulate_grad_batches": "trainer.tokens_per_batch",
    "beam_size": "decode.beam",
    "length_penalty": "decode.alpha",
    "vocab_size": "data.vocabulary",
    "lenpen": "decode.alpha",
    "embedding_size": "model.d",
    "n_hops": "model.hops",
    "babi_root": "data.root",
    "output": "runs",
    "output_dir": "runs",
    "out": "records",
}
"""What other systems call our keys."""


ANSWERS = {
    "experiment": "type variation=TABLE/ROW for a row of a table, --multirun sweep=NAME for a whole table",
    "launcher": "hydra/launcher=slurm, =ray or =local chooses where a sweep's runs are executed",
    "hparams_search": "a search is a sweep, such as --multirun sweep=search_toy",
    "ckpt_path": "an interrupted run continues from its last checkpoint when the same command is run again",
    "callback": "callbacks=early_stopping chooses one of ours, callbacks.NAME={_target_: package.module.Class} any "
    "other; checkpoints, averaging and the progress bar are set by trainer.checkpoint_every, recipe.average and "
    "trainer.progress",
    "model.activation": "it is ReLU, as in the paper; for another one, write a class that derives from Transformer "
    "(docs/adding-a-variation.md, A part of the Transformer)",
    "epochs": "the length of training is counted in updates: trainer.max_steps",
    "print_config": "--cfg job prints the configuration",
}
"""What to type here for groups and keys that other projects have."""
ANSWERS |= dict.fromkeys(("max_epochs", "trainer.max_epochs"), ANSWERS["epochs"])
ANSWERS |= dict.fromkeys(("resume", "resume_from_checkpoint", "checkpoint"), ANSWERS["ckpt_path"])

OPTIONAL = ("sweep", "variation")
"""Groups without a default option."""
OFF = {"logger": "none", "debug": "none"}
"""Groups that always have an option, and the option that switches them off."""


OPEN = ("callbacks", "trainer.extra", "logger.further", "model.options")
"""Keys whose contents other packages define; Hydra requires `++` before keys that are not in its schema."""


def switched_off(line: str) -> str:
    """The line in Hydra's syntax, where a group cannot be null, and `~logger` would leave the schema's default."""
    name, _, value = line.lstrip("~").partition("=")
    if not line.startswith("~") and (name in OPEN[1:] or name.startswith(tuple(f"{key}." for key in OPEN))):
        return f"++{line}"
    if name in OFF and (line.startswith("~") or value == "null"):
        return f"{name}={OFF[name]}"
    return f"~{name}" if name in OPTIONAL and value == "null" else line


HIDDEN = ("hydra", "recipe_size", "debug_of")
"""Groups that are not meant to be typed."""


MANY = 24
"""Options of a group above which a message does not list them all."""


FAR_BEHIND = 0.15
"""A choice that is less similar than the best one by this much is not suggested beside it."""


def nearest(word: str, choices: Sequence[str], *, n: int = 1, cutoff: float = 0.6) -> list[str]:
    """At most `n` of the choices, the most similar first; those that are far behind it are left out.

    Args:
        word: What was typed.
        choices: What could be meant.
        n: The most choices to return.
        cutoff: Least similarity, between 0 and 1.
    """
    found = difflib.get_close_matches(word, choices, n=n, cutoff=cutoff)
    return [choice for choice in found if _similarity(word, choice) > _similarity(word, found[0]) - FAR_BEHIND]


def _similarity(word: str, choice: str) -> float:
    return difflib.SequenceMatcher(a=choice, b=word).ratio()


def did_you_mean(word: str, choices: Sequence[str]) -> str:
    """Return ` Did you mean 'x'?`, or nothing when no choice is near."""
    near = nearest(word, choices)
    return f" Did you mean '{near[0]}'?" if near else ""


def walk_groups(loader: Loader, parent: str = "") -> Iterator[str]:
    """Yield every group of `conf/` and of Hydra, nested ones too (`hydra/launcher`)."""
    for name in loader.repository.get_group_options(parent, ObjectType.GROUP):
        group = f"{parent}/{name}" if parent else name
        if loader.repository.get_group_options(group, ObjectType.CONFIG) or parent == "":
            yield group
        yield from walk_groups(loader, group)


def options(loader: Loader, group: str) -> list[str]:
    """Return the options of a group; those in a subfolder as `table/row`."""
    found = sorted(loader.repository.get_group_options(group, ObjectType.CONFIG))
    if group == "hydra" or group.startswith("hydra/"):
        return [name for name in found if name != "basic"]  # Hydra's own launcher and sweeper are not supported
    for name in sorted(loader.repository.get_group_options(group, ObjectType.GROUP)):
        found += [f"{name}/{option}" for option in options(loader, f"{group}/{name}")]
    return found


def options_text(group: str, choice: str, valid: list[str]) -> str:
    """Name the most similar options of a group and then all valid ones; if they are many, where they are listed."""
    if not valid:
        return f" The group {group} is empty."
    table, _, row = choice.rpartition("/")
    rows = [option for option in valid if table and option.startswith(f"{table}/")]
    if rows:
        near = [f"{table}/{name}" for name in nearest(row, [option.removeprefix(f"{table}/") for option in rows], n=3)]
        shown, of = rows, "Rows of this table"
    else:
        same_row = [option for option in valid if not table and option.rsplit("/", 1)[-1] == choice]
        near = same_row or nearest(choice, valid, n=3)
        shown, of = valid, f"Valid choices for {group}"
        if inside := [option for option in valid if option.startswith(f"{choice}/")]:
            return f" {choice} is a table: choose one of its rows, {', '.join(inside)}."
        tables = dict.fromkeys(option.rpartition("/")[0] for option in valid if "/" in option)
        if tables and len(shown) > MANY:
            shown, of = list(tables), f"Type {group}=TABLE/ROW; tables"
    said = f" Did you mean {' or '.join(map(repr, near[:3]))}?" if near else ""
    if group == "sweep" and choice not in ("", ".", SINGLE) and Path("runs", choice).is_dir():
        said += f" runs/{choice} has runs of that sweep.name: type sweep=FILE sweep.name={choice}."
    own = "" if near or rows else f" One of your own: {own_option(group, choice)}."
    if len(shown) <= MANY:
        return f"{said} {of}: {', '.join(shown)}.{own}"
    return f"{said} There are {len(shown)}; {listing()}.{own}"


def own_option(group: str, choice: str) -> str:
    """Where a file of one's own may be that was not found."""
    if group in ("task", "schema"):
        return "a task must be in an installed package, or in one whose folder is on PYTHONPATH"
    new = f"write it with {spelled('new')} {choice}" if group == "sweep" else f"write conf/{group}/{choice}.yaml"
    here = f"{new}, " if IN_CHECKOUT else ""
    here += f"type sweep.name={choice} if it was named so, " if group == "sweep" else ""
    return f"{here}install its package, or name its folder with --config-dir=FOLDER"


def listing() -> str:
    """Say which command lists all options of all groups, including those of other packages."""
    return f"{spelled('train')} --help lists them"


def unknown_key(
    name: str, line: str, keys: list[str], groups: list[str], loader: Loader, tasks: Sequence[str] = ()
) -> str:
    """Say that a key does not exist, and which one was probably meant, or which `tasks` have it."""
    last, value = name.rsplit(".", 1)[-1], line.partition("=")[2]
    if name in ANSWERS:
        return f"{line}: there is no key or group '{name}': {ANSWERS[name]}."
    if (several := {"row": "rows", "seed": "seeds"}.get(name)) and several in keys:
        one = " For one run of a row, type variation=TABLE/ROW." if name == "row" and "variation.row" in keys else ""
        return f"{line}: there is no key or group '{name}'. Did you mean {several}=[{value.strip('[]')}]?{one}"
    near = nearest(name, keys)
    of_a_key = last.lower() in OTHER_NAMES or (near and near == nearest(name, [*groups, *keys]))
    group = None if of_a_key else _near_group(name, value, groups, loader)
    if group is not None:
        return f"{line}: there is no key or group '{name}'. Did you mean {group}?"
    same_end = [key for key in keys if key.rsplit(".", 1)[-1].lower() == last.lower()]
    known_elsewhere = [key for key in [OTHER_NAMES.get(last.lower())] if key in keys]
    meant: list[str | None] = [*same_end[:1], *known_elsewhere]
    elsewhere = f" It is a key of {' and '.join(f'task={task}' for task in tasks)}." if tasks else ""
    if not meant and "." in name:
        part = name.rsplit(".", 1)[0]
        ends = [key[len(part) + 1 :] for key in keys if key.startswith(f"{part}.")]
        meant += [f"{part}.{end}" for end in nearest(last, ends)]
        if ends and not meant:
            return f"{line}: there is no key '{name}'. Keys of {part}: {', '.join(ends)}.{elsewhere}"
    if not meant and elsewhere:
        return f"{line}: there is no key '{name}' here.{elsewhere}"
    if not meant:
        meant += near or _near_end(last, keys)
    hint = f" Did you mean {meant[0]}{f'={value}' if value else ''}?" if meant else " --help lists them."
    return f"{line}: there is no key or group '{name}'.{hint}"


def _near_group(name: str, value: str, groups: Sequence[str], loader: Loader) -> str | None:
    if "." in name:
        return None
    plain = [group for group in groups if "/" not in group and group not in HIDDEN]
    near = nearest(name, plain)
    owners = near or [group for group in plain if value in options(loader, group)]
    if not owners:
        return None
    return f"{owners[0]}={value}" if value in options(loader, owners[0]) else f"'{owners[0]}'"


def _near_end(last: str, keys: Sequence[str]) -> list[str]:
    by_end = {key.rsplit(".", 1)[-1]: key for key in keys}
    return [by_end[end] for end in nearest(last, list(by_end), cutoff=0.75)]


def shortened(names: Sequence[str], separator: str, most: int = 5) -> str:
    """The first `most` names and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return separator.join(names[:most]) + more


def listed_rows(rows: Sequence[str]) -> str:
    """`row a`, or `rows a, b and 3 more`."""
    return f"row{'s' if len(rows) > 1 else ''} {shortened(rows, ', ')}"
