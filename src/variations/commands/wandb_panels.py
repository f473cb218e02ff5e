"""Panels of a sweep for W&B: a workspace and a report that show the same, rows grouped and seeds averaged."""

import importlib
from typing import Any

from variations.configuration.places import spelled
from variations.tables.line import Table
from variations.training.tracking.weights_and_biases import STEP

COSTS = {"parameters": "parameters", "flops": "training FLOPs", "seconds": "training seconds"}
"""Keys of the summary that scores are drawn against."""


def score_key(table: Table) -> str:
    """Key in the summary of the table's first measure, as `test/bleu`."""
    key = table.primary.key
    return key.replace(".", "/") if "." in key else f"final/{key}"


def panels_of(table: Table, grouped: str | None) -> dict[str, list[Any]]:
    """Panels by heading.

    Args:
        table: For its measure and its models.
        grouped: Attribute by which each panel groups runs; None where the set of runs is grouped already.
    """
    wr = _library("reports.v2")

    average: dict[str, Any] = {"groupby_aggfunc": "mean", "groupby_rangefunc": "minmax"}
    if grouped is not None:
        average["groupby"] = grouped
    score, label = score_key(table), table.primary.label
    curves = table.task.curves
    found: dict[str, list[Any]] = {
        "Scores": [
            wr.BarPlot(title=f"{label}: mean over seeds", metrics=[score], **average),
            *(
                wr.ScatterPlot(
                    title=f"{label} against {name}", x=wr.SummaryMetric(key), y=wr.SummaryMetric(score), log_x=True
                )
                for key, name in COSTS.items()
            ),
        ],
        "Curves": [
            wr.LinePlot(
                title=key,
                x=STEP,
                y=[key],
                title_x="updates",
                title_y=key,
                log_y=key in curves and curves[key].logarithmic,
                **average,
            )
            for key in dict.fromkeys([*curves, "train/loss", "lr"])
        ],
    }
    if any(row.config.get("model", {}).get("kind") == "weighted" for row in rows_of(table)):
        found["Branch weights"] = [
            wr.LinePlot(title=f"{sign}: weight of each branch", x=STEP, metric_regex=f"^{name}/.*", title_x="updates")
            for sign, name in (("κ", "kappa"), ("α", "alpha"))
        ]
        found["Branch weights"].append(wr.LinePlot(title="dead branches", x=STEP, y=["branch/dead"], **average))
    attention = [f"attention/{part}" for part in ("encoder", "decoder", "cross")]
    found["Attention"] = [wr.MediaBrowser(title="attention of one test sentence", media_keys=attention, num_columns=3)]
    return found


def rows_of(table: Table) -> list[Any]:
    """The table's rows with their runs."""
    return [line.row for line in table.lines]


def workspace_of(name: str, entity: str, project: str, table: Table) -> Any:
    """A workspace for the runs of group `name`, grouped by row."""
    ws = _library("workspaces")

    settings = ws.RunsetSettings(
        filters=[ws.Metric("Group") == name],
        groupby=[ws.Metric("JobType")],
        order=[ws.Ordering(ws.Summary(score_key(table)), ascending=not table.primary.higher_is_better)],  # best first
        pinned_columns=["run:displayName", f"summary:{score_key(table)}", "summary:parameters", "summary:flops"],
    )
    headed = panels_of(table, None)
    return ws.Workspace(
        entity=entity,
        project=project,
        name=f"{name}: rows and seeds",
        sections=[ws.Section(name=heading, panels=panels, is_open=True) for heading, panels in headed.items()],
        settings=ws.WorkspaceSettings(x_axis=STEP),
        runset_settings=settings,
    )


def report_of(name: str, entity: str, project: str, table: Table, text: str) -> Any:
    """A report: the table with published figures, then the panels. An entity that is not empty is looked up."""
    wr = _library("reports.v2")

    def runs() -> Any:
        return wr.Runset(entity=entity, project=project, name=name, filters=[_group(name)], groupby=["JobType"])

    blocks: list[Any] = [
        wr.P(
            "Published figures beside measured ones, from the run store. Rows are grouped and seeds averaged in every "
            "panel; bands reach from the lowest seed to the highest."
        ),
        wr.H2("Published and measured"),
        wr.MarkdownBlock(text=text),
    ]
    for heading, panels in panels_of(table, "JobType").items():
        blocks += [wr.H2(heading), wr.PanelGrid(runsets=[runs()], panels=panels)]
    description = f"Sweep {name}, by `{spelled('wandb_report')} sweep={name}`."
    return wr.Report(entity=entity, project=project, title=name, description=description, blocks=blocks, width="fluid")


def _group(name: str) -> Any:
    return _library("expr").Metric("Group") == name


def _library(part: str) -> Any:
    """A module of wandb-workspaces, whose names no type checker sees."""
    return importlib.import_module(f"wandb_workspaces.{part}")
