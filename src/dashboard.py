"""Compare runs in the browser: `python src/dashboard.py --help`."""

from variations.commands.cli import command
from variations.commands.dashboard import DashboardConfig, show

main = command(
    show,
    schema=DashboardConfig,
    config_name="dashboard",
    examples=[
        "python src/dashboard.py                                      all runs below runs/",
        "python src/dashboard.py sweep=quickstart open=true           one sweep first, in the browser",
        "python src/dashboard.py port=0                               any free port",
        "python src/dashboard.py sweep=quickstart export=quickstart.html   one file to send to a colleague",
    ],
)

if __name__ == "__main__":
    main()
