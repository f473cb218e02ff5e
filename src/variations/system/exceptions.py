"""Unexpected exceptions in words: one line for a run's status, and a traceback of the frames that matter."""

import re
import traceback
from collections.abc import Collection

_LIBRARIES = ("hydra", "omegaconf", "pytorch_lightning", "lightning_fabric", "torch")
_OF_A_LIBRARY = re.compile(rf"[/\\]site-packages[/\\]({'|'.join(_LIBRARIES)})[/\\]")


def raised(error: BaseException, files: Collection[str] = ()) -> str:
    """An unexpected exception, with its place: `KeyError in FILE, line 3: 'd_f'`.

    Args:
        error: The exception, which has been caught.
        files: Somebody's own modules: the last line of theirs in the traceback is named, if there is one; otherwise the
            last line of all.
    """
    frames = traceback.extract_tb(error.__traceback__)
    last = ([frame for frame in frames if frame.filename in files] or frames)[-1]
    file, line, said = last.filename, last.lineno, str(error)
    if isinstance(error, SyntaxError):
        file, line, said = str(error.filename), error.lineno, error.msg
    said = said.strip().rstrip(".")
    return f"{type(error).__name__} in {file}, line {line}" + (f": {said}" if said else "")


def short_traceback(error: BaseException) -> str:
    """The traceback of an exception and of its causes without the frames of `_LIBRARIES`, except the last one."""
    found = traceback.TracebackException.from_exception(error)
    pending: list[traceback.TracebackException | None] = [found]
    while pending:
        each = pending.pop()
        if each is not None:
            last = len(each.stack) - 1
            kept = [f for n, f in enumerate(each.stack) if n == last or not _OF_A_LIBRARY.search(f.filename)]
            each.stack = traceback.StackSummary.from_list(kept)
            pending += [each.__cause__, each.__context__]
    return "".join(found.format())
