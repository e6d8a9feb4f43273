"""Multivariate probit: statsmodels, naive likelihoods, planted truth, labels and messages."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import minimize
from scipy.special import log_ndtr, ndtr
from scipy.stats import multivariate_normal
from support.frames import Frame

import mvnorth
from mvnorth._probit.parameters import CorrelationParameters, ScaledCovarianceParameters

CORRELATION = np.array(
    [[1.0, 0.3, 0.5, -0.2], [0.3, 1.0, 0.1, 0.4], [0.5, 0.1, 1.0, 0.2], [-0.2, 0.4, 0.2, 1.0]]
)


def simulate(n, q, seed, p=2):
    """Outcomes (n, q), covariates with a constant (n, p), and the parameters."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([np.ones(n), rng.normal(size=(n, p - 1))])
    beta, R = rng.normal(0.0, 0.5, (q, p)), CORRELATION[:q, :q]
    errors = rng.normal(size=(n, q)) @ np.linalg.cholesky(R).T
    truth = np.concatenate([beta.ravel(), R[np.tril_indices(q, -1)]])
    return (X @ beta.T + errors > 0).astype(float), X, truth


def test_one_outcome_is_statsmodels_probit():
    # Figures of statsmodels 0.15.0: sm.Probit(y, X).fit(tol=1e-14), params, bse, llf.
    rng = np.random.default_rng(5)
    X = np.column_stack([np.ones(300), rng.normal(size=(300, 2))])
    y = X @ [0.4, -0.8, 0.3] + rng.normal(size=300) > 0
    result = mvnorth.Probit(y, X).fit()
    params = [0.4034805759028587, -0.7817284969048519, 0.3236068990780261]
    errors = [0.08362678440640586, 0.10504336094627706, 0.08654406699162019]
    assert np.allclose(result.params, params, atol=1e-9)
    assert np.allclose(result.bse, errors, rtol=1e-6)
    assert abs(result.llf + 155.8813960579471) < 1e-9
    assert result.converged


def test_statsmodels_itself():
    sm = pytest.importorskip("statsmodels.api", reason="compares with statsmodels")
    y, X, _ = simulate(400, 1, 1, p=4)
    ours = mvnorth.Probit(y, X)
    for kind, theirs in (("hessian", "nonrobust"), ("robust", "HC0")):
        a, b = ours.fit(cov_type=kind), sm.Probit(y[:, 0], X).fit(disp=0, cov_type=theirs)
        assert np.allclose(a.params, b.params, atol=1e-6)
        assert np.allclose(a.bse, b.bse, rtol=1e-4)
        assert np.allclose(a.pvalues, b.pvalues, atol=1e-6)
        assert np.allclose(a.conf_int(), b.conf_int(), atol=1e-5)
        assert np.allclose([a.llf, a.aic, a.bic], [b.llf, b.aic, b.bic])
        assert np.allclose(a.predict()[:, 0], b.predict())


def test_without_correlations_it_is_the_univariate_fits():
    # A design in which every pair of outcomes is exactly uncorrelated: each pattern once.
    patterns = np.array([[a, b, c] for a in (0, 1) for b in (0, 1) for c in (0, 1)], float)
    y = np.tile(patterns, (20, 1))
    X = np.repeat(np.random.default_rng(0).normal(size=(20, 2)), 8, axis=0)
    y = np.vstack([y, [[1, 1, 1]] * 4, [[1, 0, 0]] * 4])
    X = np.vstack([X, np.random.default_rng(1).normal(size=(8, 2))])
    whole = mvnorth.Probit(y[:, :1], X).fit()
    independent = mvnorth.Probit(y, X)
    params = np.concatenate([mvnorth.Probit(y[:, j], X).fit().params for j in range(3)])
    at_zero = independent.score_obs(np.concatenate([params, np.zeros(3)])).sum(axis=0)
    assert np.abs(at_zero[:6]).max() < 1e-6  # univariate maxima, as long as correlations are 0
    total = sum(mvnorth.Probit(y[:, j], X).fit().llf for j in range(3))
    assert abs(independent.loglike(np.concatenate([params, np.zeros(3)])) - total) < 1e-9
    assert np.allclose(whole.params, params[:2])


def test_two_outcomes_against_a_naive_likelihood():
    y, X, _ = simulate(150, 2, 2)
    sign = 2 * y - 1

    def naive(params):
        means = sign * (X @ params[:4].reshape(2, 2).T)
        rho = np.tanh(params[4]) * sign[:, 0] * sign[:, 1]
        total = 0.0
        for m, r in zip(means, rho, strict=True):
            total += np.log(max(multivariate_normal([0, 0], [[1, r], [r, 1]]).cdf(m), 1e-300))
        return -total

    result = mvnorth.Probit(y, X).fit()
    found = minimize(naive, np.zeros(5), method="BFGS", options={"gtol": 1e-3})
    assert np.allclose(result.params[:4], found.x[:4], atol=2e-4)
    assert abs(result.correlation[1, 0] - np.tanh(found.x[4])) < 2e-4
    assert abs(result.llf + found.fun) < 1e-5


@pytest.mark.parametrize("q", [2, 3, 4])
def test_scores_against_differences_of_the_likelihood(q):
    y, X, truth = simulate(60, q, q)
    y[::7, 0] = np.nan
    model = mvnorth.Probit(y, X)
    scores = model.score_obs(truth, rtol=1e-8).sum(axis=0)
    h = 1e-5
    for k in range(truth.size):
        step = h * np.eye(truth.size)[k]
        ends = [model.loglike(truth + s * step, rtol=1e-9) for s in (1, -1)]
        assert abs((ends[0] - ends[1]) / (2 * h) - scores[k]) < 2e-4


def test_four_outcomes_with_gaps_recover_the_truth():
    y, X, truth = simulate(1200, 4, 11)
    y[np.random.default_rng(0).uniform(size=y.shape) < 0.1] = np.nan
    result = mvnorth.Probit(y, X).fit(cov_type="opg")
    z = (result.params - truth) / result.bse
    assert np.abs(z).max() < 3.5
    assert 0.3 < np.mean(z**2) < 2.2
    assert result.converged
    assert 0.0 < result.llf_error < 0.2
    assert result.evaluations < 30
    gradient = result.model.score_obs(result.params, rtol=1e-6).sum(axis=0)
    assert abs(gradient @ result.cov_params @ gradient) < 1e-3  # squared distance, standard errors


def test_the_search_starts_near_the_correlations():
    y, X, _ = simulate(3000, 4, 11)
    y[::5, 1] = np.nan
    _, start = mvnorth.Probit(y, X)._start()
    assert np.abs(start - CORRELATION).max() < 0.12
    y[:, 3] = y[:, 0]
    _, start = mvnorth.Probit(y, X)._start()
    assert np.linalg.eigvalsh(start).min() > 0.09


@pytest.mark.slow
def test_z_scores_are_standard_normal():
    z = []
    for seed in range(40):
        y, X, truth = simulate(800, 3, 100 + seed)
        result = mvnorth.Probit(y, X).fit()
        z.append((result.params - truth) / result.bse)
    z = np.array(z)
    assert abs(z.mean()) < 4 / np.sqrt(z.size)
    assert abs(z.std() - 1) < 0.12
    assert np.mean(np.abs(z) > 1.96) < 0.09


def test_standard_errors_agree_where_the_model_is_right():
    y, X, _ = simulate(3000, 2, 3)
    fits = [mvnorth.Probit(y, X).fit(cov_type=kind) for kind in ("hessian", "opg", "robust")]
    for other in fits[1:]:
        assert np.allclose(other.bse, fits[0].bse, rtol=0.1)
        assert (other.bse != fits[0].bse).all()
    model, params, h = fits[0].model, fits[0].params, 1e-4
    hessian = np.array(
        [
            (model.score_obs(params + h * e) - model.score_obs(params - h * e)).sum(axis=0) / 2 / h
            for e in np.eye(params.size)
        ]
    )
    assert np.allclose(fits[0].cov_params, np.linalg.inv(-hessian), rtol=2e-3, atol=1e-6)
    assert np.allclose(fits[0].correlation_se[1, 0], fits[0].bse[-1])


def test_probabilities_of_all_patterns_sum_to_one():
    y, X, _ = simulate(300, 3, 4)
    result = mvnorth.Probit(y, X).fit(cov_type="opg")
    new = X[:5]
    patterns = np.array([[a, b, c] for a in (0, 1) for b in (0, 1) for c in (0, 1)])
    joint = np.array([result.predict_joint(pattern, new) for pattern in patterns])
    assert np.allclose(joint.sum(axis=0), 1.0, atol=1e-12)
    for j in range(3):
        assert np.allclose(joint[patterns[:, j] == 1].sum(axis=0), result.predict(new)[:, j])
    alone = result.predict_joint([np.nan, 1, np.nan], new)
    assert np.allclose(alone, result.predict(new)[:, 1])
    truth = multivariate_normal(np.zeros(3), result.correlation).cdf(
        new[0] @ np.array(result.coefficients).T
    )
    assert abs(joint[-1, 0] - truth) < 1e-4


def test_one_design_for_each_outcome():
    y, X, _ = simulate(500, 2, 5, p=3)
    result = mvnorth.Probit(y, [X, X[:, :2]]).fit(cov_type="opg")
    assert [part.size for part in result.coefficients] == [3, 2]
    assert result.names[3:] == ("y2: x1", "y2: x2", "corr(y2, y1)")
    assert result.predict([X[:4], X[:4, :2]]).shape == (4, 2)
    whole = mvnorth.Probit(y, X).fit(cov_type="opg")
    assert whole.llf >= result.llf


def test_frames_keep_their_labels_and_order():
    y, X, _ = simulate(300, 2, 6, p=3)
    frame = Frame(age=X[:, 1], income=X[:, 2])
    outcomes = Frame(smokes=y[:, 0], drinks=y[:, 1])
    result = mvnorth.Probit(outcomes, frame, intercept=True).fit(cov_type="opg")
    plain = mvnorth.Probit(y, X).fit(cov_type="opg")
    assert np.allclose(result.params, plain.params)
    assert result.names[:3] == ("smokes: const", "smokes: age", "smokes: income")
    assert result.names[-1] == "corr(drinks, smokes)"
    text = str(result.summary())
    assert "drinks: income" in text
    assert "log-likelihood" in text
    assert repr(result) == text
    swapped = Frame(income=X[:4, 2], age=X[:4, 1])
    assert np.allclose(result.predict(swapped), plain.predict(X[:4]))
    with pytest.raises(ValueError, match="X has no column 'income'"):
        result.predict(Frame(age=X[:4, 1]))


def test_pandas_frames():
    pd = pytest.importorskip("pandas", reason="reads pandas' data frames")
    y, X, _ = simulate(200, 1, 7, p=2)
    frame = pd.DataFrame({"age": X[:, 1]})
    outcome = pd.Series(y[:, 0], name="smokes")
    result = mvnorth.Probit(outcome, frame, intercept=True).fit()
    assert result.names == ("const", "age")
    assert result.model.outcomes == ("smokes",)
    with pytest.raises(ValueError, match="different indices"):
        mvnorth.Probit(outcome[1:], frame[:-1])
    frame["town"] = "Bern"
    with pytest.raises(TypeError, match="column 'town' of X must be an array of real numbers"):
        mvnorth.Probit(outcome, frame)


def test_pandas_na_is_an_outcome_that_was_not_observed():
    pd = pytest.importorskip("pandas", reason="reads pandas' nullable columns")
    y, X, _ = simulate(200, 2, 7)
    y[::9, 0] = np.nan
    plain = mvnorth.Probit(y, X).fit(cov_type="opg")
    frame = pd.DataFrame({"a": y[:, 0], "b": y[:, 1]}).astype("boolean")
    assert frame["a"].isna().any()
    assert np.allclose(mvnorth.Probit(frame, X).fit(cov_type="opg").params, plain.params)
    assert mvnorth.Probit(frame["a"], X).nobs == int((~np.isnan(y[:, 0])).sum())


def test_units_of_covariates_do_not_matter():
    y, X, _ = simulate(200, 2, 7)
    plain = mvnorth.Probit(y, X).fit()
    unit = np.array([1.0, 1e12])
    scaled = mvnorth.Probit(y, X * unit).fit()
    ratio = np.concatenate([unit, unit, [1.0]])
    assert np.allclose(scaled.params * ratio, plain.params, rtol=1e-6)
    assert np.allclose(scaled.bse * ratio, plain.bse, rtol=1e-5)
    assert f"{scaled.params[1]:.3e}" in scaled.summary()
    moved = mvnorth.Probit(y, X + np.array([0.0, 1e6])).fit()
    assert np.allclose(moved.bse[1::2], plain.bse[1::2], rtol=1e-4)


def test_fewer_observations_than_parameters():
    y = [[1, 0], [0, 1]]
    with pytest.warns(RuntimeWarning, match="has not converged|information is singular"):
        result = mvnorth.Probit(y, np.ones(2)).fit()
    assert result.params.shape == (3,)
    assert result.params[2] < -0.9  # outcomes are opposite


def test_intervals_of_correlations_stay_within_bounds():
    y, X, _ = simulate(60, 2, 8)
    flip = np.random.default_rng(1).uniform(size=60) < 0.1
    y[:, 1] = np.where(flip, 1 - y[:, 0], y[:, 0])
    result = mvnorth.Probit(y, X).fit()
    ends = result.conf_int(0.99)
    assert result.params[-1] + 2.58 * result.bse[-1] > 1
    assert -1 < ends[-1, 0] < ends[-1, 1] < 1


@pytest.mark.filterwarnings("ignore:the information is singular")
def test_a_maximum_at_the_boundary_is_reported():
    y, X, _ = simulate(60, 2, 8)
    y[:, 1] = y[:, 0]
    with pytest.warns(RuntimeWarning, match=r"A correlation of the errors is 1\.0000"):
        mvnorth.Probit(y, X).fit()


def test_wrong_input_is_refused():
    y, X, _ = simulate(50, 2, 9)
    with pytest.raises(ValueError, match="outcome 'y1' has 0, 1, 2"):
        mvnorth.Probit(np.arange(50) % 3, X)
    with pytest.raises(ValueError, match="outcome 'y1' of y is 1 in all rows"):
        mvnorth.Probit(np.ones(50), X)
    with pytest.raises(ValueError, match="same number of rows, got 50 and 49"):
        mvnorth.Probit(y, X[1:])
    with pytest.raises(ValueError, match=r"column 'x2' has nan in row 3 \(1 such rows"):
        mvnorth.Probit(y, np.where(np.arange(100).reshape(50, 2) == 7, np.nan, X))
    with pytest.raises(ValueError, match="collinear: column 'x"):
        mvnorth.Probit(y, np.column_stack([X, X @ [1.0, 2.0]]))
    with pytest.raises(ValueError, match="X has a constant column, 'x1', already"):
        mvnorth.Probit(y, X, intercept=True)
    with pytest.raises(ValueError, match=r"'y1' of y is predicted perfectly .* x2 \(separation\)"):
        mvnorth.Probit(X[:, 1] > 0.1, X).fit()
    with pytest.raises(ValueError, match="cov_type must be one of 'hessian', 'opg', 'robust'"):
        mvnorth.Probit(y, X).fit(cov_type="HC1")
    with pytest.raises(ValueError, match="X must be one matrix, or a list of 2; got 3"):
        mvnorth.Probit(y, [X, X, X])
    with pytest.warns(RuntimeWarning, match="has not converged"):
        mvnorth.Probit(y, X).fit(maxiter=1, cov_type="opg")


def test_quasi_separation_is_found():
    # One column decides half of the rows; the others overlap.
    rng = np.random.default_rng(10)
    group = np.repeat([0.0, 1.0], 100)
    y = np.where(group == 1.0, 1, rng.integers(2, size=200))
    with pytest.raises(ValueError, match="separation"):
        mvnorth.Probit(y, np.column_stack([np.ones(200), group])).fit()


@pytest.mark.parametrize("kind", [CorrelationParameters, ScaledCovarianceParameters])
def test_parameters_of_matrices(kind):
    parameters = kind(4)
    free = np.random.default_rng(0).normal(0.0, 0.5, parameters.count)
    matrix = parameters.matrix(free)
    assert np.allclose(parameters.free(matrix), free)
    assert matrix[0, 0] == 1.0
    assert np.linalg.eigvalsh(matrix).min() > 0
    h = 1e-6
    for k, e in enumerate(np.eye(parameters.count)):
        ends = [parameters.entries(parameters.matrix(free + s * h * e)) for s in (1, -1)]
        assert np.allclose(
            (ends[0] - ends[1]) / (2 * h), parameters.jacobian(free)[:, k], atol=1e-8
        )


# The multinomial model.


def choose(n, J, seed, matrix=None):
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(n, J, 2))
    errors = rng.normal(0.0, np.sqrt(0.5), (n, J))
    if matrix is not None:
        differences = rng.normal(size=(n, J - 1)) @ np.linalg.cholesky(matrix).T
        errors = np.column_stack([np.zeros(n), differences])
    start = np.linspace(0.0, 0.6, J)
    return (start + Z @ [1.0, -0.5] + errors).argmax(axis=1), Z, [*start[1:], 1.0, -0.5]


def test_two_alternatives_are_a_probit():
    y, X, _ = simulate(300, 1, 12, p=3)
    binary = mvnorth.Probit(y, X).fit()
    for covariance in ("independent", "free"):
        result = mvnorth.MultinomialProbit(y[:, 0], X, covariance=covariance).fit()
        assert np.allclose(result.params, binary.params, atol=1e-6)
        assert np.allclose(result.bse, binary.bse, rtol=1e-5)
        assert np.allclose(result.predict()[:, 1], binary.predict()[:, 0])


def test_independent_errors_against_quadrature():
    y, Z, truth = choose(40, 4, 13)
    params = np.array(truth)
    model = mvnorth.MultinomialProbit(y, Z=Z, intercept=True)
    utility = np.concatenate([[0.0], params[:3]]) + Z @ params[3:]
    total = 0.0
    for chosen, u in zip(y, utility, strict=True):
        others = np.delete(u, chosen)

        def inner(e, u=u, chosen=chosen, others=others):
            density = np.exp(-(e**2)) / np.sqrt(np.pi)  # of N(0, 1/2)
            return density * np.prod(ndtr((u[chosen] + e - others) / np.sqrt(0.5)))

        total += np.log(quad(inner, -8, 8, epsabs=1e-13, epsrel=1e-12)[0])
    assert abs(model.loglike(params) - total) < 1e-9


@pytest.mark.parametrize("covariance", ["independent", "free"])
def test_scores_of_choices_against_differences(covariance):
    y, Z, truth = choose(50, 4, 14)
    X = np.random.default_rng(0).normal(size=(50, 1))
    model = mvnorth.MultinomialProbit(y, X, Z, covariance=covariance, base=2)
    params = np.array([0.2, -0.1, 0.3, *truth[-2:]])
    if covariance == "free":
        params = np.concatenate([params, [0.3, 1.4, 0.2, 0.5, 0.8]])
    scores, h = model.score_obs(params).sum(axis=0), 1e-6
    for k, e in enumerate(np.eye(params.size)):
        ends = [model.loglike(params + s * h * e) for s in (1, -1)]
        assert abs((ends[0] - ends[1]) / (2 * h) - scores[k]) < 1e-5


def test_choices_recover_the_truth():
    matrix = np.array([[1.0, 0.4], [0.4, 1.5]])
    y, Z, truth = choose(2500, 3, 15, matrix)
    result = mvnorth.MultinomialProbit(y, Z=Z, covariance="free", intercept=True).fit()
    z = (result.params - [*truth, 0.4, 1.5]) / result.bse
    assert np.abs(z).max() < 3.5
    assert result.converged
    assert np.allclose(result.predict().sum(axis=1), 1.0, atol=1e-10)
    shares = np.bincount(y) / y.size
    assert np.allclose(result.predict().mean(axis=0), shares, atol=0.01)
    assert result.covariance[0, 0] == 1.0
    assert result.covariance_se[0, 0] == 0.0
    assert result.names[-2:] == ("cov(2, 1)", "var(2)")
    naive = mvnorth.MultinomialProbit(y, Z=Z, intercept=True).fit()
    assert result.llf > naive.llf


def test_base_and_labels():
    y, Z, _ = choose(300, 3, 16)
    X = np.random.default_rng(1).normal(size=(300, 1))
    labels = np.array(["walk", "bus", "car"])[y]
    order = [1, 2, 0]  # sorted: bus, car, walk
    first = mvnorth.MultinomialProbit(y, X, Z, intercept=True).fit()
    named = mvnorth.MultinomialProbit(
        labels, X, {"price": Z[:, order, 0], "time": Z[:, order, 1]}, base="walk", intercept=True
    ).fit()
    assert named.names[:2] == ("bus: const", "bus: x1")
    assert named.names[-2:] == ("price", "time")
    assert np.allclose(named.params, first.params, atol=1e-5)
    new = named.predict(X[:3], {"price": Z[:3, order, 0], "time": Z[:3, order, 1]})
    assert np.allclose(new, first.predict()[:3][:, order], atol=1e-6)
    assert "base walk" in str(named.summary())


def test_frames_of_alternatives_are_read_by_label():
    pd = pytest.importorskip("pandas", reason="reads pandas' data frames")
    y, Z, _ = choose(200, 3, 16)
    labels = ["bus", "car", "walk"]
    chosen = pd.Series(np.array(labels)[y])
    price = pd.DataFrame(Z[:, :, 0], columns=labels)
    plain = mvnorth.MultinomialProbit(chosen, Z={"price": Z[:, :, 0]}).fit(cov_type="opg")
    model = mvnorth.MultinomialProbit(chosen, Z={"price": price[["walk", "bus", "car"]]})
    named = model.fit(cov_type="opg")
    assert np.allclose(named.params, plain.params)
    new = named.predict(Z={"price": price[["car", "walk", "bus"]][:5]})
    assert np.allclose(new, plain.predict()[:5])
    with pytest.raises(ValueError, match=r"Z\['price'\] has no column 'walk'"):
        mvnorth.MultinomialProbit(chosen, Z={"price": price[["bus", "car"]]})
    with pytest.raises(ValueError, match=r"y and Z\['price'\] have different indices"):
        mvnorth.MultinomialProbit(chosen, Z={"price": price[::-1]})


def test_a_covariance_that_is_not_identified():
    # Constants only: four parameters for two shares. Steps must not show as numpy's warnings.
    y, _, _ = choose(300, 3, 16)
    model = mvnorth.MultinomialProbit(y, covariance="free", intercept=True)
    with pytest.warns(RuntimeWarning, match="information is singular") as record:
        result = model.fit()
    assert len(record) == 1
    assert np.isnan(result.bse).all()


def test_wrong_choices_are_refused():
    y, Z, _ = choose(60, 3, 17)
    with pytest.raises(ValueError, match=r"Z must have shape \(60, 3, k\)"):
        mvnorth.MultinomialProbit(y, Z=Z[:, :2])
    with pytest.raises(ValueError, match=r"base must be one of \[0, 1, 2\], got 3"):
        mvnorth.MultinomialProbit(y, Z=Z, base=3)
    with pytest.raises(TypeError, match="needs covariates"):
        mvnorth.MultinomialProbit(y)
    with pytest.raises(ValueError, match="covariance must be one of 'independent', 'free'"):
        mvnorth.MultinomialProbit(y, Z=Z, covariance="full")
    with pytest.raises(ValueError, match="at least two alternatives"):
        mvnorth.MultinomialProbit(np.zeros(60), Z=Z)
    with pytest.raises(ValueError, match="column of zeros: 'z1'"):
        mvnorth.MultinomialProbit(y, Z=np.repeat(Z[:, :1], 3, axis=1))
    with pytest.raises(ValueError, match="must not have NaN"):
        mvnorth.MultinomialProbit(np.where(y == 0, np.nan, y), Z=Z)
    best = Z[:, :, 0].argmax(axis=1)
    with pytest.raises(ValueError, match=r"choice y is predicted perfectly .* z1"):
        mvnorth.MultinomialProbit(best, Z=Z).fit()


def test_univariate_start_is_the_concave_maximum():
    y, X, _ = simulate(200, 1, 18, p=3)
    sign = 2 * y[:, 0] - 1
    found = minimize(lambda b: -log_ndtr(sign * (X @ b)).sum(), np.zeros(3), method="BFGS")
    assert np.allclose(mvnorth.Probit(y, X).fit().params, found.x, atol=1e-4)
