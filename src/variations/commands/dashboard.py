"""The verb `dashboard`: serves a run store to the browser, or writes it into one file."""

import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from variations.commands.cli import command
from variations.configuration.extras import need
from variations.configuration.schema import SweepConfig, number
from variations.dashboard.api import Api
from variations.dashboard.server import Server
from variations.dashboard.store import Store
from variations.dashboard.sweeps import index
from variations.system.errors import UserError

LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass
class DashboardConfig:
    """Keys of `src/dashboard.py`."""

    runs: str = "runs"
    """Root of the run store."""
    host: str = "127.0.0.1"
    """Address to listen on. The default is reached from this machine alone; others see all your runs, unasked."""
    port: int = number(8484, ge=0, le=65535)
    """0: any that is free."""
    sweep: SweepConfig = field(default_factory=SweepConfig)
    """Open this sweep first; with export, write this one alone: sweep=NAME."""
    export: str | None = None
    """Write one HTML file that works from the file system, and serve nothing."""
    open: bool = False
    """Also open the browser."""


def show(config: DashboardConfig) -> None:
    """Compare runs in the browser: tables, curves, configurations, translations, branch weights, attention.

    Reads the run store and follows running rows; needs no account and no network. Ctrl-C ends it.
    """
    need("dashboard", "The dashboard")
    root = Path(config.runs).expanduser()
    if root.exists() and not root.is_dir():
        raise UserError(f"runs={config.runs} is a file: give the folder that holds the runs.")
    if (root / "config.yaml").is_file():
        raise UserError(f"runs={config.runs} is the folder of one run: give the run store that it lies in.")
    store = Store(root)
    if config.export is not None:
        from variations.dashboard.export import write

        path = Path(config.export).expanduser()
        write(Api(store), config.sweep.name, path, "export")
        sys.stdout.write(f"{path}\n")
        return
    api = Api(store, sweep=config.sweep.name)
    server = Server(api, config.host, config.port)
    threading.Thread(target=_warm, args=(api,), daemon=True, name="first look").start()
    _announce(server, config, store)
    try:
        server.serve_forever(poll_interval=0.2)
    except KeyboardInterrupt:
        sys.stdout.write("\n")
    finally:
        server.ending.set()
        server.server_close()


def _announce(server: Server, config: DashboardConfig, store: Store) -> None:
    if not store.root.is_dir():
        sys.stderr.write(f"{store.root} does not exist yet: the page will show runs as soon as there are any.\n")
    if config.host not in LOOPBACK:
        sys.stderr.write("Other machines can reach this address, and anyone who does can read all runs.\n")
    sys.stdout.write(f"{server.url}\nCtrl-C ends the dashboard.\n")
    sys.stdout.flush()
    if config.open:
        import webbrowser

        webbrowser.open(server.url)


def _warm(api: Api) -> None:
    """Make the first view before the browser asks for it."""
    known = [entry["name"] for entry in index(api.store)["sweeps"]]
    first = api.sweep if api.sweep in known else next(iter(known), None)
    if first is not None:
        api.answer(f"sweep/{quote(first, safe='')}")


main = command(
    show,
    schema=DashboardConfig,
    config_name="dashboard",
    examples={
        "": "all runs below runs/",
        "sweep=quickstart open=true": "one sweep first, in the browser",
        "port=0": "any free port",
        "sweep=quickstart export=quickstart.html": "one file to send to a colleague",
    },
)
