"""What long work on files shows on the terminal."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any


@contextmanager
def download_bar(name: str, progress: bool) -> Iterator[Callable[[int, int | None], None]]:
    """A bar on the terminal for `name`, fed with (bytes so far, total or None); nothing where stderr is a file."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True, disable=not (progress and console.is_terminal)) as bar:
        task = bar.add_task(f"Downloading {name}", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def status_line(text: str, progress: bool) -> AbstractContextManager[Any]:
    """A moving line on the terminal; nothing where stderr is a file."""
    from rich.console import Console

    console = Console(stderr=True)
    return console.status(text) if progress and console.is_terminal else nullcontext()
