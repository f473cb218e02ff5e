"""Save a workspace and a report of a sweep in Weights & Biases: `python src/wandb_report.py --help`."""

from variations.commands.cli import command
from variations.commands.wandb_report import ReportConfig, report

main = command(
    report,
    schema=ReportConfig,
    config_name="wandb_report",
    examples=[
        "python src/wandb_report.py sweep=quickstart                 saves both and prints their addresses",
        "python src/wandb_report.py sweep=quickstart entity=TEAM     in a team's project",
        "python src/wandb_report.py sweep=quickstart dry_run=true    writes what would be saved; no account needed",
    ],
)

if __name__ == "__main__":
    main()
