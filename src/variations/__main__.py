"""`python -m variations VERB …`, the same as the console command."""

from variations.commands.console import main

main()
