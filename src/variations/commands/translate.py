"""The verb `translate`, which the task of translation brings."""

from variations.commands.cli import command_of

main = command_of("translation", "translate")
