"""What a terminal shows while the user waits."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def status_line(text: str, show: bool = True) -> Iterator[Callable[[str], None]]:
    """A line with a spinner on standard error, and a function that adds a detail to it.

    Nothing is written if `show` is false or standard error is not a terminal.
    """
    from rich.console import Console

    console = Console(stderr=True)
    if not (show and console.is_terminal):
        yield lambda detail: None
        return
    with console.status(text) as status:
        yield lambda detail: status.update(f"{text}: {detail}")
