"""HTML templates, and the environment that fills them in."""

from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined


def environment() -> Environment:
    """Jinja2 with every value escaped and every missing one an error."""
    return Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
