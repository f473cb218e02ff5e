"""The verb `wandb_report`: a saved workspace and a report of a sweep, made with wandb-workspaces.

Saved again, both keep their address: what was saved is remembered in `<runs>/<sweep>/wandb_report.json`.
"""

import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from variations.commands.cli import command
from variations.commands.stored import SweepKeys
from variations.configuration.extras import need
from variations.store.atomic import destination, read_object, refuse_unwritable_file, told_if_unwritable, write_json
from variations.system.errors import UserError
from variations.tables.chance import SignificanceConfig
from variations.tables.formats import markdown
from variations.tables.line import Table
from variations.tables.table import build
from variations.training.tracking.mode import logged_in, without_key

ADVICE = ". This file keeps the addresses of the workspace and the report: choose a run store that can be written."


@dataclass
class ReportConfig(SweepKeys):
    """Keys of `src/wandb_report.py`; the sweep's runs are those of the W&B group of its name."""

    project: str = "variations"
    """W&B project, as logger.project when the runs were made."""
    entity: str | None = None
    """W&B user or team; null: your own."""
    dry_run: bool = False
    """Only write what would be saved, as JSON; nothing is sent, and no account is needed."""
    out: str | None = None
    """File for dry_run; null: <runs>/<sweep>/wandb_report-dry.json."""
    significance: SignificanceConfig = field(default_factory=SignificanceConfig)
    """How differences in the table are tested."""


def report(config: ReportConfig) -> None:
    """Save a W&B workspace and a report of a sweep: table, curves, scatter plots, branch weights, attention.

    Rows are grouped and seeds averaged. Needs runs that were logged online or sent by `wandb sync`, and a login.
    """
    need("wandb", "A workspace and a report in W&B")
    sweep = config.definition().with_bases()
    os.environ["WANDB_SILENT"] = "true"  # W&B says nothing of its own
    if not config.dry_run and not logged_in():
        raise UserError(
            "You are not logged in to W&B: run `wandb login`, or set WANDB_API_KEY; dry_run=true writes to a file what "
            "would be saved."
        )
    table = build(sweep, config.store, config.significance)
    if config.dry_run:
        out = Path(config.out).expanduser() if config.out else config.home / "wandb_report-dry.json"
        with told_if_unwritable(out):
            write_json(destination(out), specification(config, table))
        sys.stdout.write(f"{out}\n")
        return
    for kind, address in _save(config, table, config.home / "wandb_report.json").items():
        sys.stdout.write(f"{kind}: {address}\n")


def specification(config: ReportConfig, table: Table) -> dict[str, Any]:
    """What `report` would save, in wandb-workspaces' own form."""
    from variations.commands.wandb_panels import report_of, workspace_of

    entity = config.entity or ""
    workspace = workspace_of(config.sweep.name or "", entity, config.project, table)
    # Without an entity, nothing is looked up.
    written = report_of(config.sweep.name or "", "", config.project, table, markdown(table))
    return {
        "project": config.project,
        "entity": config.entity,
        "workspace": workspace._to_model().spec.model_dump(mode="json", by_alias=True, exclude_none=True),
        "report": written._to_model().spec.model_dump(mode="json", by_alias=True, exclude_none=True),
    }


def _save(config: ReportConfig, table: Table, remembered: Path) -> dict[str, str]:
    """Save both, over what was saved before, and return their addresses."""
    import wandb

    from variations.commands.wandb_panels import report_of, workspace_of

    name = config.sweep.name or ""
    before = read_object(remembered) or {}
    refuse_unwritable_file(remembered, ADVICE)  # before anything is sent
    try:
        entity = config.entity or str(wandb.Api().default_entity)
        place = {"entity": entity, "project": config.project}
        known = before if before.get("place") == place else {}
        workspace = workspace_of(name, entity, config.project, table)
        workspace._internal_name, workspace._internal_id = known.get("workspace", ("", ""))
        workspace.save()
        # Before anything else may fail: the next try would make a second one.
        known = {**known, "place": place, "workspace": [workspace._internal_name, workspace._internal_id]}
        with told_if_unwritable(remembered, ADVICE):
            write_json(remembered, known)
        written = report_of(name, entity, config.project, table, markdown(table))
        written.id = known.get("report", "")
        written.save()
    except UserError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever a service or a library says, the user must not see the key
        raise UserError(
            f"W&B refused the report of {name!r}: {without_key(str(error))} Check that the project "
            f"{config.project!r} holds its runs, and the login (`wandb login`)."
        ) from None
    with told_if_unwritable(remembered, ADVICE):
        write_json(remembered, {**known, "report": written.id})
    return {"workspace": workspace.url, "report": written.url}


main = command(
    report,
    schema=ReportConfig,
    config_name="wandb_report",
    examples={
        "sweep=quickstart": "saves both and prints their addresses",
        "sweep=quickstart entity=TEAM": "in a team's project",
        "sweep=quickstart dry_run=true": "writes what would be saved; no account needed",
    },
)
