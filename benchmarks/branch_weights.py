"""docs/results/branch_weights.md: what κ and α settle at, and what other weights at test time cost, from records.

    python benchmarks/branch_weights.py [--records records] [--output docs/results/branch_weights.md]

Reads the rows `learned`, `random` and `uniform` of SWEEPS. Without --output the page is printed.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, pstdev

from record_pages import deliver_page, table

from variations.configuration.compose import compose_run
from variations.figures.weights import sublayers, words
from variations.store.ledger import RunFolder
from variations.store.rows import define
from variations.tables.collect import collect
from variations.tables.grid import delta
from variations.tasks.translation.measures import measure

SWEEPS = {"multi30k_weighted_table3": "Multi30k", "toy_weighted_readings": "built-in corpus"}
OPENING = """# What κ and α settle at

Made by `make results` from the records of {sweeps};
nothing here is written by hand.

The Weighted Transformer with N = 2, trained with three seeds, is tested with its learned branch weights, with uniform
ones (1/M) and with random ones (Table 3 of Ahmed et al. 2017; one draw, the same for all seeds and corpora). The
unevenness of M weights is their standard deviation divided by their mean, so it is 0 for uniform weights. They start at
random: numbers from U(0, 1) divided by their sum, whose unevenness is near 1/√3 = 0.58.

Columns of sub-layers give the unevenness of κ / α at the last measurement of training, as `metrics.jsonl` has it; all
networks were tested with a moving average of their weights (`recipe.ema`).
*Dead* branches have a κ or an α of exactly 0.
"""


@dataclass
class Tested:
    """One seed: what each row scores, and the unevenness of the learned weights."""

    corpus: str
    seed: int
    bleu: Mapping[str, float]
    uneven: Mapping[str, tuple[float, float]]
    """By sub-layer: of κ and of α."""
    dead: int

    @property
    def cost(self) -> float:
        """BLEU that uniform weights lose."""
        return self.bleu["learned"] - self.bleu["uniform"]


def page(records: Path) -> str:
    """The page of these records. Raises UserError for records that cannot be read."""
    found = [run for sweep, corpus in SWEEPS.items() for run in _tested(sweep, corpus, records)]
    names = list(found[0].uneven) if found else []
    head = ["corpus", "seed", "learned BLEU", "uniform − learned", "random − learned", *map(words, names), "dead"]
    rows = [
        [
            run.corpus,
            str(run.seed),
            f"{run.bleu['learned']:.2f}",
            delta(run.bleu["uniform"] - run.bleu["learned"]),
            delta(run.bleu["random"] - run.bleu["learned"]),
            *(f"{kappa:.2f} / {alpha:.2f}" for kappa, alpha in run.uneven.values()),
            str(run.dead),
        ]
        for run in found
    ]
    sweeps = " and ".join(f"[{name}](../../records/{name})" for name in SWEEPS)
    opening = OPENING.format(sweeps=sweeps)
    return f"{opening}\n{table(head, rows, 2)}\n{_orders(found, names)}"


def _tested(sweep: str, corpus: str, records: Path) -> list[Tested]:
    rows = collect(define(compose_run([f"sweep={sweep}"]).sweep, store=records), records)
    by_name = {row.definition.row: row for row in rows if row.definition.row in ("learned", "random", "uniform")}
    scores = {name: row.values(measure("test.bleu")) for name, row in by_name.items()}
    common = sorted(set.intersection(*(set(of_seed) for of_seed in scores.values()))) if len(scores) == 3 else []
    folders = {run.seed: run.folder for run in by_name["learned"].finished if run.folder} if common else {}
    found = []
    for seed in common:
        lines = RunFolder(folders[seed]).measurements.read("branch/dead")
        names, last = sublayers(lines), lines[-1]
        pairs = {name: [last[f"branch/{name}.{letter}"] for letter in ("kappa", "alpha")] for name in names}
        uneven = {name: (_unevenness(kappa), _unevenness(alpha)) for name, (kappa, alpha) in pairs.items()}
        bleu = {name: of_seed[seed] for name, of_seed in scores.items()}
        found.append(Tested(corpus, seed, bleu, uneven, int(last["branch/dead"])))
    return found


def _unevenness(weights: Sequence[float]) -> float:
    return pstdev(weights) / fmean(weights)


def _orders(found: Sequence[Tested], names: Sequence[str]) -> str:
    """For each sub-layer, whether seeds with more uneven weights lose more under uniform ones."""
    corpora = list(dict.fromkeys(run.corpus for run in found))
    rows = []
    for name in names:
        cells = []
        for corpus in corpora:
            runs = [run for run in found if run.corpus == corpus]
            by_unevenness = sorted(runs, key=lambda run: sum(run.uneven[name]))
            by_cost = sorted(runs, key=lambda run: run.cost)
            cells.append("yes" if by_unevenness == by_cost else "no")
        rows.append([words(name), *cells])
    title = "## Do uniform weights cost more where the learned ones are less even?"
    text = (
        "*yes*: ordered by the sum of both unevennesses of the sub-layer, the seeds have the order of what uniform\n"
        "weights cost them. By chance this would happen once in six times for three seeds, so in one or two cells of\n"
        "eight. The table is an observation, not a test."
    )
    return f"{title}\n\n{table(['sub-layer', *corpora], rows, len(corpora) + 1)}\n{text}\n"


if __name__ == "__main__":
    sys.exit(deliver_page(__doc__, page))
