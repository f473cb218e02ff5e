"""Score stored hypotheses: `python src/score.py --help`."""

from variations.commands.cli import command
from variations.commands.score import ScoreConfig, score

main = command(
    score,
    schema=ScoreConfig,
    config_name="score",
    aliases={"task": "kind"},
    examples=[
        "python src/score.py run=runs/quickstart/transformer/seed1          the test set of a run",
        "python src/score.py run=runs/quickstart/transformer/seed1 set=dev  another of its sets",
        "python src/score.py hyp=out.txt ref=test.de src=test.en            files, one sentence a line",
        "python src/score.py hyp=out.txt ref=test.fr lang=fr format=json    one JSON document",
        "python src/score.py task=parsing hyp=parsed.txt ref=gold.txt       trees, scored as EVALB does",
    ],
)

if __name__ == "__main__":
    main()
