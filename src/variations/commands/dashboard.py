"""The verb `dashboard`: serves a run store to the browser, or exports it to one file."""

import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from variations.commands.cli import command, typed_settings
from variations.commands.stored import root_of
from variations.configuration.compose import loader
from variations.configuration.extras import need
from variations.configuration.overrides import quoted
from variations.configuration.schema import SweepConfig, default_cache, number
from variations.configuration.suggestions import options
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
    """Address to listen on. The default can be reached only from this machine; with another address, everyone who can
    reach it can see all runs."""
    port: int = number(8484, ge=0, le=65535)
    """Port; 0: any free one."""
    sweep: SweepConfig = field(default_factory=SweepConfig)
    """Show this sweep first; with export, write only this one: sweep=NAME."""
    export: str | None = None
    """Write one HTML file that works without a server, and serve nothing."""
    open: bool = False
    """Open the page in the browser."""


def show(config: DashboardConfig) -> None:
    """Compare runs in the browser: tables, curves, configurations, translations, branch weights, attention.

    It reads the run store and follows running rows; it needs no account and no network. Ctrl-C ends it.
    """
    need("dashboard", "The dashboard")
    if given := typed_settings("sweep"):
        raise UserError(f"The dashboard shows sweeps with the metric of their runs: leave {' and '.join(given)} out.")
    store = Store(root_of(config.runs), Path(default_cache()).expanduser())
    if any(store.root.glob("*/seed*/config.yaml")):
        raise UserError(f"runs={config.runs} contains the rows of a sweep: give its parent, runs={store.root.parent}.")
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


def by_name(lines: list[str]) -> list[str]:
    """The overrides, with `sweep.name=NAME` for a `sweep=NAME` that has runs in the store but no file."""
    typed = {key: value.strip("'\"") for key, _, value in (line.partition("=") for line in lines)}
    name, root = typed.get("sweep", ""), Path(typed.get("runs", DashboardConfig.runs)).expanduser()
    if not name or "/" in name or name.startswith(".") or not (root / name).is_dir():
        return lines
    if name in options(loader(), "sweep"):
        return lines
    return [f"sweep.name={quoted(name)}" if line.startswith("sweep=") else line for line in lines]


def _announce(server: Server, config: DashboardConfig, store: Store) -> None:
    if not store.root.is_dir():
        sys.stderr.write(f"{store.root} does not exist yet: the page will show runs once there are any.\n")
    if config.host not in LOOPBACK:
        sys.stderr.write("Other machines can reach this address, and anyone there can read all runs.\n")
    sys.stdout.write(f"{server.url}\nCtrl-C ends the dashboard.\n")
    sys.stdout.flush()
    if config.open:
        import webbrowser

        webbrowser.open(server.url)


def _warm(api: Api) -> None:
    """Prepare the first view before the browser requests it."""
    known = [entry["name"] for entry in index(api.store)["sweeps"]]
    first = api.sweep if api.sweep in known else next(iter(known), None)
    if first is not None:
        api.answer(f"sweep/{quote(first, safe='')}")


main = command(
    show,
    schema=DashboardConfig,
    config_name="dashboard",
    reworded=by_name,
    examples={
        "": "all runs below runs/",
        "sweep=quickstart open=true": "show one sweep first, and open the browser",
        "port=0": "any free port",
        "sweep=quickstart export=quickstart.html": "one file that can be sent to a colleague",
    },
)
