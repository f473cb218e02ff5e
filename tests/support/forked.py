"""Fast start of the commands that tests run: fork them from a process that has imported torch and Lightning.

Importing both takes about five seconds of CPU time, and the tests start hundreds of commands, which start rows, which
start ranks. This plugin makes `subprocess` fork our commands instead of starting an interpreter: scripts of this
project or beside a copy of the package, `-m variations…`, and `-c` with code that imports ours. In all other respects
the process is new: it has its own number, streams, folder, environment and signals, and imports our code anew. It is a
child of the requesting process (CLONE_PARENT), which can wait for it and kill it as usual. Variables that Python, torch
and their libraries read at startup must have the same values as here. Otherwise, and on systems other than Linux, a new
interpreter starts as usual. The same holds for the wheel's own environment, and for scripts that inspect what is
imported.

VARIATIONS_TEST_FORK=0 disables the plugin, as in `make torture`.
"""

import atexit
import ctypes
import gc
import importlib
import io
import json
import logging
import os
import platform
import random
import re
import runpy
import signal
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PYTHON = sys.executable
HEAVY = (
    "torch",
    "numpy",
    "pytorch_lightning",
    "hydra",
    "sentencepiece",
    "sacrebleu",
    "sacremoses",
    "rich.progress",
    "requests",
)
"""Slow imports. None of them is our code."""
OUR_IMPORT = re.compile(r"^\s*(from|import) variations\b", re.MULTILINE)
CLONE = {"x86_64": 56, "aarch64": 220}.get(platform.machine())
CLONE_PARENT, SET_NAME = 0x00008000, 15
NAME = "forks"
"""The process name of a forking server. Each forked process has one as its child."""
AT_THE_START = (
    "PYTHON",
    "LC_",
    "LANG",
    "LD_",
    "OMP_",
    "MKL_",
    "OPENBLAS_",
    "KMP_",
    "TORCH",
    "PYTORCH",
    "CUDA",
    "TRITON",
)
"""Prefixes of variables that are read at interpreter startup or on import of a library."""
LATER = (
    *("PYTHONPATH", "PYTHONUNBUFFERED", "PYTHONSAFEPATH", "PYTHONDONTWRITEBYTECODE"),
    *("TORCHINDUCTOR_CACHE_DIR", "PYTORCH_NVML_BASED_CUDA_CHECK", "CUDA_DEVICE_ORDER"),  # torch and Lightning set them
    "PYTHONBREAKPOINT",  # Ray sets it
    *("KMP_DUPLICATE_LIB_OK", "KMP_INIT_AT_FORK"),  # scikit-learn sets them, for Intel's OpenMP
)
"""Exceptions: variables that the forked process obeys, or that make no difference."""


def pytest_sessionstart() -> None:
    """Make `subprocess` fork our commands from now on."""
    if sys.platform.startswith("linux") and CLONE and os.environ.get("VARIATIONS_TEST_FORK") != "0":
        _patch(None)


def pytest_collection_finish() -> None:
    """Check that no test file, or what it imports, has set a variable that keeps commands from being forked."""
    from pytest import UsageError  # not needed by the process that forks

    changed = sorted(dict(_at_the_start(dict(os.environ)).items() ^ AT_START.items()))
    if changed:
        raise UsageError(f"collecting the tests set or removed {', '.join(changed)}: see LATER in {__file__}")


def _patch(server: socket.socket | None) -> None:
    start: Any = subprocess._fork_exec  # type: ignore[attr-defined]
    found = [server]

    def fork_exec(args: Sequence[str], executables: Sequence[bytes], *rest: Any) -> int:
        if _command(args, executables, rest[2]) is not None:
            if found[0] is None:
                found[0] = _server()
            number = _ask(found[0], args, *rest)
            if number:
                return number
        return int(start(args, executables, *rest))

    subprocess._fork_exec = fork_exec  # type: ignore[attr-defined]


# Client ----------------------------------------------------------------------------------------------------------


def _command(args: Sequence[Any], executables: Sequence[bytes], cwd: Any) -> tuple[bool, str, list[str]] | None:
    """Return whether `-P` is set; `-m`, `-c` or nothing; and the name or code with its arguments; None: not ours."""
    words = [os.fspath(word) for word in args]
    if list(executables) != [os.fsencode(PYTHON)] or not all(isinstance(word, str) for word in words):
        return None
    del words[0]
    safe = words[:1] == ["-P"]
    if safe:
        del words[0]
    if words[:1] == ["-m"] and len(words) > 1 and words[1].startswith("variations."):
        return safe, "-m", words[1:]
    if words[:1] == ["-c"] and len(words) > 1:
        inspects = "sys.modules" in words[1] or "importtime" in words[1]
        return (safe, "-c", words[1:]) if OUR_IMPORT.search(words[1]) and not inspects else None
    script = Path(cwd or "", *words[:1])
    ours = (script.parent / "variations").is_dir() or (ROOT in script.parents and script != Path(__file__))
    return (safe, "", words) if script.suffix == ".py" and ours else None


def _ask(
    server: socket.socket, args: Sequence[Any], close: bool, kept: Sequence[int], cwd: Any, env: Any,
    p2cread: int, p2cwrite: int, c2pread: int, c2pwrite: int, errread: int, errwrite: int,
    errpipe_read: int, errpipe_write: int, restore: bool, session: bool, *rest: Any,
) -> int:  # fmt: skip
    """Return the number of the forked process; 0 if the command must be started as usual."""
    *_, before, _ = rest
    folder = str(Path.cwd()) if cwd is None else os.fspath(cwd)
    listed = {os.fsencode(k): os.fsencode(v) for k, v in os.environ.items()}
    if env is not None:
        listed = dict(line.split(b"=", 1) for line in env)
    environment = {os.fsdecode(name): os.fsdecode(value) for name, value in listed.items()}
    plain = close and len(kept) == 1 and restore and before is None and Path(folder).is_dir()
    paths = environment.get("PYTHONPATH", "").split(os.pathsep)
    customized = any(Path(path, "sitecustomize.py").is_file() for path in paths if path)
    if not plain or customized or _at_the_start(environment) != AT_START or rest[:5] != (-1, None, None, None, -1):
        return 0
    streams = [given if given != -1 else own for own, given in enumerate((p2cread, c2pwrite, errwrite))]
    request = {"args": [os.fspath(word) for word in args], "env": environment, "cwd": folder, "session": session}
    text = json.dumps(request).encode()
    try:
        with ASKING:
            socket.send_fds(server, [len(text).to_bytes(8, "big")], streams)
            server.sendall(text)
            return int.from_bytes(_read(server, 8), "big")
    except (OSError, EOFError):  # a stream is closed, or the server is gone
        return 0


ASKING = threading.Lock()


def _at_the_start(environment: dict[str, str]) -> dict[str, str]:
    return {k: v for k, v in environment.items() if k.startswith(AT_THE_START) and k not in LATER}


AT_START: dict[str, str] = _at_the_start(dict(os.environ))


def _server() -> socket.socket:
    """Start a process that does the slow imports and then serves forks."""
    ours, theirs = socket.socketpair()
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    without = {k: v for k, v in os.environ.items() if k not in LATER}
    line = [PYTHON, "-P", __file__, str(theirs.fileno())]
    process = subprocess.Popen(line, env=without, pass_fds=[theirs.fileno()], **quiet)
    theirs.close()
    atexit.register(process.wait)
    atexit.register(ours.close)
    return ours


# Server ----------------------------------------------------------------------------------------------------------


def _read(end: socket.socket, count: int) -> bytes:
    found = b""
    while len(found) < count:
        part = end.recv(count - len(found))
        if not part:
            raise EOFError
        found += part
    return found


def _serve(end: socket.socket) -> None:
    """Fork for each request until the other end is closed. Only a forked process returns."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    libc = ctypes.PyDLL(None, use_errno=True)
    libc.prctl(SET_NAME, NAME.encode())
    while True:
        try:
            head, given, _, _ = socket.recv_fds(end, 8, 3)
            if not head:
                os._exit(0)
            size = int.from_bytes(head + _read(end, 8 - len(head)), "big")
            request = json.loads(_read(end, size))
        except (EOFError, OSError):
            os._exit(0)
        number = libc.syscall(CLONE, CLONE_PARENT | signal.SIGCHLD, 0, 0, 0, 0)
        if number == 0:
            ctypes.pythonapi.PyOS_AfterFork_Child()
            libc.prctl(SET_NAME, b"python")
            _become(request, given)
            return
        for stream in given:
            os.close(stream)
        end.sendall(max(number, 0).to_bytes(8, "big"))


def _become(request: dict[str, Any], streams: Sequence[int]) -> None:
    """Run as the requested process, and exit."""
    code, number = 1, 0
    try:
        if request["session"]:
            os.setsid()
        for own, given in enumerate(streams):
            os.dup2(given, own)
        os.closerange(3, 4096)
        server, number = _next_server()
        os.chdir(request["cwd"])
        os.environ.clear()
        os.environ.update(request["env"])
        signal.signal(signal.SIGINT, signal.default_int_handler)
        random.seed()
        sys.modules["numpy"].random.seed()
        _open_streams()
        os.fsync = lambda _: None  # as in conftest.py
        sys.dont_write_bytecode = bool(os.environ.get("PYTHONDONTWRITEBYTECODE"))
        _patch(server)
        found = _command(request["args"], [os.fsencode(PYTHON)], None)
        assert found is not None
        code = _run(*found)
    except BaseException:  # noqa: BLE001
        traceback.print_exc()
    finally:
        with suppress(OSError):
            if number:
                os.kill(number, signal.SIGKILL)
                os.waitpid(number, 0)
        os._exit(code)


def _open_streams() -> None:
    """Open the standard streams as the interpreter does, also for loggers of modules already imported."""
    unbuffered = bool(os.environ.get("PYTHONUNBUFFERED"))
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        old = getattr(sys, name)
        raw = os.fdopen(number, "rb" if number == 0 else "wb", buffering=0 if unbuffered and number else -1)
        new = io.TextIOWrapper(
            raw, old.encoding, old.errors, line_buffering=number == 2, write_through=unbuffered and number > 0
        )
        for place in (name, f"__{name}__"):
            setattr(sys, place, new)
        for handler in [reference() for reference in logging._handlerList]:  # type: ignore[attr-defined]
            if getattr(handler, "stream", None) is old:
                handler.stream = new
        KEPT.append(old)


KEPT: list[Any] = []
"""The server's streams, kept because deleting them would close their files."""


def _next_server() -> tuple[socket.socket, int]:
    """Fork a server from this process for the commands it starts; return its socket and process number."""
    ours, theirs = socket.socketpair()
    if (number := os.fork()) == 0:
        ours.close()
        nothing = os.open(os.devnull, os.O_RDWR)
        for stream in range(3):
            os.dup2(nothing, stream)
        _serve(theirs)
    theirs.close()
    return ours, number


def _run(safe: bool, kind: str, words: list[str]) -> int:
    """Run a command as the interpreter does, and return its exit code."""
    script = Path.cwd() / words[0] if not kind else None
    here = {"-m": str(Path.cwd()), "-c": ""}.get(kind, str(script and script.parent))
    first = [] if safe or os.environ.get("PYTHONSAFEPATH") else [here]
    given = os.environ.get("PYTHONPATH", "")
    sys.path[:0] = [*first, *(given.split(os.pathsep) if given else [])]
    sys.argv[:] = ["-c", *words[1:]] if kind == "-c" else words
    try:
        if kind == "-m":
            runpy.run_module(words[0], run_name="__main__", alter_sys=True)
        else:
            main = sys.modules["__main__"] = ModuleType("__main__")
            if script:
                main.__file__ = str(script)
            text = script.read_bytes() if script else words[0]
            exec(compile(text, str(script or "<string>"), "exec"), main.__dict__)
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
        if code and not isinstance(end.code, int):
            print(end.code, file=sys.stderr)
    except BaseException as error:  # noqa: BLE001
        sys.excepthook(type(error), error, error.__traceback__)
        code = 1
        if isinstance(error, KeyboardInterrupt):
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGINT)
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            code = code or 120
    return code


if __name__ == "__main__":
    for name in HEAVY:
        importlib.import_module(name)
    assert len(list(Path("/proc/self/task").iterdir())) == 1, "a process with several threads cannot be forked"
    gc.freeze()
    _serve(socket.socket(fileno=int(sys.argv[1])))
