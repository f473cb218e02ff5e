"""Print what a launch would train, before anything is spent: `python src/plan.py --help`."""

from variations.commands.cli import command
from variations.commands.plan import PlanConfig, plan

main = command(
    plan,
    schema=PlanConfig,
    config_name="plan",
    examples=[
        "python src/plan.py                                      every row of both papers, counted",
        "python src/plan.py sweep=quickstart                     one table: sizes, time, memory, disk, of what is left",
        "python src/plan.py sweep=attention_table3 measure=false counted only",
        "python src/plan.py sweep=attention_table3 recipe=multi30k data=multi30k",
        "python src/plan.py model=weighted size=big              one run",
        "python src/plan.py sweep=weighted_table2 format=json    one JSON document (also csv, markdown)",
    ],
)

if __name__ == "__main__":
    main()
