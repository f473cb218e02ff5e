"""The verb `translate`, which belongs to the translation task."""

from variations.commands.cli import command_of

main = command_of("translation", "translate")
