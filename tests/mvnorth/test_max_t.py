"""Multiple comparisons, against scipy's tests, closed forms and the definitions."""

import json

import mpmath
import numpy as np
import pytest
from scipy import stats

import mvnorth
from mvnorth import OneFactor, Status, group_contrasts, max_t, sample_contrasts

RANDOM = np.random.default_rng(2)
# Dunnett (1955): blood counts of animals, a control and two drugs, in millions per cubic mm.
BLOOD = {
    "control": np.array([7.40, 8.50, 7.20, 8.24, 9.84, 8.32]),
    "drug A": np.array([9.76, 8.80, 7.68, 9.36]),
    "drug B": np.array([12.80, 9.68, 12.16, 9.20, 10.55]),
}
BALANCED = {name: RANDOM.normal(k * 0.6, 1.0, size=7) for k, name in enumerate("abc")}


def pooled(samples):
    counts = np.array([len(values) for values in samples.values()])
    df = counts.sum() - len(counts)
    squares = sum(np.var(values) * len(values) for values in samples.values())
    return np.array([values.mean() for values in samples.values()]), counts, squares / df, df


# Whole analyses


@pytest.mark.parametrize("alternative", ["two-sided", "greater", "less"])
def test_dunnett_is_scipys(alternative):
    control, *others = BLOOD.values()
    result = max_t(sample_contrasts(BLOOD), alternative=alternative, rtol=1e-7)
    expected = stats.dunnett(*others, control=control, alternative=alternative, rng=1)
    np.testing.assert_allclose(result.statistics, expected.statistic, rtol=1e-12)
    np.testing.assert_allclose(result.p_values, expected.pvalue, atol=2e-4)
    interval = expected.confidence_interval(0.95)
    np.testing.assert_allclose(result.lower, interval.low, atol=0.02)
    np.testing.assert_allclose(result.upper, interval.high, atol=0.02)
    assert result.status == Status.CONVERGED


def test_dunnetts_published_example():
    """The data of Dunnett (1955), for which scipy's documentation has 0.62005 and 0.0059."""
    result = max_t(sample_contrasts(BLOOD))
    assert result.p_values.round(3).tolist() == [0.620, 0.006]
    assert result.names == ("drug A - control", "drug B - control")
    assert result.df == 12


def test_tukey_is_scipys_for_balanced_groups():
    result = max_t(sample_contrasts(BALANCED, kind="tukey"), step_down=False, rtol=1e-8)
    expected = stats.tukey_hsd(*BALANCED.values())
    pairs = [(1, 0), (2, 0), (2, 1)]
    interval = expected.confidence_interval(0.95)
    for k, pair in enumerate(pairs):
        assert abs(result.p_values[k] - expected.pvalue[pair]) <= result.p_errors[k] + 1e-9
        slack = result.critical_error * result.standard_errors[k] + 1e-9
        assert abs(result.lower[k] - interval.low[pair]) <= slack
        assert abs(result.upper[k] - interval.high[pair]) <= slack
    assert result.p_errors.max() < 1e-8


def test_tukey_for_groups_of_different_sizes():
    """A singular covariance of any form; that of three groups has two dimensions."""
    contrasts = sample_contrasts(BLOOD, kind="tukey")
    result = max_t(contrasts, step_down=False, rtol=1e-3)
    sizes = np.abs(result.statistics)[:, None] * result.standard_errors
    cov = contrasts.cov[:2, :2]  # the third difference is that of the first two

    def inside(limit, r):
        """Pr(|x| <= a, |y| <= b, |y - x| <= c): cut into bands of x."""
        a, b, c = r * limit
        x = np.linspace(-a, a, 2001)
        slope, rest = cov[0, 1] / cov[0, 0], np.sqrt(cov[1, 1] - cov[0, 1] ** 2 / cov[0, 0])
        high, low = np.minimum(b, x + c), np.maximum(-b, x - c)
        width = stats.norm.cdf((high - slope * x) / rest) - stats.norm.cdf((low - slope * x) / rest)
        return np.trapezoid(stats.norm.pdf(x, scale=np.sqrt(cov[0, 0])) * width.clip(0.0), x)

    s = np.linspace(*stats.chi.ppf([1e-9, 1.0 - 1e-9], contrasts.df), 301)
    for k, limit in enumerate(sizes):
        values = [inside(limit, r) for r in s / np.sqrt(contrasts.df)]
        expected = 1.0 - np.trapezoid(stats.chi.pdf(s, contrasts.df) * values, s)
        assert abs(result.p_values[k] - expected) <= result.p_errors[k] + 1e-6


def test_tiny_p_values_of_ranges():
    """P-values of 45 pairs far out, against the integral over the smallest mean in 40 digits."""
    contrasts = group_contrasts(np.linspace(0.0, 12.0, 10), 3, 1.0, kind="tukey")
    result = max_t(contrasts, step_down=False, rtol=1e-8)
    bonferroni = 45.0 * 2.0 * stats.norm.sf(np.abs(result.statistics))
    small = bonferroni < 1e-12
    assert small.sum() > 5
    assert (result.p_values <= bonferroni * (1.0 + 1e-12))[small].all()
    assert (result.p_errors <= 1e-8 * result.p_values).all()
    with mpmath.workdps(40):
        for k in np.flatnonzero(small)[:3]:
            c = mpmath.sqrt(2) * float(abs(result.statistics[k]))

            def excess(x, c=c):
                above = mpmath.ncdf(-x)
                inside = above - mpmath.ncdf(-x - c)
                return 10 * mpmath.npdf(x) * (above**9 - inside**9)

            expected = float(mpmath.quad(excess, [-c - 9, -c, -c / 2, 0, 9]))
            assert abs(result.p_values[k] - expected) <= result.p_errors[k] + 1e-14 * expected


@pytest.mark.parametrize("alternative", ["two-sided", "greater", "less"])
def test_one_comparison_is_a_t_test(alternative):
    two = {name: BLOOD[name] for name in ("control", "drug B")}
    result = max_t(sample_contrasts(two), alternative=alternative, rtol=1e-9)
    expected = stats.ttest_ind(two["drug B"], two["control"], alternative=alternative)
    np.testing.assert_allclose(result.p_values, expected.pvalue, rtol=1e-8)
    np.testing.assert_allclose(result.step_down_p_values, result.p_values, rtol=0)
    interval = expected.confidence_interval(0.95)
    np.testing.assert_allclose(result.lower, interval.low, rtol=1e-8)
    np.testing.assert_allclose(result.upper, interval.high, rtol=1e-8)


# p-values


def test_independent_p_values():
    statistics = np.array([0.1, -1.5, 2.0, 4.0, -7.3, 11.0])
    result = max_t(statistics, np.eye(6), rtol=1e-9)
    each = 2.0 * stats.norm.sf(np.abs(statistics))
    expected = -np.expm1(6.0 * np.log1p(-each))
    np.testing.assert_allclose(result.p_values, expected, rtol=1e-8)
    left = np.array([1, 2, 3, 4, 5, 6])  # hypotheses with statistics at most as large
    np.testing.assert_allclose(
        result.step_down_p_values, -np.expm1(left * np.log1p(-each)), rtol=1e-8
    )
    assert (np.abs(result.p_values - expected) <= result.p_errors).all()


@pytest.mark.parametrize("df", [None, 30.0])
def test_tiny_p_values_keep_their_relative_accuracy(df):
    """Below 1e-12 pairs hardly ever exceed together: p is the sum of the marginal ones."""
    cov = OneFactor.exchangeable(4, 0.1)
    size = 9.0 if df is None else 16.0
    single = 2.0 * (stats.norm.sf(size) if df is None else stats.t.sf(size, df))
    result = max_t([size, 0.0, 0.0, 0.0], cov, df, rtol=1e-6)
    assert result.p_values[0] < 4e-15
    assert result.p_values[0] == pytest.approx(4.0 * single, rel=1e-3 if df is None else 0.1)
    assert result.p_values[0] <= 4.0 * single * (1.0 + 1e-6)  # Bonferroni
    assert result.p_errors[0] <= 1e-5 * result.p_values[0]


def test_step_down_is_its_definition():
    cov = np.array([[1.0, 0.5, 0.2], [0.5, 2.0, -0.3], [0.2, -0.3, 1.5]])
    statistics = np.array([1.8, -2.1, 2.4])
    result = max_t(statistics * np.sqrt(np.diag(cov)), cov, rtol=1e-8)
    order, largest = np.argsort(-np.abs(statistics)), 0.0
    for k, j in enumerate(order):
        rest = order[k:]
        limit = np.abs(statistics[j]) * np.sqrt(np.diag(cov))[rest]
        normal = stats.multivariate_normal(cov=cov[np.ix_(rest, rest)], seed=0)
        inside = normal.cdf(limit, lower_limit=-limit)
        largest = max(largest, 1.0 - float(inside))
        assert result.step_down_p_values[j] == pytest.approx(largest, abs=2e-5)
    assert (result.step_down_p_values <= result.p_values + 1e-12).all()


def test_step_down_never_reverses_the_order():
    for _ in range(5):
        a = RANDOM.normal(size=(3, 3))
        result = max_t(RANDOM.normal(size=3) * 2.0, a @ a.T + 0.1 * np.eye(3))
        order = np.argsort(-np.abs(result.statistics))
        assert (np.diff(result.step_down_p_values[order]) >= 0.0).all()


def test_alternatives_are_mirror_images():
    cov = [[1.0, 0.4], [0.4, 2.0]]
    greater = max_t([1.0, 2.5], cov, 8, alternative="greater", null=0.5)
    less = max_t([-1.0, -2.5], cov, 8, alternative="less", null=-0.5)
    np.testing.assert_array_equal(greater.p_values, less.p_values)
    np.testing.assert_array_equal(greater.lower, -less.upper)
    assert (greater.upper == np.inf).all()
    assert (less.lower == -np.inf).all()


def test_intervals_agree_with_p_values():
    estimates = np.linspace(1.5, 4.0, 8)
    cov = np.full((8, 8), 0.3) + 0.7 * np.eye(8)
    result = max_t(estimates, cov, 15, level=0.9)
    np.testing.assert_array_equal(result.p_values < 0.1, result.lower > 0.0)


# Contrasts


def test_group_contrasts():
    means, counts, variance, df = pooled(BLOOD)
    dunnett = group_contrasts(means, counts, variance, df, names=list(BLOOD), control="drug A")
    assert dunnett.names == ("control - drug A", "drug B - drug A")
    coefficients = np.array([[1.0, -1.0, 0.0], [0.0, -1.0, 1.0]])
    expected = coefficients @ np.diag(variance / counts) @ coefficients.T
    assert isinstance(dunnett.cov, OneFactor)
    np.testing.assert_allclose(dunnett.cov.dense(), expected, rtol=1e-14)
    np.testing.assert_allclose(dunnett.estimates, coefficients @ means)
    same = group_contrasts(means, counts, variance, df, kind=coefficients)
    np.testing.assert_allclose(same.cov, expected, rtol=1e-13, atol=1e-16)
    assert same.names == ("contrast 0", "contrast 1")
    named = group_contrasts(means, counts, [1.0, 2.0, 3.0], kind={"mean of drugs": [-1, 0.5, 0.5]})
    assert named.names == ("mean of drugs",)
    assert named.df is None
    assert named.cov[0, 0] == pytest.approx(1 / 6 + 0.25 * 2 / 4 + 0.25 * 3 / 5)
    sequence = sample_contrasts(BLOOD, kind="sequence")
    assert sequence.names == ("drug A - control", "drug B - drug A")
    tukey = sample_contrasts(list(BLOOD.values()), kind="tukey")
    assert tukey.names[0] == "group 1 - group 0"
    np.testing.assert_allclose(tukey.estimates, [means[1] - means[0], means[2] - means[0],
                                                 means[2] - means[1]])  # fmt: skip
    assert np.linalg.matrix_rank(tukey.cov) == 2
    assert tukey.df == df == 12


def test_contrasts_give_what_their_numbers_give():
    contrasts = sample_contrasts(BLOOD)
    whole = max_t(contrasts)
    apart = max_t(contrasts.estimates, contrasts.cov.dense(), contrasts.df, rtol=1e-6)
    np.testing.assert_allclose(whole.p_values, apart.p_values, rtol=2e-4)
    assert apart.names == ("parameter 0", "parameter 1")


# The result


def test_table_and_dict():
    result = max_t(sample_contrasts(BLOOD), rtol=1e-6)
    lines = repr(result).splitlines()
    head = "two-sided tests and 95 % intervals, 12 degrees of freedom, critical value "
    assert lines[0] == f"{head}{result.critical_value:.6g}"
    names = "parameter  estimate  std. error  statistic  p-value  step-down  lower  upper"
    assert lines[1].split() == names.split()
    assert lines[3].startswith("drug B - control")
    assert len({len(line) for line in lines[1:]}) == 1
    found = json.loads(json.dumps(result.to_dict()))
    assert found["names"] == ["drug A - control", "drug B - control"]
    assert found["status"] == "converged"
    assert found["p_values"] == result.p_values.tolist()
    without = max_t(sample_contrasts(BLOOD), step_down=False)
    assert without.step_down_p_values is None
    assert "step-down" not in repr(without)
    np.testing.assert_array_equal(without.p_values, max_t(sample_contrasts(BLOOD)).p_values)


@pytest.mark.parametrize("alternative", ["two-sided", "greater"])
def test_plot(alternative):
    plt = pytest.importorskip("matplotlib.pyplot")
    result = max_t(sample_contrasts(BLOOD), alternative=alternative)
    _, ax = plt.subplots()
    assert result.plot(ax) is ax
    assert [label.get_text() for label in ax.get_yticklabels()] == list(result.names)
    (estimates,) = [line for line in ax.lines if line.get_label() == "estimate"]
    np.testing.assert_array_equal(estimates.get_xdata(), result.estimates)
    left, right = ax.get_xlim()
    assert left < result.lower.min()
    assert right > result.estimates.max()
    plt.close("all")
    assert result.plot().figure is not ax.figure
    plt.close("all")


# Wrong input


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"estimates": [[1.0, 2.0]]}, r"estimates must have shape \(m,\)"),
        ({"estimates": [np.nan, 2.0]}, "estimates must not contain NaN"),
        ({"cov": np.eye(3)}, r"cov must be for 2 estimates, \(2, 2\), got one for 3"),
        ({"cov": [np.eye(2)] * 4}, r"cov must be for 2 estimates.*batch axes \(4,\)"),
        ({"cov": np.diag([1.0, 0.0])}, "cov must have variances > 0, that of estimate 1 is 0"),
        ({"cov": [[1.0, 3.0], [3.0, 1.0]]}, "cov must be positive semi-definite"),
        ({"df": -1.0}, "df must be > 0"),
        ({"df": [3.0, 4.0]}, "df must be one number"),
        ({"level": 95}, "level must be greater than 0 and less than 1, got 95"),
        ({"alternative": "larger"}, "alternative must be one of 'two-sided', 'greater', 'less'"),
        ({"null": [0.0, 1.0, 2.0]}, "null must be one number or 2 of them"),
        ({"names": ["a"]}, "names must be 2, one for each estimate"),
        ({"rtol": -1.0}, "rtol must be a number >= 0"),
    ],
)
def test_wrong_input_is_refused(arguments, message):
    given = {"estimates": [1.0, 2.0], "cov": np.eye(2)} | arguments
    with pytest.raises(ValueError, match=message):
        max_t(**given)


def test_cov_is_needed_once():
    with pytest.raises(TypeError, match="cov must be the covariance of the estimates"):
        max_t([1.0, 2.0])
    with pytest.raises(ValueError, match="cov and df must not be given with Contrasts"):
        max_t(sample_contrasts(BLOOD), np.eye(2))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"means": [1.0]}, "means must have shape .* k >= 2"),
        ({"counts": [3, 4]}, "counts must be one number, or one for each of 3 groups"),
        ({"counts": 0}, "counts must be at least 1, the smallest is 0"),
        ({"variance": -1.0}, "variance must be > 0, the smallest is -1"),
        ({"df": 0}, "df must be > 0, got 0"),
        ({"kind": "williams"}, "kind must be one of 'dunnett', 'tukey', 'sequence', a matrix"),
        ({"kind": [[1.0, -1.0]]}, "kind must have a row of 3 coefficients"),
        ({"kind": [[0.0, 0.0, 0.0]]}, "not all 0"),
        ({"control": 3}, "control must be below the number of groups, 3, got 3"),
        ({"control": "x"}, "control must be one of group 0, group 1, group 2, got 'x'"),
        ({"names": ["a", "a", "b"]}, "names must be 3 different ones"),
    ],
)
def test_wrong_contrasts_are_refused(arguments, message):
    given = {"means": [1.0, 2.0, 3.0], "counts": 5, "variance": 1.0} | arguments
    with pytest.raises(ValueError, match=message):
        group_contrasts(**given)


def test_wrong_samples_are_refused():
    with pytest.raises(ValueError, match="samples must have a group with two observations"):
        sample_contrasts([[1.0], [2.0]])
    with pytest.raises(ValueError, match="samples must vary within a group"):
        sample_contrasts([[1.0, 1.0], [2.0, 2.0]])
    with pytest.raises(ValueError, match="samples of 'b' must not contain NaN"):
        sample_contrasts({"a": [1.0, 2.0], "b": [np.nan]})
    with pytest.raises(ValueError, match="samples of 'group 1' must be a vector of observations"):
        sample_contrasts([[1.0, 2.0], []])
    assert mvnorth.Contrasts is type(sample_contrasts(BLOOD))
