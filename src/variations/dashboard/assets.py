"""Files of the page itself: ours in `static/`, and BokehJS from the installed package. Only listed files are served."""

import importlib.util
from functools import cache
from pathlib import Path

from variations.system.errors import UserError

STATIC = Path(__file__).resolve().parent / "static"
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".woff2": "font/woff2",
}
BOKEH = ("bokeh.min.js", "bokeh-api.min.js", "bokeh-gl.min.js", "bokeh-tables.min.js", "bokeh-widgets.min.js")


def static_file(name: str) -> Path:
    """One of our files by its name below `static/`. Raises KeyError for any other name."""
    return _static()[name]


def bokeh_file(name: str) -> Path:
    """One of BOKEH. Raises KeyError for another name, UserError if Bokeh is not installed."""
    if name not in BOKEH:
        raise KeyError(name)
    spec = importlib.util.find_spec("bokeh")
    folders = list(spec.submodule_search_locations or ()) if spec else []
    for folder in folders:
        path = Path(folder) / "server" / "static" / "js" / name
        if path.is_file():
            return path
    raise UserError("BokehJS is missing: install the project again (`pip install -e .`).")


def _static() -> dict[str, Path]:
    found = (path for path in STATIC.rglob("*") if path.suffix in TYPES and path.is_file() and not path.is_symlink())
    return {path.relative_to(STATIC).as_posix(): path for path in found}


@cache
def media_type(suffix: str) -> str:
    """Content-Type of a file's suffix."""
    return TYPES[suffix]
