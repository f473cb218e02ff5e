"""docs/claims.md: every claim with the published evidence, ours, and the verdict."""

import re
from collections import Counter
from collections.abc import Sequence

from variations.configuration.tasks import DEFAULT, named
from variations.tables.claims.claim import Contrast, Paper
from variations.tables.claims.evidence import Effort, Evidence, Judged, Outcome
from variations.tables.claims.rule import LEVEL, POWER, SEEDS, VERDICTS, Bearing, Finding, detectable
from variations.tables.grid import delta
from variations.tasks.task import Task

HEAD = """# What the papers claim, and what we found

Each claim has a number, our words for it, a verdict (*reproduced*, *partly*, *not reproduced*, *undecided* or *untested
here*) and the published figures. A second table for each paper lists the comparisons behind its verdicts, with the
numbers of the claims, and a third the sweeps that were run. [How a verdict is reached](#how-a-verdict-is-reached) has
the rule, and [how to read a comparison](#how-to-read-a-comparison) has the scale of the runs and explains the columns.
The built-in corpus is artificial: verdicts on it alone say little about natural text. A verdict pools all corpora; the
last column counts the comparisons of each.

`python src/claims.py out=docs/claims.md` writes this page from the files in [conf/claims](../conf/claims) and the run
records in [records](../records); nothing is edited by hand.
"""

RULE = f"""## How a verdict is reached

The comparisons, their margins and the rule were committed before the runs that they judge, as `git log --follow` of a
file in conf/claims and of its records shows, with two exceptions in the memory networks: the row `pe` was being trained
when their claims were committed, and the comparison of claim 7 was added when one of its two rows had run. A comparison
marked *chosen later* was added when runs of it had been seen, on this corpus or on another: it is shown, and takes no
part in the verdict.

Ten things were changed after the first runs. The first changes a verdict:

- Two rows that test the weights of the same networks are compared seed by seed, as pairs. Before, their seeds were
  taken as unrelated, and claim 13 of the Weighted Transformer was *partly* reproduced; now it is *undecided*. Claim 12
  was and is *undecided*.
- On Multi30k, P_drop of three rows of claim 2 of the Weighted Transformer (both of size B, `N8_weighted`) was changed
  from the published 0.3 to 0.1, when unfinished runs of size B with 0.3 were far behind and other rows of that table
  had been seen ([why](results/reference.md#rows-of-size-b)). Without the comparisons of these rows, the verdict is the
  same.
- Comparisons that have not run count as open: this kept claim 2 of the Weighted Transformer *undecided* until half of
  its comparisons contradicted it.
- Nothing is concluded from rows with caveats.
- For *not trained*, the lowest dev losses count instead of the last ones.
- Intervals of scores are Student's t intervals instead of percentiles of random draws: they agree with p and hardly
  depend on the seed of the draws.
- Claim 6 of the Weighted Transformer, which was a comparison of parameter counts, is settled by a test.
- The words of two questions to the Weighted Transformer were made exact, their comparisons are the same: 22 names both
  readings that it tests, and 19 says that other dropout of the published baselines is only probable.
- A row that translates most sentences alike counts as not trained; no row here does.
- *detectable* is computed from the degrees of freedom of the interval, and by a noncentral t distribution.

The rule in code: [rule.py](../src/variations/tables/claims/rule.py).

A comparison is between two rows of a table, with at least {SEEDS} seeds each (for memory networks, {SEEDS} restarts).
It gives a {100 * LEVEL:g} % interval of the row's advantage over its base row, and has a margin, the smallest
difference that counts: 0.5 points of a score, 0.01 nats of dev loss, 1 % of perplexity, 15 % of the training saved, a
rank correlation of 0.5.

- A claim of a difference: the comparison *supports* it if the whole interval has the claimed sign and the end farther
  from zero is at least as large as the margin: [−0.9, −0.1] supports *worse* with a margin of 0.5, because it lies
  below zero, and 0.9 is not less than 0.5. It *contradicts* the claim if the whole interval lies below the margin, as
  [−0.3, +0.2] does. Otherwise, and with fewer than {SEEDS} seeds, the comparison is *open*.
- A claim of no difference: an interval within the margin supports it, an interval beyond the margin contradicts it.
- Claims of arithmetic are settled by a test of this project, which is named.
- A claim is *reproduced* if all its comparisons support it, *partly* if some do, and *not reproduced* if none does and
  at least half contradict it. Otherwise it is *undecided*. A question of the form "is there a reading that …" is
  answered *reproduced* if one comparison supports it, and *not reproduced* only if every one contradicts it.
- If a claim has a result that counts on a corpus, its comparisons there that have not run yet count as open, though
  they are not listed: a claim with one supporting comparison of two is *partly* reproduced, never *reproduced*, until
  the second has run.

A row that {named(DEFAULT).untrained_when}, on average over its seeds, is not trained, and nothing is concluded from it.
Nor is anything concluded from a row that has a caveat in its table: quick checks (`debug=…`), training that was changed
midway or ended early, seeds that were not trained alike, lost measurements, a file that was edited since, or overrides
that were typed, such as `data.tasks=[4]`. Two rows are not compared if their texts differ, or if the sweep's file had
other overrides for one of them.

The published size of a difference is not judged, only its sign and whether it reaches the margin, because no
translation here is of the papers' corpora. A small grammar makes the sentences of the built-in corpus, and good models
reach 90 to 99 BLEU. Dev losses are about 0.1 there and their margin is 0.01, so by dev loss, a claim of no difference
is easily supported, and a claim of a difference easily contradicted. By BLEU, many intervals are about
as wide as the margin, and such comparisons stay open.

## How to read a comparison

- *Scale*, for translation: d_model = 128 (size B: 256), d_ff = 512 (1,024), N = 1 to 4, unless the row says
  otherwise; 0.7M to 6.6M parameters. Training takes 3,000 or 5,000 updates (size B: 12,500 or 15,000). On Multi30k, a
  batch has up to 2,048 tokens a side, of 29,000 pairs of lower-cased text; the test set is test_2016_flickr (1,000
  sentences). On the built-in corpus, it has 1,024 tokens, of 20,000 pairs, with 500 test sentences. Our BLEU is
  sacreBLEU's (13a) on the test set; the figures of Vaswani et al.'s Table 3 and Ahmed et al.'s Tables 2 and 3 are
  tokenised BLEU on the dev set newstest2013. With d_model = 128, the heads of `A_h32` and `M32` have 4 dimensions,
  where the papers have 16.
- *rows*: `a` v. `b` compares row `a` with its base row `b`, of the table behind the link. Rows have the names of
  their files, and in parentheses the labels of the table. On the built-in corpus, `toy_attention_table3` and
  `toy_weighted_claims` have N = 3 and 5,000 steps for their base row, and `toy_weighted_readings` N = 2 and 3,000, so
  the same row has different scores in them. After 3,000 steps on this corpus, the dev loss of the Transformer still
  falls (12 to 19 % in the last fifth), as does that of the Weighted rows: claims 18 to 22 of the Weighted
  Transformer's paper say nothing about longer training there. On Multi30k, `multi30k_weighted_claims` has N = 3 and
  `multi30k_weighted_table3` N = 2.
- *What else differs*: sizes, steps, dropout and label smoothing of a translation row follow its paper, scaled;
  schedule, batch, vocabulary and averaging (a moving average of the weights, decay 0.995, which neither paper has)
  are those of the recipe ([Multi30k](results/reference.md), [built-in corpus](results/toy.md)). κ and α have the
  paper's schedule, with 40 steps of warm-up, a tenth of the recipe's. `big` has three times the steps of `base` and
  P_drop 0.3 instead of 0.1. The Weighted rows have attention dropout 0.1 and, in claims 2, 4, 5 and 15, fewer steps
  than the Transformer, as in their paper; the base rows of claims 2, 4, 5, 15, 20 and 22 of that paper have no
  attention dropout, which alone costs the published reading 2.43 BLEU [0.36, 4.49] on the built-in corpus. There,
  `N8_weighted` has P_drop 0.3 and its base row 0.1, and both rows of size B have 0.3, as published; on Multi30k, all
  rows of that table have 0.1. The recipe on Multi30k was chosen by trying the Transformer alone.
- *What else differs between memory networks*: those with LS are trained for a fifth more steps at half the rate.
  Networks for all tasks have d = 50 instead of 20, halve the rate every 15 epochs instead of 25, have a linear start
  of 30 epochs instead of 20 (all as in the authors' code), and other numbers of steps. The MemNNs and the LSTM have
  50, too; the LSTM is trained with Adam at a rate of 0.003, because the paper does not say how. The tables' footnotes
  have the steps.
- *Random weights* (claim 13 of the Weighted Transformer) are one draw, the same for all seeds and on both corpora. No
  interval covers chance in this draw.
- *values*: of `a` and of `b`, means over seeds. For memory networks, the table behind the link says how near each is
  to its published figure; translation scores are not compared with published ones, which are of other corpora. A dev
  loss is the logarithm of the table's dev PPL.
- *advantage*: positive if `a` is better, whether the measure should be high or low, with its {100 * LEVEL:g} %
  interval. If `a` is claimed to be worse, its advantage must be negative: with +0.60 [−0.30, +1.50], `a` is at most
  0.30 worse. That is less than the margin of 0.5, so the comparison contradicts the claim. Differences are computed
  before rounding, and an interval is not cut at the largest possible difference. A margin of 0.01 nats is a large part
  of a dev loss on the built-in corpus, where dev losses are about 0.1, and a small one on natural text.
- *What an interval covers*: for BLEU, chance in seeds and in sentences (with one seed, in sentences only). The
  variance between seeds is assumed to be equal in both rows, and is pooled. If both test the weights of the same
  networks (claims 12 and 13 of the Weighted Transformer), seeds are pairs, and the variance is that of their
  differences. For errors of memory networks, chance in questions and in the restarts of one seed, which count as seeds
  do (with a single restart, as in DMN's claims, chance in questions only); for the order of a table's rows, chance in
  the rows that the table happens to have, where restarts do not count as seeds. For other measures it is Student's t
  interval over seeds. The errors are those of the best restarts, but the interval describes arbitrary ones, and so
  tends to be too wide.
- *saved*: the part of the base row's budget that `a` does not need to reach the dev loss at which training of the
  base row ends. That dev loss is the mean over the base row's seeds. The base row's budget ends where each seed first
  reached it (interpolated between validations), which may be long before its last step; a seed of the base row that
  ends above it counts with all its steps. "not reached" stands before the saving if some seed of `a` never reaches that
  dev loss: that seed counts as if it did so at its last step, so the figure is an upper bound, with the interval of
  that bound, and cannot support the claim. If no seed reaches it, the bound says only how long both rows ran. Other
  dev losses are of the tested weights, so the two may differ. Seconds include other work on the machine: three equal
  runs of `weighted` took 529, 718 and 713 s on the built-in corpus. In [interleaved
  measurements](results/step_time.md), a step of the branched network took 1.09 to 1.17 times as long as one of the
  Transformer at base size.
- *outcome*: *supports*, *contradicts* or *open*. "contradicts: less than the margin" means that the whole interval has
  the claimed sign, but the difference is too small to count.
- *seeds*: of both rows, or "1 and 3" of `a` and of `b`; "10 restarts" for memory networks; for the order of a table's
  rows, "3 or more" is the number of the row that has the fewest.
- *detectable*: the smallest true difference that this many seeds would have shown with probability {POWER:g}; empty
  where a dev loss is "not reached". A claim of no difference can be supported only where half the interval is narrower
  than the margin.
- *device-hours*: runs that were copied from another sweep, and rows that test another row's weights, add none; their
  processors are not named. `multi30k_weighted_table2`, `toy_weighted_table2` and `toy_attention_table3` (`big`)
  compare some rows across processors, and the seeds of `N8_transformer` in the first are of both. Seeds and rows on
  different processors count as trained alike.
- *recalled* marks a published figure that is quoted from memory, and was not checked against the publication.
"""

CLAIMS = ("no.", "claim, in our words", "verdict", "where", "published", "measured here")
COUNTED: dict[Bearing, str] = {"supports": "supporting", "contradicts": "contradicting", "open": "open"}
NO_BREAK = "\N{NO-BREAK SPACE}"
COMPARISONS = ("no.", "corpus", "rows", "claimed", "measure", "values", "advantage", "outcome", "seeds", "detectable")


def page(papers: Sequence[Paper], evidence: Evidence) -> str:
    """The whole page as Markdown."""
    parts = [HEAD]
    for paper in papers:
        judged = [evidence.judge(paper, claim) for claim in paper.claims]
        parts += [
            f"## {paper.name}\n",
            _tally(judged),
            _claims(judged),
            _comparisons(judged, named(paper.task)),
            _efforts(evidence.effort(paper)),
        ]
    return "\n".join(part for part in [*parts, RULE] if part)


def _tally(judged: Sequence[Judged]) -> str:
    counts = [(sum(item.verdict == verdict for item in judged), verdict) for verdict in VERDICTS]
    words = ", ".join(f"{'all' if count == len(judged) else count} {verdict}" for count, verdict in counts if count)
    return f"{len(judged)} claims and questions: {words}.\n"


def _claims(judged: Sequence[Judged]) -> str:
    rows = []
    for number, item in enumerate(judged, start=1):
        claim = item.claim
        rows.append((str(number), claim.claim, f"**{item.verdict}**", claim.section, claim.published or "", _why(item)))
    return _table(CLAIMS, rows)


def _why(item: Judged) -> str:
    """What the verdict follows from: the outcomes of the comparisons, or why there are none."""
    claim = item.claim
    if claim.settled:
        return f"{claim.settled.why} (`{claim.settled.by}`)"
    if claim.untested:
        return re.sub(r"docs/([\w/]+\.md)", r"[\1](\1)", claim.untested)
    if not item.outcomes:
        return "not run yet"
    counted = [outcome for outcome in item.outcomes if not outcome.test.later]
    groups = {name: [outcome for outcome in counted if outcome.scale.name == name] for name in item.absent}
    words = [f"{name}: {_counts(group, item.absent[name])}" for name, group in groups.items()]
    number, later = len(counted) + sum(item.absent.values()), len(item.outcomes) - len(counted)
    more = f"; {later} chosen later, not counted" if later else ""
    told = "; ".join([f"{number} comparison{'s' if number != 1 else ''}", *words])
    return told + more


def _counts(outcomes: Sequence[Outcome], absent: int) -> str:
    """How many comparisons of one corpus have each outcome."""
    counts = Counter(map(_bearing, outcomes))
    words = [f"{counts[bearing]} {word}" for bearing, word in COUNTED.items() if counts[bearing]]
    words += [f"{absent} not run"] if absent else []
    small = sum(map(_below_the_margin, outcomes))
    return ", ".join(words) + (f" ({small} contradicting with the claimed sign, below the margin)" if small else "")


def _bearing(outcome: Outcome) -> Bearing:
    return outcome.bearing if outcome.finding and _enough(outcome.finding) else "open"


def _enough(found: Finding) -> bool:
    return min(found.seeds) >= SEEDS


def _comparisons(judged: Sequence[Judged], task: Task) -> str:
    rows = [
        (str(number), *_comparison(outcome, task))
        for number, item in enumerate(judged, start=1)
        for outcome in item.outcomes
    ]
    return f"The comparisons behind these verdicts:\n\n{_table(COMPARISONS, rows)}" if rows else ""


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(head)} |", f"|{'|'.join([':---'] * len(head))}|"]
    lines += [f"| {' | '.join(_in_one_line(cell) for cell in row)} |" for row in rows]
    return "\n".join(lines) + "\n"


def _in_one_line(text: str) -> str:
    """A cell of a Markdown table; a folded text of YAML ends with a newline."""
    return re.sub(r"\s*\n\s*", " ", text.strip()).replace("|", "&#124;")


def _comparison(outcome: Outcome, task: Task) -> tuple[str, ...]:
    """The cells of a comparison, from its corpus on."""
    test, found = outcome.test, outcome.finding
    scale = f"[{outcome.scale.name}](results/{outcome.scale.prefix}{test.table}.md)"
    claimed = "the same" if test.expect == "same" else test.expect
    values = f"{NO_BREAK}v.{NO_BREAK}".join(_number(level, test) for level in outcome.levels or ())
    advantage, *counts = (
        (_advantage(outcome, found), _seeds(found, test), _power(found, outcome)) if found else ("", "", "")
    )
    return (scale, _rows(outcome), claimed, _measure(test, task), values, advantage, _told(outcome), *counts)


def _advantage(outcome: Outcome, found: Finding) -> str:
    saving = outcome.test.expect == "sooner"
    effect, low, high = (
        _number(100 * value if saving else value, outcome.test, signed=True)
        for value in (found.effect, found.low, found.high)
    )
    if saving:
        effect = f"{'not reached: at most ' if outcome.at_most else ''}{'0' if effect == '−0' else effect} %"
    return f"{effect} [{low}, {high}]".replace(" ", NO_BREAK)


def _seeds(found: Finding, test: Contrast) -> str:
    counts = " and ".join(map(str, found.seeds if len(set(found.seeds)) > 1 else found.seeds[:1]))
    kind = (" restart" if found.seeds == (1, 1) else " restarts") if found.restarts else ""
    return f"{counts}{kind}{' or more' if test.expect == 'same order' else ''}"


def _power(found: Finding, outcome: Outcome) -> str:
    test = outcome.test
    if not _enough(found) or test.expect == "same order" or outcome.at_most:
        return ""
    return (
        f"{_number(100 * detectable(found), test)} %" if test.expect == "sooner" else _number(detectable(found), test)
    )


def _told(outcome: Outcome) -> str:
    """The outcome in words, with its caveats."""
    test, found, words = outcome.test, outcome.finding, str(_bearing(outcome))
    notes = [outcome.note] if outcome.note else []
    if found and not _enough(found):
        notes.insert(0, f"{'some row has ' if test.expect == 'same order' else ''}fewer than {SEEDS} seeds")
    if _below_the_margin(outcome):
        words += ": less than the margin"
    return "; ".join([words, *notes, *(["chosen later"] if test.later else [])])


def _below_the_margin(outcome: Outcome) -> bool:
    """Whether the claim is contradicted by an effect that certainly has the claimed sign, and is too small."""
    found, expect = outcome.finding, outcome.test.expect
    if found is None or _bearing(outcome) != "contradicts" or expect not in ("better", "worse"):
        return False
    return found.high < 0 if expect == "worse" else found.low > 0


def _rows(outcome: Outcome) -> str:
    test = outcome.test
    if test.expect == "same order":
        return "all"
    sides = zip((str(test.row), str(test.base)), outcome.labels or ("", ""), strict=True)
    return " v. ".join(f"`{name}`" + (f" ({label})" if label not in ("", name) else "") for name, label in sides)


def _measure(test: Contrast, task: Task) -> str:
    label = task.measure(test.measure).label
    if test.expect == "same order":
        return f"rank correlation of {label} with the published {test.published.replace('_', ' ')}"
    if test.expect == "sooner":
        return {"step": "steps", "flops": "FLOPs"}.get(test.unit, test.unit.replace("_", " ")) + " saved"
    return label


def _number(value: float, test: Contrast, *, signed: bool = False) -> str:
    digits = {"sooner": 0, "same order": 2}.get(test.expect, 3 if test.measure.endswith(("nll", "ppl")) else 2)
    if abs(value) == float("inf"):
        return "∞" if value > 0 else "−∞"
    return delta(value, digits) if signed else delta(value, digits).removeprefix("+")


def _efforts(efforts: Sequence[Effort]) -> str:
    if not efforts:
        return "No run that tests these claims has been recorded yet.\n"
    lines = ["| sweep | scale | runs | device-hours of training | device |", "|:---|:---|---:|---:|:---|"]
    lines += [
        f"| [{item.sweep}](results/{item.sweep}.md) | {item.scale} | {item.finished} of {item.wanted} | "
        f"{item.hours:.1f} | {item.devices} |"
        for item in efforts
    ]
    return "\n".join(lines) + "\n"
