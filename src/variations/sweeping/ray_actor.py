"""What Ray starts for a run: an actor that supervises `python -m variations.commands.run FOLDER` and ends with it."""

import signal
import subprocess
import threading
from pathlib import Path

from variations.store.atomic import write_json
from variations.sweeping import supervise


class RunActor:
    """One run. How it ended is written to a note before the actor exits.

    Args:
        folder: The run's folder.
        note: File for its exit code.
        key: The run's in the pool.
    """

    def __init__(self, folder: str, note: str, key: str) -> None:
        # Ray's workers block SIGINT, and child processes inherit this.
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        self._note = Path(note)
        self._asked: int | None = None
        self._process = supervise.start(Path(folder), key=key)
        threading.Thread(target=self._wait, args=(self._process,), name="run", daemon=True).start()

    def stop(self) -> None:
        """Ask the run to save and end."""
        self._asked = signal.SIGTERM
        self._process.terminate()

    def pid(self) -> int:
        """Return the run's process, on the actor's machine."""
        return self._process.pid

    def _wait(self, process: "subprocess.Popen[bytes]") -> None:
        import ray

        code = supervise.settled(process.wait(), self._asked)
        killed = "killed by SIGKILL, probably because the machine ran out of memory" if code == -signal.SIGKILL else ""
        try:
            write_json(self._note, {"code": code, "reason": killed})
        finally:  # without a note, the run's status tells the sweep how it ended
            ray.get_runtime_context().current_actor.__ray_terminate__.remote()
