"""Where the configuration files are: in a checkout `conf/` and `sweeps/`, in an installed package its copy of them.

`_conf` stands in the package: a symbolic link to `conf/` in a checkout, a folder of files in a wheel. The sweeps are
its group `sweep`, which in a checkout is a link to `sweeps/`.
"""

from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
CONF = (PACKAGE / "_conf").resolve()
SWEEPS = CONF / "sweep"
IN_CHECKOUT = CONF.name == "conf"
"""Whether the code runs from a checkout, where the verbs are files in `src/`."""
