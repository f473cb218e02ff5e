"""docs/claims.md: every claim with the published evidence, ours, and the verdict."""

import re
from collections import Counter
from collections.abc import Sequence

from variations.configuration.tasks import DEFAULT, named
from variations.tables.claims.claim import Contrast, Paper
from variations.tables.claims.evidence import Effort, Evidence, Judged, Outcome
from variations.tables.claims.rule import LEVEL, POWER, SEEDS, VERDICTS, detectable
from variations.tables.grid import delta
from variations.tasks.task import Task

HEAD = f"""# What the papers claim, and what we found

`python src/claims.py` writes this page from the files in [conf/claims](../conf/claims) and the run records in
[records](../records); nothing is edited by hand. The comparisons, their margins and the rule were fixed before the
runs that they judge, as `git log --follow` of a file in conf/claims and of its records shows. A comparison marked
*chosen later* was added after its runs: it is shown, and takes no part in the verdict. One convention was changed
after them: intervals of scores were percentiles of random draws. They are Student's t intervals now, which agree with
p and hardly depend on the seed of the draws. This changed no verdict.

**How a verdict is reached.** Each comparison is between two rows of a table, with at least {SEEDS} seeds each (for
memory networks, {SEEDS} restarts), and gives a {100 * LEVEL:g} % interval of the row's advantage over its base row.
Rows have the names of their files, and in parentheses the labels of the table. For BLEU the interval covers chance in
seeds and in sentences; for errors of memory networks, chance in the restarts of one seed, which count as seeds do,
and in questions; for other measures it is Student's t interval over seeds. For the order of a table's rows it covers
chance in the rows that the table happens to have, and restarts do not count as seeds.
The margin is the smallest difference that counts: 0.5 points of a score, 0.01 nats of dev loss, 1 % of perplexity, 15 %
of the training saved, a rank correlation of 0.5.

- A claim of a difference: the comparison *supports* it if the whole interval has the claimed sign and the end farther
  from zero is at least as large as the margin. It *contradicts* the claim if the whole interval lies below the margin.
  Otherwise, and with fewer than {SEEDS} seeds, the comparison is *open*.
- A claim of no difference: an interval within the margin supports it, an interval beyond the margin contradicts it.
- Claims of arithmetic are settled by a test of this project, which is named.
- A claim is *reproduced* if all its comparisons support it, *partly* if some do, and *not reproduced* if none does and
  at least half contradict it. Otherwise it is *undecided*. A question of the form "is there a reading that …" is
  answered *not reproduced* only if every comparison contradicts it. If a claim has a result on a corpus, its
  comparisons there that have not run yet count as open, though they are not listed: a claim with one supporting
  comparison of two is *partly* reproduced, never *reproduced*, until the second has run.

A row that {named(DEFAULT).untrained_when}, is not trained, and nothing is concluded from it. Nor is
anything concluded from a row that has a caveat in its table: quick checks (`debug=…`), training that was changed on the
way or ended early, seeds that were not trained alike, lost measurements, a file that was edited since. Two rows are not
compared if their texts differ, or if overrides were typed for one of them alone.
The published size of a difference is not judged, only its sign and whether it reaches the margin, because most runs
here are not on the paper's corpus. The built-in corpus is artificial: a small grammar makes its sentences, and good
models reach 90 to 99 BLEU. Differences near the top are small there, so a claim of no difference is easily supported,
a claim of a difference easily contradicted, and verdicts on this corpus alone say little about natural text.
The rule in code: [rule.py](../src/variations/tables/claims/rule.py).

**How to read a comparison.** "`a` v. `b`, claimed worse, test BLEU 31.20 v. 30.00: +1.20 [+0.40, +2.00]" compares row
`a` with row `b` of the table behind the link: the values of both, and the advantage of `a`, which is positive if `a`
is better, whether the measure should be high or low. If `a` is claimed to be worse, its advantage must be negative:
with +0.60 [−0.30, +1.50], `a` is at most 0.30 worse. That is less than the margin of 0.5, so the comparison
contradicts the claim. "contradicts: less than the margin" is said if the whole interval has the claimed sign. A margin
of 0.01 nats is a large part of a dev loss on the built-in corpus, where dev losses are below 0.1, and a small one on
natural text. On the built-in corpus, `toy_attention_table3` and `toy_weighted_claims` have N = 3 and 5,000 steps for
their base row, and `toy_weighted_readings` N = 2 and 3,000, so the same row has different scores in them. The
comparison says nothing of how near either row is to its published figure; the table does. "detectable" is the smallest
true difference that this many seeds would have shown with probability {POWER:g}. An interval is not cut at the largest
possible difference. "at most" stands before the saving of a row that never reaches the dev loss at which its base row
ended: the row counts with its whole length, and cannot support the claim. That dev loss is the mean over the base
row's seeds, measured at the end of training, and the base row's budget ends where each seed first reached it
(interpolated between validations), which may be long before its last step; a seed that ends above it counts with its
whole length. Other dev losses are of the tested weights, so the two may differ. Differences are computed before
rounding; a dev loss is the logarithm of the table's dev PPL, which `format=json` prints unrounded. An interval over
restarts is that of arbitrary restarts, not of the best ones, which the errors are of, and so tends to be too wide.
"recalled" marks a published figure that is quoted from memory, and was not checked against the publication. "1 and 3
seeds" are those of the row and of its base row.
"""

FOLDED = 4
"""The largest number of comparisons of a claim that the page shows unfolded."""


def page(papers: Sequence[Paper], evidence: Evidence) -> str:
    """The whole page as Markdown."""
    parts = [HEAD]
    for paper in papers:
        judged = [evidence.judge(paper, claim) for claim in paper.claims]
        parts += [
            f"## {paper.name}\n",
            _tally(judged),
            _table(judged, named(paper.task)),
            _efforts(evidence.effort(paper)),
        ]
    return "\n".join(part for part in parts if part)


def _tally(judged: Sequence[Judged]) -> str:
    counts = [(sum(item.verdict == verdict for item in judged), verdict) for verdict in VERDICTS]
    words = ", ".join(f"{'all' if count == len(judged) else count} {verdict}" for count, verdict in counts if count)
    return f"{len(judged)} claims and questions: {words}.\n"


def _table(judged: Sequence[Judged], task: Task) -> str:
    lines = ["| where | claim, in our words | published | measured here | verdict |", "|:---|:---|:---|:---|:---|"]
    for item in judged:
        claim = item.claim
        cells = [claim.section, claim.claim, claim.published or "", _measured(item, task), f"**{item.verdict}**"]
        lines.append(f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |")
    return "\n".join(lines) + "\n"


def _measured(item: Judged, task: Task) -> str:
    claim = item.claim
    if claim.settled:
        return f"{claim.settled.why} (`{claim.settled.by}`)"
    if claim.untested:
        return re.sub(r"docs/([\w/]+\.md)", r"[\1](\1)", claim.untested)
    text = "<br>".join(_outcome(outcome, task) for outcome in item.outcomes) or "not run yet"
    if len(item.outcomes) <= FOLDED:
        return text
    bearings = Counter("open" if outcome.finding is None else outcome.bearing for outcome in item.outcomes)
    counts = ", ".join(f"{word}: {count}" for word, count in bearings.most_common())
    return f"<details><summary>{len(item.outcomes)} comparisons ({counts})</summary>{text}</details>"


def _outcome(outcome: Outcome, task: Task) -> str:
    test = outcome.test
    scale = f"[{outcome.scale.name}](results/{outcome.scale.prefix}{test.table}.md)"
    what = _compared(outcome, task)
    found, later = outcome.finding, "; chosen later" if test.later else ""
    if found is None:
        return f"{scale}, {what}: {outcome.note} (open{later})"
    if outcome.levels:
        ours, theirs = (_number(level, test).lstrip("+") for level in outcome.levels)
        what = f"{what} {ours} v. {theirs}"
    percent = 100 if test.expect == "sooner" else 1
    values = [_number(percent * value, test) for value in (found.effect, found.low, found.high)]
    if test.expect == "sooner" and values[0] == "−0":
        values[0] = "0"  # a saving; the ends of its interval keep their sign
    unit = " %" if test.expect == "sooner" else ""
    bound = "at most " if outcome.at_most else ""
    text = f"{scale}, {what}: {bound}{values[0]}{unit} [{values[1]}, {values[2]}]"
    seeds = " and ".join(map(str, found.seeds)) if len(set(found.seeds)) > 1 else str(found.seeds[0])
    counted = f"{seeds} {'restart' if found.restarts else 'seed'}{'' if found.seeds == (1, 1) else 's'}"
    enough = min(found.seeds) >= SEEDS
    if test.expect == "same order":
        extras = [f"{counted} or more in each row"]
    else:
        extras = [counted]
        extras += [f"detectable {_number(percent * detectable(found), test).lstrip('+')}{unit}"] if enough else []
    extras += [outcome.note] if outcome.note else []
    short = f"{'some row has ' if test.expect == 'same order' else ''}fewer than {SEEDS} seeds"
    low, high = (-found.high, -found.low) if test.expect == "worse" else (found.low, found.high)
    little = outcome.bearing == "contradicts" and test.expect in ("better", "worse") and 0 < low < high
    bearing = f"{outcome.bearing}: less than the margin" if little else outcome.bearing
    return f"{text}, {', '.join(extras)} ({bearing if enough else f'open: {short}'}{later})"


def _compared(outcome: Outcome, task: Task) -> str:
    test = outcome.test
    if test.expect == "same order":
        published = test.published.replace("_", " ")
        return f"rank correlation of {task.measure(test.measure).label} with the published {published}"
    claimed = "the same" if test.expect == "same" else test.expect
    named = zip((str(test.row), str(test.base)), outcome.labels or ("", ""), strict=True)
    sides = [f"`{name}`" + (f" ({label})" if label not in ("", name) else "") for name, label in named]
    rows = f"{' v. '.join(sides)}, claimed {claimed}"
    if test.expect == "sooner":
        return f"{rows}, {test.unit.replace('_', ' ')}s saved".replace("secondss", "seconds").replace("flopss", "FLOPs")
    return f"{rows}, {task.measure(test.measure).label}"


def _number(value: float, test: Contrast) -> str:
    digits = {"sooner": 0, "same order": 2}.get(test.expect, 3 if test.measure.endswith(("nll", "ppl")) else 2)
    if abs(value) == float("inf"):
        return "∞" if value > 0 else "−∞"
    return delta(value, digits)


def _efforts(efforts: Sequence[Effort]) -> str:
    if not efforts:
        return "No run that tests these claims has been recorded yet.\n"
    lines = ["| sweep | scale | runs | device-hours of training | device |", "|:---|:---|---:|---:|:---|"]
    lines += [
        f"| [{item.sweep}](results/{item.sweep}.md) | {item.scale} | {item.finished} of {item.wanted} | "
        f"{item.hours:.1f} | {item.devices} |"
        for item in efforts
    ]
    free = "Runs that were copied from another sweep, and rows that test another row's weights, add no hours."
    return "\n".join([*lines, "", free]) + "\n"
