"""Tab completion in bash: what the shell evaluates once, and what may be typed next.

Hydra's own is not used: it runs any Python file that stands on the command line.
"""

import os
import re
import shlex
from pathlib import Path
from typing import Any

from variations.commands.console import VERBS
from variations.commands.preflight import task_of, with_task
from variations.configuration.compose import loader
from variations.configuration.overrides import Key, leaf_keys
from variations.configuration.places import IN_CHECKOUT, PROGRAM
from variations.configuration.schema import RunConfig
from variations.configuration.suggestions import HIDDEN, options, walk_groups
from variations.configuration.tasks import schema_for
from variations.system.errors import ConfigError

SCRIPT = """\
_variations() {{
    local command=("${{COMP_WORDS[0]}}" "${{COMP_WORDS[1]}}") line="${{COMP_LINE:0:COMP_POINT}}"
    local word="${{line##*[[:space:]]}}" verb="${{COMP_WORDS[1]}}" path
    COMPREPLY=()
    if [[ "${{command[0]##*/}}" != {program} ]]; then
        path="$(realpath -- "$verb" 2> /dev/null)"
        [[ "${{path%/*}}" == {source} && "$path" == *.py ]] || return
        verb="${{path##*/}}" verb="${{verb%.py}}"
    elif ((COMP_CWORD == 1)); then
        COMPREPLY=($(compgen -W "{verbs}" -- "$word"))
        return
    fi
    [[ " {verbs} " == *" $verb "* ]] || return
    compopt -o nospace 2> /dev/null  # a value follows, or the next part of a list
    COMPREPLY=($(COMP_LINE="$line" "${{command[@]}}" --shell-completion query=bash 2> /dev/null))
    COMPREPLY=("${{COMPREPLY[@]#"${{word%"${{word##*[=:]}}"}}"}}")  # bash replaces what follows the last = or :
}}
complete -o default -F _variations {commands}
"""


def completion(asked: list[str], schema: type[Any], config_name: str) -> str:
    """Answer `--shell-completion install=bash`, which a user types, or `query=bash`, which the script above types.

    Raises:
        ConfigError: It is neither.
    """
    if asked == ["install=bash"]:
        source = shlex.quote(str(Path(__file__).resolve().parents[2]))
        commands = f"python python3 {PROGRAM}" if IN_CHECKOUT else PROGRAM
        return SCRIPT.format(program=PROGRAM, source=source, verbs=" ".join(VERBS), commands=commands)
    if asked == ["query=bash"]:
        return "".join(f"{word}\n" for word in candidates(os.environ.get("COMP_LINE", ""), schema, config_name))
    raise ConfigError(["--shell-completion: the valid choice is install=bash; there is none for other shells."])


def candidates(line: str, schema: type[Any], config_name: str) -> list[str]:
    """What the last word of a command line may become: keys and groups, or after `=` their values."""
    word = re.split(r"\s", line)[-1]
    groups: list[str] = []
    if issubclass(schema, RunConfig):
        typed = with_task(re.findall(r"\b\w\S*=\S*(?=\s)", line))
        schema = schema_for(schema, task_of(typed, config_name))
        groups = [name for name in walk_groups(loader()) if name not in HIDDEN]
    keys = leaf_keys(schema)
    if not groups and "sweep.name" in keys:
        groups = ["sweep"]
    name, equals, value = word.partition("=")
    if not equals:
        return list(dict.fromkeys(f"{key}=" for key in (*groups, *keys) if key.startswith(word)))
    before, comma, _ = value.rpartition(",")
    values = options(loader(), name) if name in groups else _values(keys[name]) if name in keys else []
    whole = (f"{name}={before}{comma}{each}" for each in values)
    return [each for each in whole if each.startswith(word)]


def _values(key: Key) -> list[str]:
    return ["true", "false"] if key.type is bool else [str(each) for each in key.metadata.get("choices", ())]
