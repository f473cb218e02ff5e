"""docs/results/learning_curves.md and its figures: how fast rows learn, from records.

    python benchmarks/learning_curves.py [--records records] [--output docs/results/learning_curves.md]

Without --output the page is printed, and nothing is drawn.
"""

import contextlib
import io
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from record_pages import deliver_page, table

from variations.commands.figures import FiguresConfig, draw
from variations.configuration.compose import compose_run
from variations.store.rows import define
from variations.tables.claims.evidence import dev_curve, first_reached
from variations.tables.collect import Row, collect


@dataclass(frozen=True)
class Study:
    """Rows of a sweep whose curves are drawn together."""

    sweep: str
    title: str
    first: str
    """The row by whose curve the others are measured."""
    rows: Sequence[str]

    @property
    def command(self) -> str:
        """The command that draws the figure."""
        rows = f"'rows=[{','.join([self.first, *self.rows])}]'"
        what = f"python src/figures.py sweep={self.sweep} runs=records figure=learning_curves metric={LOSS}"
        return f"{what} {rows} out=docs/results/learning_curves/{self.sweep}"


LOSS = "dev/nll"
FIGURE = "learning_curves-dev_nll.svg"
STUDIES = (
    Study(
        "multi30k_weighted_claims",
        "The Weighted Transformer on Multi30k",
        "equal_steps_attention_dropout",
        ("weighted", "random_in_training", "M16"),
    ),
    Study(
        "toy_weighted_readings",
        "Readings of the Weighted Transformer on the built-in corpus",
        "transformer",
        ("learned", "rescale_M2", "softmax_xM", "full_M2", "encoder_only_M2"),
    ),
    Study(
        "toy_attention_table3",
        "Rows of Table 3 of the Transformer's paper on the built-in corpus",
        "base",
        ("A_h1", "C_N2", "D_dropout0.0", "D_ls0.0", "E_learned"),
    ),
)
OPENING = """# How fast the models learn

Made by `make results` from the [records](../../records); nothing here is written by hand.

Each figure shows the dev loss, in nats per sub-word without label smoothing, against four measures of cost. A line is
the mean over three seeds, and its band reaches from the lowest to the highest seed. Other work shared the machine, so
compare the rows by steps, tokens and FLOPs; the times show little more than that work.

The curves are those of the weights in training. Tables and [claims](../claims.md) test a moving average of them
(`recipe.ema`). Its dev loss, in the third column, can put two rows that lie close together in another order.

The table below a figure compares the first row of its legend with the others: how much does the first row need to
reach the loss at which the curve of another row ends? 60 % of the steps means that it is there after 60 % of the steps
that the other row took. More than 100 %, or a dash where it never gets there, means that the other row learns faster;
for a row with other label smoothing, such as `D_ls0.0`, it may mean only that smoothing raises this loss.
The percentages are means of those of each seed; read off the drawn means, they may differ by several points.
The other row has the last loss of its schedule, where the learning rate is lowest; the first row is on its way, at a
higher rate, which is a disadvantage to it. Loss and score may disagree: a row can have a lower loss and a lower BLEU.
"""


def page(records: Path) -> str:
    """The page of these records. Raises UserError for records that cannot be read."""
    return "\n".join([OPENING, *(_section(study, records) for study in STUDIES)])


def draw_figures(records: Path, output: Path) -> None:
    """Write the figures into a folder beside the page."""
    for study in STUDIES:
        folder = output.with_suffix("") / study.sweep
        sweep = compose_run([f"sweep={study.sweep}"]).sweep
        wanted = FiguresConfig(sweep=sweep, rows=[study.first, *study.rows], runs=str(records), metric=LOSS)
        wanted.figure, wanted.out = "learning_curves", str(folder)
        with contextlib.redirect_stdout(io.StringIO()):
            draw(wanted)


def _section(study: Study, records: Path) -> str:
    sweep = define(compose_run([f"sweep={study.sweep}"]).sweep, store=records)
    rows = {row.definition.row: row for row in collect(sweep, records)}
    head = [
        "row",
        "dev loss at the end of its curve",
        "dev loss of the tested weights",
        "steps of the first row to the former",
        "FLOPs of the first row to it",
        "seeds",
    ]
    lines = [line for name in (study.first, *study.rows) if (line := _line(rows[name], rows[study.first]))]
    picture = f"![Dev loss against steps, tokens, seconds and FLOPs](learning_curves/{study.sweep}/{FIGURE})"
    about = f"All rows and their scores: [{study.sweep}]({study.sweep}.md). {_names(rows, study)}"
    parts = (f"## {study.title}", picture, f"```console\n{study.command}\n```", about, table(head, lines))
    return "\n\n".join(parts)


def _names(rows: Mapping[str, Row], study: Study) -> str:
    labels = {name: row.definition.label for name, row in rows.items()}
    told = [f"`{name}` is {labels[name]}" for name in (study.first, *study.rows) if labels[name] != name]
    return f"Rows have the names of their files: {'; '.join(told)}." if told else ""


def _line(row: Row, first: Row) -> list[str] | None:
    """The losses of `row`, and what the first row needs for the one at which its curve ends, over common seeds.

    None if there are no common seeds yet.
    """
    shares = []
    for unit in ("step", "flops"):
        ours, theirs = _curves(row, unit), _curves(first, unit)
        common = sorted(ours.keys() & theirs.keys())
        ends = [ours[seed][-1] for seed in common]
        places = [first_reached(theirs[seed], loss) for seed, (_, loss) in zip(common, ends, strict=True)]
        parts = [at / spent for (at, reached), (spent, _) in zip(places, ends, strict=True) if reached]
        shares.append(f"{100 * fmean(parts):.0f} %" if parts and len(parts) == len(common) else "–")
    if not common:
        return None
    if row is first:
        shares = [""] * len(shares)
    tested = fmean(run.result["loss"]["dev_nll"] for run in row.finished if run.seed in common)
    losses = (fmean(loss for _, loss in ends), tested)
    return [f"`{row.definition.row}`", *(f"{loss:.3f}" for loss in losses), *shares, str(len(common))]


def _curves(row: Row, unit: str) -> dict[int, list[tuple[float, float]]]:
    """(spent, dev loss) of each finished seed."""
    return {run.seed: found for run in row.finished if (found := dev_curve(run, unit))}


if __name__ == "__main__":
    sys.exit(deliver_page(__doc__, page, draw_figures))
