from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.significance import PairedTest
from scipy import stats
from suite import sampled

from variations.system.errors import DataError
from variations.tables import resampling, significance
from variations.tasks.translation.scoring.counts import bleu, bleu_counts

paired_bootstrap = partial(significance.paired_bootstrap, aggregate=bleu)
paired_randomisation = partial(significance.paired_randomisation, aggregate=bleu)
across_seeds = partial(significance.across_seeds, aggregate=bleu)

lines = st.text(alphabet="ab, .", max_size=20)


def simulated_references(rng, sentences):
    """Return reference lengths, and how easy each sentence is to translate for any system."""
    return rng.integers(8, 30, size=sentences), rng.normal(0.3, 0.5, size=sentences)


def simulated_system(rng, references, ease, quality):
    """Return counts (S, 10) of a system; two systems with equal `quality` differ only by chance."""
    sentences = len(references)
    lengths = np.maximum(references + rng.integers(-2, 3, size=sentences), 5)
    chance = 1 / (1 + np.exp(-(ease + quality + rng.normal(0, 0.5, size=sentences))))
    totals = np.stack([lengths - order for order in range(4)], axis=1)
    matches = [rng.binomial(np.minimum(lengths, references), chance)]
    for order in (1, 2, 3):
        matches.append(rng.binomial(np.minimum(matches[-1], totals[:, order]), chance**0.6))
    return np.column_stack([lengths, references, np.stack(matches, axis=1), totals])


def sentences(rng, count, noise):
    """Return random sentences with each word replaced with probability `noise`, and the original sentences."""
    references = [rng.integers(20, size=rng.integers(5, 15)) for _ in range(count)]
    changed = [np.where(rng.random(len(line)) < noise, rng.integers(20, size=len(line)), line) for line in references]
    return [[" ".join(f"w{word}" for word in line) for line in side] for side in (changed, references)]


def two_systems(apart=1):
    """The second lacks the last word of every 19th line, and the first of every `apart`th if that is more than 1."""
    rng = np.random.default_rng(0)
    first, references = sentences(rng, 700, 0.3)
    words = [line.split() for line in first]
    second = [" ".join(line[:-1]) if k % 19 == 0 else " ".join(line) for k, line in enumerate(words)]
    first = [" ".join(line[:-1]) if k % apart == 1 else " ".join(line) for k, line in enumerate(words)]
    return first, second, references


def by_sacrebleu(first, second, references, kind, n, seed, monkeypatch):
    """Return sacreBLEU's own p-value of `second` against `first`."""
    monkeypatch.setenv("SACREBLEU_SEED", str(seed))
    test = PairedTest([("base", first), ("system", second)], {"BLEU": BLEU()}, [references], kind, n_samples=n)
    return test()[1]["BLEU"][1].p_value


@pytest.mark.slow
@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(lines, lines), min_size=1, max_size=5))
def test_counts_and_bleu_equal_sacrebleu(pairs):
    ours, theirs = [p[0] for p in pairs], [p[1] for p in pairs]
    counts = bleu_counts(ours, theirs)
    expected = BLEU(force=True).corpus_score(ours, [theirs])
    assert counts.shape == (len(pairs), 10)
    assert counts.sum(0).tolist() == [expected.sys_len, expected.ref_len, *expected.counts, *expected.totals]
    assert bleu(counts.sum(0)) == pytest.approx(expected.score, abs=1e-9)
    unsmoothed = BLEU(force=True, smooth_method="none").corpus_score(ours, [theirs])
    assert bleu(counts.sum(0), smooth=False) == pytest.approx(unsmoothed.score, abs=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [12345, 7])
def test_bootstrap_reproduces_sacrebleu(monkeypatch, seed):
    first, second, references = two_systems()
    expected = by_sacrebleu(first, second, references, "bs", 1200, seed, monkeypatch)
    base, system = bleu_counts(first, references), bleu_counts(second, references)
    found = paired_bootstrap(system, base, n=1200, seed=seed)
    assert found.p_sacrebleu == pytest.approx(expected, abs=1e-12)
    assert 0.001 < found.p < 0.999


@pytest.mark.slow
@pytest.mark.parametrize("seed", [12345, 7])
def test_randomisation_reproduces_sacrebleu(monkeypatch, seed):
    first, second, references = two_systems(apart=23)
    expected = by_sacrebleu(first, second, references, "ar", 1200, seed, monkeypatch)
    assert 0.01 < expected < 0.99
    base, system = bleu_counts(first, references), bleu_counts(second, references)
    found = paired_randomisation(system, base, n=1200, seed=seed)
    assert found.p_sacrebleu == pytest.approx(expected, abs=1e-12)
    assert found.p == pytest.approx(expected, abs=0.002)


@pytest.mark.slow
def test_difference_is_system_minus_base_in_bleu_points():
    first, second, references = two_systems()
    base, system = bleu_counts(first, references), bleu_counts(second, references)
    metric = BLEU()
    expected = metric.corpus_score(second, [references]).score - metric.corpus_score(first, [references]).score
    for test in (paired_bootstrap, paired_randomisation):
        found = test(system, base, n=200)
        assert found.difference == pytest.approx(expected, abs=1e-9)
        assert found.low < found.difference < found.high
        assert (found.n, found.seed) == (200, 12345)
        assert test(base, system, n=200).difference == pytest.approx(-expected, abs=1e-9)


def test_same_seed_same_result_and_other_seed_other_draws():
    rng = np.random.default_rng(5)
    references, ease = simulated_references(rng, 100)
    system, base = (simulated_system(rng, references, ease, 0) for _ in range(2))
    assert paired_bootstrap(system, base, n=50) == paired_bootstrap(system, base, n=50)
    assert paired_bootstrap(system, base, n=50).low != paired_bootstrap(system, base, n=50, seed=1).low


def test_a_system_does_not_differ_from_itself():
    rng = np.random.default_rng(1)
    counts = simulated_system(rng, *simulated_references(rng, 50), 0)
    for found in (
        paired_bootstrap(counts, counts, n=99),
        paired_randomisation(counts, counts, n=99),
        across_seeds([counts, counts], [counts, counts], n=99),
    ):
        assert (found.difference, found.low, found.high, found.p) == (0, 0, 0, 1)
        assert not found.significant


@pytest.mark.slow
@settings(deadline=None, max_examples=200)
@given(
    values=st.lists(st.tuples(*[st.integers(0, 3)] * 4), min_size=2, max_size=12),
    n=st.sampled_from([19, 20, 99, 1000]),
    level=st.sampled_from([0.5, 0.9, 0.95, 0.9999]),
)
def test_an_interval_leaves_out_zero_exactly_if_the_difference_is_significant(values, n, level):
    runs = [np.array([[line[k], 1] for line in values]) for k in range(4)]
    mean = lambda sums: sums[..., 0] / sums[..., 1]  # noqa: E731
    for test in (
        lambda: significance.paired_bootstrap(runs[0], runs[1], mean, n=n, level=level),
        lambda: significance.paired_randomisation(runs[0], runs[1], mean, n=n, level=level),
        lambda: significance.across_seeds(runs[:2], runs[2:], mean, n=n, level=level),
    ):
        try:
            found = test()
        except resampling.UndefinedError as error:
            assert "no spread" in str(error)
            continue
        assert found.significant == (not found.low <= 0 <= found.high)
        assert found.high - found.difference == pytest.approx(found.difference - found.low)


@pytest.mark.parametrize(("level", "n", "p"), [(0.99, 199, 0.01), (0.95, 139, 0.05), (0.95, 119, 0.05)])
def test_a_p_that_equals_the_level_is_not_below_it(level, n, p):
    """In floating point, 1 - 0.99 and 1 - 0.95 are a little more than 0.01 and 0.05."""
    as_large = round(p * (n + 1)) - 1
    draws = np.array([2.0] * as_large + [-0.5, 0.5] * (n // 2))[:n]
    low, high, found = significance._judged(1.0, draws, level)
    assert found == p and low <= 0 <= high
    assert not significance.Comparison(1.0, low, high, found, "bootstrap", n, 1, level).significant


def test_the_interval_of_independent_values_is_that_of_a_normal():
    """Differences of standard normal values: the mean of 400 has a standard error of 1/20."""
    values = np.random.default_rng(3).normal(0.03, 1, 400)
    values = (values - values.mean()) / values.std() + 0.03
    system, base = (np.column_stack([column, np.ones(400)]) for column in (values, np.zeros(400)))
    found = significance.paired_bootstrap(system, base, lambda sums: sums[..., 0] / sums[..., 1], n=4000)
    exact = (0.03 - 1.96 / 20, 0.03 + 1.96 / 20)
    assert (found.low, found.high) == pytest.approx(exact, abs=0.006)  # four standard errors of the quantile


def test_items_that_all_differ_alike_have_no_spread():
    """Two sentences, one system always right and the other always wrong: chance cannot be told from two of a kind."""
    right, wrong = np.array([[1, 1], [1, 1]]), np.array([[0, 1], [0, 1]])
    mean = lambda sums: sums[..., 0] / sums[..., 1]  # noqa: E731
    with pytest.raises(resampling.UndefinedError, match="all of them differ alike"):
        significance.paired_bootstrap(right, wrong, mean)
    with pytest.raises(resampling.UndefinedError, match="all of them differ alike"):
        significance.across_seeds([right, right], [wrong, wrong], mean)


@pytest.mark.parametrize(("ours", "theirs"), [((27, 77, 14), (96, 97, 97)), ((51, 60, 70, 42), (50, 58, 71, 40))])
def test_paired_seeds_are_students_test_of_their_differences_where_items_add_no_chance(ours, theirs):
    """All items of a run are alike; then scipy's tests for related and for unrelated samples are the references."""
    system, base = ([np.tile([score, 100], (500, 1)) for score in side] for side in (ours, theirs))
    mean = lambda sums: sums[..., 0] / sums[..., 1]  # noqa: E731
    for paired, reference in ((True, stats.ttest_rel), (False, stats.ttest_ind)):
        found = significance.across_seeds(system, base, mean, n=100, paired=paired)
        expected = reference(np.array(ours) / 100, np.array(theirs) / 100)
        assert found.p == pytest.approx(expected.pvalue, rel=1e-9)
        assert (found.low, found.high) == pytest.approx(tuple(expected.confidence_interval()), rel=1e-9)
        assert (found.paired, found.variance) == (paired, ("items", "seeds"))
    with pytest.raises(ValueError, match="runs are no pairs"):
        significance.across_seeds(system, base[:-1], mean, paired=True)


def test_a_single_item_has_no_spread():
    one = np.array([[5, 5, 4, 3, 2, 1, 5, 4, 3, 2]])
    for test in (paired_bootstrap, paired_randomisation):
        with pytest.raises(resampling.UndefinedError, match="a single one has no spread"):
            test(one, one)
    with pytest.raises(resampling.UndefinedError, match="a single one has no spread"):
        across_seeds([one, one], [one])


def test_a_big_difference_is_found_by_every_test():
    rng = np.random.default_rng(2)
    references, ease = simulated_references(rng, 300)
    better, base = ([simulated_system(rng, references, ease, quality) for _ in range(3)] for quality in (0.5, 0.0))
    for found in (
        paired_bootstrap(better[0], base[0], n=999),
        paired_randomisation(better[0], base[0], n=999),
        across_seeds(better, base, n=999),
    ):
        assert found.difference > 5
        assert found.low > 0
        assert found.significant
        if found.method == "seeds":
            assert found.p < 1e-3
        else:
            assert found.p == pytest.approx(1 / 1000)  # the smallest that 999 draws can show


@pytest.mark.slow
def test_false_alarms_of_the_paired_tests_keep_to_their_level():
    """400 comparisons of equal systems at 5 %: 20 expected, standard deviation 4.4; limits at four of these."""
    alarms = np.zeros(3)
    for trial in range(400):
        rng = np.random.default_rng(trial)
        references, ease = simulated_references(rng, 200)
        system, base = (simulated_system(rng, references, ease, 0) for _ in range(2))
        bootstrap = paired_bootstrap(system, base, n=199, seed=trial)
        interval_misses_zero = not bootstrap.low <= 0 <= bootstrap.high
        randomisation = paired_randomisation(system, base, n=199, seed=trial)
        alarms += [bootstrap.significant, interval_misses_zero, randomisation.significant]
    assert (alarms >= 3).all(), alarms
    assert (alarms <= 37).all(), alarms


@pytest.mark.slow
@pytest.mark.parametrize(("runs", "seed_effect"), sampled([(3, 0.1), (3, 0.0), (5, 0.1)], 3))
def test_false_alarms_across_seeds_keep_to_their_level(runs, seed_effect):
    """As above; without a seed effect the test may be more conservative than its level, so there is no lower limit."""
    alarms = naive = 0
    for trial in range(400):
        rng = np.random.default_rng(trial)
        references, ease = simulated_references(rng, 200)
        system, base = (
            [simulated_system(rng, references, ease, rng.normal(0, seed_effect)) for _ in range(runs)] for _ in range(2)
        )
        alarms += across_seeds(system, base, n=199, seed=trial).significant
        naive += paired_bootstrap(system[0], base[0], n=199, seed=trial).significant
    assert alarms <= 37
    if seed_effect:
        assert alarms >= 3
        assert naive > 37, "a test of one seed against one takes the luck of the seed for a difference"


@pytest.mark.parametrize("runs", [(3, 3), (2, 4), (1, 3)])
def test_without_chance_in_items_it_is_the_t_test_of_two_samples(runs):
    """All items of a run have its mean, so drawing them again changes nothing, and only seeds differ."""
    rng = np.random.default_rng(8)
    means = [rng.normal(shift, 0.3, size) for shift, size in zip((0.5, 0.0), runs, strict=True)]
    system, base = ([np.column_stack([np.full(40, mean), np.ones(40)]) for mean in side] for side in means)
    found = significance.across_seeds(system, base, lambda sums: sums[..., 0] / sums[..., 1])
    exact = stats.ttest_ind(*means)
    assert found.p == pytest.approx(exact.pvalue, rel=1e-9)
    assert (found.low, found.high) == pytest.approx(tuple(exact.confidence_interval(0.95)), rel=1e-9)


def test_against_a_base_without_seeds_it_is_the_t_test_of_one_sample():
    means = np.random.default_rng(8).normal(0.5, 0.3, 3)
    system = [np.column_stack([np.full(40, mean), np.ones(40)]) for mean in means]
    base = np.column_stack([np.full(40, 0.1), np.ones(40)])
    mean = lambda sums: sums[..., 0] / sums[..., 1]  # noqa: E731
    found = significance.across_seeds(system, [base], mean, fixed_base=True)
    exact = stats.ttest_1samp(means, 0.1)
    assert found.p == pytest.approx(exact.pvalue, rel=1e-9)
    interval = exact.confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((interval.low - 0.1, interval.high - 0.1), rel=1e-9)
    unlike = base + np.random.default_rng(1).normal(0, 1, base.shape)
    assert significance.across_seeds(system[:1], [unlike], mean, fixed_base=True).variance == ("items",)


def test_a_mark_does_not_depend_on_the_seed_of_the_draws():
    """Items have a tenth of the variance, which 1,000 draws show to 4.5 %: the standard error varies by 0.2 %.

    So p near 0.05 varies by 0.0005, and over twenty seeds in a range of 0.002; the limit is twice that. If normal
    deviations for seeds were drawn as well, p would vary by 0.005.
    """
    rng = np.random.default_rng(8)
    system, base = (
        [np.column_stack([shift + change + rng.normal(0, 1.9, 400), np.ones(400)]) for change in (-0.3, 0.0, 0.3)]
        for shift in (0.62, 0.0)
    )
    mean = lambda sums: sums[..., 0] / sums[..., 1]  # noqa: E731
    found = [significance.across_seeds(system, base, mean, seed=seed).p for seed in range(20)]
    assert 0.02 < min(found) < 0.1
    assert max(found) - min(found) < 0.004


def test_spread_between_seeds_widens_the_interval():
    rng = np.random.default_rng(3)
    references, ease = simulated_references(rng, 300)
    base = [simulated_system(rng, references, ease, 0) for _ in range(3)]
    alike = [simulated_system(rng, references, ease, 0.1) for _ in range(3)]
    unlike = [simulated_system(rng, references, ease, 0.1 + change) for change in (-0.4, 0.0, 0.4)]
    narrow, wide = across_seeds(alike, base), across_seeds(unlike, base)
    assert wide.high - wide.low > 2 * (narrow.high - narrow.low)
    assert (wide.seeds, wide.variance) == ((3, 3), ("items", "seeds"))


def mirrored(found, other):
    """Return whether two comparisons are the same one in opposite directions."""
    return (found.difference, found.low, found.high, found.p) == pytest.approx(
        (-other.difference, -other.high, -other.low, other.p), abs=1e-12
    )


def test_a_comparison_has_one_interval_and_one_p_in_both_directions():
    rng = np.random.default_rng(6)
    references, ease = simulated_references(rng, 150)
    system, base = ([simulated_system(rng, references, ease, rng.normal(0, 0.1)) for _ in range(3)] for _ in range(2))
    assert mirrored(across_seeds(system, base), across_seeds(base, system))
    assert mirrored(paired_bootstrap(system[0], base[0]), paired_bootstrap(base[0], system[0]))


def test_single_seeds_say_that_seeds_were_not_accounted_for():
    rng = np.random.default_rng(4)
    references, ease = simulated_references(rng, 100)
    system, base = (simulated_system(rng, references, ease, 0) for _ in range(2))
    found, plain = across_seeds([system], [base], n=500), paired_bootstrap(system, base, n=500)
    assert found.variance == ("items",)
    assert found.p == pytest.approx(plain.p)
    assert across_seeds([system], [base, system], n=500).variance == ("items", "seeds")


def test_faulty_input_is_refused():
    with pytest.raises(DataError, match="2 and 1"):
        bleu_counts(["a", "b"], ["a"])
    first, second = bleu_counts(["a"], ["a"]), bleu_counts(["a", "b"], ["a", "b"])
    with pytest.raises(ValueError, match="same items"):
        paired_bootstrap(first, second)
    with pytest.raises(ValueError, match="at least one run"):
        across_seeds([], [first])
