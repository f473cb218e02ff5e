"""Unexpected exceptions in words: one line for a run's status, and a traceback of the frames that matter."""

import re
import traceback
from collections.abc import Collection

_LIBRARIES = ("hydra", "omegaconf", "pytorch_lightning", "lightning_fabric", "torch")
_OF_A_LIBRARY = re.compile(rf"[/\\]site-packages[/\\]({'|'.join(_LIBRARIES)})[/\\]")

_INSTEAD_OF_TORCH = re.compile(r"[/\\]variations[/\\]training[/\\]bf16\.py$")
"""Products that take the place of torch's: whoever asked for them is at fault."""


def raised(error: BaseException, files: Collection[str] = ()) -> str:
    """An unexpected exception, with its place: `KeyError in FILE, line 3: 'd_f'`.

    Args:
        error: The exception, which has been caught.
        files: Somebody's own modules: the last line of theirs in the traceback is named, if there is one; otherwise the
            last line of all.
    """
    frames = _frames(traceback.extract_tb(error.__traceback__))
    last = ([frame for frame in frames if frame.filename in files] or frames)[-1]
    file, line, said = last.filename, last.lineno, str(error)
    if isinstance(error, SyntaxError):
        file, line, said = str(error.filename), error.lineno, error.msg
    said = said.strip().rstrip(".")
    return f"{type(error).__name__} in {file}, line {line}" + (f": {said}" if said else "")


def _frames(stack: traceback.StackSummary) -> list[traceback.FrameSummary]:
    return [frame for frame in stack if not _INSTEAD_OF_TORCH.search(frame.filename)]


def short_traceback(error: BaseException) -> str:
    """The traceback of an exception and of its causes without the frames of `_LIBRARIES`, except the last one."""
    found = traceback.TracebackException.from_exception(error)
    pending: list[traceback.TracebackException | None] = [found]
    while pending:
        each = pending.pop()
        if each is not None:
            frames = _frames(each.stack)
            kept = [f for n, f in enumerate(frames, 1) if n == len(frames) or not _OF_A_LIBRARY.search(f.filename)]
            each.stack = traceback.StackSummary.from_list(kept)
            pending += [each.__cause__, each.__context__]
    return "".join(found.format())
