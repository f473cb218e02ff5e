"""Exponents fitted to numbers with known exponents."""

import pytest

from variations.planning.complexity.report import CLAIMS, Exponents, Fit, above, exponents, large_end

GRID = [(n, d) for n in (64, 128, 256, 512, 1024, 2048) for d in (32, 64, 128, 256, 512, 1024)]


def test_the_large_end_is_the_upper_half_and_three_values_where_there_are():
    assert large_end([64, 128, 256, 512, 1024, 2048]) == [512, 1024, 2048]
    assert large_end([4, 1, 3, 2]) == [2, 3, 4]
    assert large_end([8, 4]) == [4, 8]


@pytest.mark.parametrize(
    ("layer", "n", "d"),
    [("self_attention", 2, 1), ("recurrent", 1, 2), ("convolution", 1, 2), ("restricted", 1, 1)],
)
def test_table_1_has_whole_exponents(layer, n, d):
    found = exponents({cell: CLAIMS[layer].formula(*cell, 3, 16) for cell in GRID})
    assert (found.n, found.d) == (pytest.approx(n, abs=1e-9), pytest.approx(d, abs=1e-9))
    assert found.n_error == pytest.approx(0, abs=1e-6) and found.cells == 9


def test_the_separable_convolution_is_nearly_quadratic_in_d():
    found = exponents({cell: CLAIMS["separable"].formula(*cell, 3, 16) for cell in GRID})
    assert found.n == pytest.approx(1)
    # d log(k·d + d²)/d log d = (k + 2d)/(k + d) lies between 1.988 (d = 256) and 1.997 (d = 1024)
    assert 1.988 < found.d < 1.997


def test_small_sizes_do_not_count():
    work = {(n, d): float(n * d) if n >= 512 and d >= 256 else 1e9 for n, d in GRID}
    found = exponents(work)
    assert (found.n, found.d) == (pytest.approx(1), pytest.approx(1))


def test_the_standard_error_is_that_of_least_squares():
    # log2 work = log2 n + log2 d + e with e = ±1 in a pattern orthogonal to both slopes: variance 4/(4-3) = 4,
    # and each centred column has the sum of squares 4 · (1/2)² = 1, so the error is √(4/1) = 2.
    work = {(1, 1): 2.0, (1, 2): 1.0, (2, 1): 1.0, (2, 2): 8.0}
    found = exponents(work)
    assert (found.n, found.d) == (pytest.approx(1), pytest.approx(1))
    assert found.n_error == pytest.approx(2) and found.d_error == pytest.approx(2)


def test_a_single_value_has_no_exponent():
    with pytest.raises(ValueError, match="two values"):
        exponents({(8, 16): 1.0, (16, 16): 2.0})


def test_a_time_that_grows_faster_than_its_work_is_named():
    counted = Exponents(1.0, 1.0, 0.0, 0.0, 9)

    def told(n: float, n_error: float | None) -> list[str]:
        return above([Fit("restricted", counted, counted, Exponents(n, 1.0, n_error, 0.1, 9))])

    assert told(1.22, 0.09) == [
        "By more than two standard errors above the counted ones: Self-attention, restricted, n (1.22 for 1.00)."
    ]
    assert told(1.17, 0.09) == told(1.22, None) == []
