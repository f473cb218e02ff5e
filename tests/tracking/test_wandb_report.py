"""`wandb_report.py`: what it saves in W&B, and what it tells a user who is not logged in."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from wandb_service import ENTITY, Service
from wandb_user import KEY, ROOT, environment, no_key_below

from variations.configuration.compose import compose_run, to_dict
from variations.configuration.schema import SweepConfig
from variations.store.ledger import RunFolder
from variations.store.naming import run_folder
from variations.store.rows import define
from variations.system.errors import UserError
from variations.tables.table import build

pytestmark = pytest.mark.slow


def verb(env: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "src" / "wandb_report.py"), "sweep=quickstart", *words]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=120, check=False)


def begin_weighted_row(runs: Path) -> None:
    """Create a run with a frozen configuration that has not trained yet."""
    config = compose_run(["variation=quickstart/weighted", "sweep=quickstart", f"runs={runs}"])
    RunFolder(run_folder(config)).create(to_dict(config))


def test_workspace_and_report_are_saved_and_saved_again_in_the_same_place(service: Service, tmp_path: Path) -> None:
    env, runs = environment(service, tmp_path / "wandb"), f"runs={tmp_path / 'runs'}"
    begin_weighted_row(tmp_path / "runs")
    first = verb(env, runs)
    assert first.returncode == 0, first.stderr
    workspace, report = service.views
    assert service.unknown == []
    assert {view["entityName"] for view in service.views} == {ENTITY}
    assert first.stdout.splitlines()[0].startswith(f"workspace: {service.url}/{ENTITY}/variations?nw=")
    assert first.stdout.splitlines()[1].startswith(f"report: {service.url}/{ENTITY}/variations/reports/quickstart--")
    check_workspace(json.loads(workspace["spec"]))
    check_report(json.loads(report["spec"]))
    again = verb(env, runs)
    assert again.returncode == 0, again.stderr
    assert again.stdout == first.stdout
    assert [view.get("id") is not None for view in service.views] == [False, False, True, True]
    assert KEY not in first.stdout + first.stderr + again.stdout + again.stderr
    no_key_below(tmp_path)


def check_workspace(spec: dict[str, Any]) -> None:
    section = spec["section"]
    [runs] = section["runSets"]
    assert runs["filters"]["filters"][0]["value"] == "quickstart"
    assert runs["grouping"] == [{"section": "run", "name": "jobType"}]
    panels = {item["name"]: item["panels"] for item in section["panelBankConfig"]["sections"]}
    assert list(panels) == ["Scores", "Curves", "Branch weights", "Attention"]
    scatter = [panel["config"] for panel in panels["Scores"] if panel["viewType"] == "Scatter Plot"]
    assert [(p["xAxis"], p["yAxis"]) for p in scatter] == [
        ("summary:parameters", "summary:test/bleu"),
        ("summary:flops", "summary:test/bleu"),
        ("summary:seconds", "summary:test/bleu"),
    ]
    assert {panel["config"]["xAxis"] for panel in panels["Curves"]} == {"trainer/global_step"}
    assert {panel["config"]["groupAgg"] for panel in panels["Curves"]} == {"mean"}
    assert [panel["config"].get("metricRegex") for panel in panels["Branch weights"]] == [
        "^kappa/.*",
        "^alpha/.*",
        None,
    ]


def check_report(spec: dict[str, Any]) -> None:
    [table] = [block["content"] for block in spec["blocks"] if block["type"] == "markdown-block"]
    assert "| Weighted Transformer |" in table
    assert "missing" in table
    grids = [block for block in spec["blocks"] if block["type"] == "panel-grid"]
    assert len(grids) == 4
    assert {grid["metadata"]["runSets"][0]["project"]["name"] for grid in grids} == {"variations"}


def test_a_dry_run_writes_both_without_network_or_account(service: Service, tmp_path: Path) -> None:
    env = environment(service, tmp_path / "wandb", WANDB_API_KEY="", WANDB_BASE_URL="http://127.0.0.1:9")
    begin_weighted_row(tmp_path)
    done = verb(env, f"runs={tmp_path}", "dry_run=true")
    assert done.returncode == 0, done.stderr
    path = tmp_path / "quickstart" / "wandb_report-dry.json"
    assert done.stdout == f"{path}\n"
    written = json.loads(path.read_text())
    check_workspace(written["workspace"])
    assert len(written["report"]["blocks"]) > 8


def test_without_a_login_it_says_how_to_log_in(service: Service, tmp_path: Path) -> None:
    done = verb(environment(service, tmp_path / "wandb", WANDB_API_KEY=""), f"runs={tmp_path}")
    assert done.returncode == 2
    assert done.stderr.startswith("error: You are not logged in to W&B: run `wandb login`")


def test_a_refused_key_is_one_sentence_without_the_key(service: Service, tmp_path: Path) -> None:
    service.refuse = 401
    try:
        done = verb(environment(service, tmp_path / "wandb"), f"runs={tmp_path}")
    finally:
        service.refuse = None
    assert done.returncode == 2
    assert "error: W&B refused the report of 'quickstart'" in done.stderr
    assert "Traceback" not in done.stderr
    assert KEY not in done.stdout + done.stderr
    no_key_below(tmp_path)


class Saved:
    """A workspace or report that the service has not seen, as wandb-workspaces represents it."""

    def __init__(self, number: int) -> None:
        self._internal_name, self._internal_id, self.id, self.url = "", "", "", ""
        self.number, self.fails = number, False

    def save(self) -> None:
        if self.fails:
            raise ConnectionError("gone")
        self._internal_name = self._internal_name or f"name{self.number}"
        self._internal_id = self._internal_id or f"id{self.number}"


def test_a_report_that_failed_leaves_one_workspace_however_often_it_is_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import wandb

    from variations.commands import wandb_panels, wandb_report

    workspaces, reports = [Saved(number) for number in range(3)], [Saved(number) for number in range(3)]
    reports[0].fails = reports[1].fails = True
    made, written = iter(workspaces), iter(reports)
    monkeypatch.setattr(wandb, "Api", lambda: None)
    monkeypatch.setattr(wandb_panels, "workspace_of", lambda *_: next(made))
    monkeypatch.setattr(wandb_panels, "report_of", lambda *_: next(written))
    monkeypatch.setattr(wandb_report, "markdown", lambda _: "")
    config = wandb_report.ReportConfig(SweepConfig(name="quickstart"), entity="me")
    for _ in range(2):
        with pytest.raises(UserError, match="W&B refused the report of 'quickstart': gone"):
            wandb_report._save(config, Any, tmp_path / "saved.json")
    wandb_report._save(config, Any, tmp_path / "saved.json")
    assert [workspace._internal_id for workspace in workspaces] == ["id0"] * 3


def test_a_store_that_cannot_be_written_is_told_before_anything_is_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import wandb

    from variations.commands import wandb_report

    asked: list[str] = []
    monkeypatch.setattr(wandb, "Api", lambda: asked.append("W&B"))
    config = wandb_report.ReportConfig(SweepConfig(name="quickstart"), entity=None)
    (tmp_path / "runs").touch()
    with pytest.raises(UserError, match=r"Cannot write .*saved.json: Not a directory. This file keeps the addresses"):
        wandb_report._save(config, Any, tmp_path / "runs" / "saved.json")
    assert asked == []


@pytest.mark.parametrize(("metric", "ascending"), [("bleu", False), ("dev_ppl", True)])
def test_the_best_run_is_first_in_a_workspace(metric: str, ascending: bool, tmp_path: Path) -> None:
    from variations.commands.wandb_panels import workspace_of

    table = build(define(SweepConfig(name="quickstart", metric=metric), seeds=[1]), tmp_path)
    (order,) = workspace_of("quickstart", ENTITY, "variations", table).runset_settings.order
    assert order.ascending == ascending
