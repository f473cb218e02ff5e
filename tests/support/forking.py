"""Work done in a process forked from the test's, which has already imported all that is needed."""

import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

from variations.system.errors import UserError

UNCAUGHT = 99
"""Exit code of a process that raised an unexpected exception."""


def forked(work: Callable[[], object], log: Path) -> int:
    """Do the work in a forked process that prints to `log`; return its exit code."""
    child = os.fork()
    if child == 0:
        code = UNCAUGHT
        try:
            sys.stdout = sys.stderr = log.open("w", buffering=1)  # pytest has replaced both
            os.dup2(sys.stdout.fileno(), 1)
            os.dup2(sys.stdout.fileno(), 2)
            work()
            code = 0
        except UserError as error:
            print(f"error: {error}", file=sys.stderr)
            code = error.exit_code
        except SystemExit as asked:
            code = asked.code if isinstance(asked.code, int) else 1
        except BaseException:  # noqa: BLE001 - the parent's code must not continue in this process
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
