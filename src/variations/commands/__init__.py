"""One file a verb: its schema, its examples, what it does."""

import sys
from importlib.util import find_spec

if find_spec("hydra") is None:  # every verb needs it: this Python is not the one of the installation
    sys.exit(
        f"error: {sys.executable} does not have the packages of Variations: run `make setup` in the clone once, then "
        "`source .venv/bin/activate` in each new shell."
    )
