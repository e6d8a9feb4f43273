"""What every method and every covariance promises, as functions to be called with either.

``PROMISES`` takes the name of a method (or "auto") and of a kind of covariance;
``COVARIANCE_PROMISES`` takes a kind alone.  Problems and truths are those of ``support.cases``.
A method is tested by being in the table of methods, a covariance by being in ``KINDS``.
"""

from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from itertools import product

import numpy as np
import pytest

from mvnorth import _threads
from mvnorth._covariance.dense import Dense
from mvnorth._covariance.factors import FactorsRows
from mvnorth._covariance.one_factor import OneFactorRows
from mvnorth._methods import METHODS
from mvnorth._plan import NotApplicable
from mvnorth._problem import Problems
from mvnorth._solve import differentiate, solve
from support.boxes import boxes, fixed_points, within
from support.cases import INF, Factors, cases

LIMITS = ("lower", "upper", "mean")
POINTS = 2**12  # of methods that sample
ROUGH = 0.05  # relative error that a sampling method must claim with these points
EXACT = 1e-9  # and one that does not sample


# Methods


def _always(case, rows):
    return True


def _few(case, rows):
    return case.d <= 3 or ("few" in case.structures and rows.links() is not None)


def _chain(case, rows):
    return "chain" in case.structures


def _one_common_factor(case, rows):
    """Return whether it is given, or has a triangular factor for all coordinates to be found in."""
    if rows.given_one_factor() is not None:
        return True
    factor = rows.dense().factor[0]
    triangular = factor.shape[0] == factor.shape[1] and not np.triu(factor, 1).any()
    limited = np.isfinite(case.lower) | np.isfinite(case.upper)
    return "one_factor" in case.structures and triangular and limited.all()


def _common_factors(case, rows):
    """Return whether two are given, and do not fall apart."""
    return rows.given_factors() is not None and rows.links() is None


# What is enough for a method to solve a case; others must solve one case at least.
SOLVES = {
    "auto": _always,
    "closed_form": _few,
    "conditional": _always,
    "factors": _common_factors,
    "genz": _always,
    "markov": _chain,
    "pathwise": _always,
    "pinned": _always,
    "quadrature": _one_common_factor,
    "tilting": _always,
}


# Kinds of covariances


@dataclass(frozen=True)
class Kind:
    """How to make covariances of one class.

    Attributes
    ----------
    rows : class of the covariances
    make : takes ``Factors`` or a ``Chain``, and returns one row, or None if it has not that form
    stack : makes one batch of several rows of the same dimension
    """

    rows: type
    make: object
    stack: object


def _dense(model):
    factor = np.linalg.cholesky(model.cov)[None]
    return Dense(factor, 8 * len(model.cov) * np.finfo(float).eps, np.ones(factor.shape[:2]))


def _wide(model):
    """A factor with more columns than rows."""
    if not isinstance(model, Factors):
        return None
    factor = np.concatenate([np.diag(np.sqrt(model.c)), model.V], axis=1)[None]
    return Dense(factor, 8 * len(model.c) * np.finfo(float).eps, np.ones(factor.shape[:2]))


def _one_factor(model):
    if not isinstance(model, Factors) or model.V.shape[1] > 1:
        return None
    v = model.V[:, 0] if model.V.shape[1] else np.zeros(len(model.c))
    return OneFactorRows(model.c[None].copy(), v[None].copy())


def _factors(model):
    """Two common factors; where there is one, with loadings that are multiples of each other."""
    if not isinstance(model, Factors):
        return None
    V = model.V
    if V.shape[1] < 2:
        V = (V if V.shape[1] else np.zeros((len(V), 1))) * [0.6, -0.8]
    return FactorsRows(model.c[None].copy(), V[None].copy())


def stack_fields(rows):
    """Return one batch of dataclasses whose arrays have the batch as their first axis."""
    arrays = {
        name: np.concatenate([getattr(row, name) for row in rows])
        for name, value in vars(rows[0]).items()
        if isinstance(value, np.ndarray) and name in rows[0].__dataclass_fields__
    }
    return replace(rows[0], **arrays)


KINDS = {
    "dense": Kind(Dense, _dense, stack_fields),
    "wide": Kind(Dense, _wide, stack_fields),
    "one_factor": Kind(OneFactorRows, _one_factor, stack_fields),
    "factors": Kind(FactorsRows, _factors, stack_fields),
}


@contextmanager
def registered_kind(name, kind):
    """Add a kind of covariance for a while."""
    KINDS[name] = kind
    try:
        yield
    finally:
        del KINDS[name]


# Problems


def problems_of(case, kind):
    """Return one case as problems, or None if its covariance has not the form."""
    covariance = KINDS[kind].make(case.model)
    if covariance is None:
        return None
    return _problems(case.lower[None].copy(), case.upper[None].copy(), covariance)


def batch_of(some, kind):
    """Return cases of the same dimension as one batch."""
    covariance = KINDS[kind].stack([KINDS[kind].make(case.model) for case in some])
    lower, upper = (np.stack([getattr(case, name) for case in some]) for name in ("lower", "upper"))
    return _problems(lower, upper, covariance)


def _problems(lower, upper, covariance):
    """Return problems that know their sides, as those of users do."""
    below, above = np.isfinite(lower), np.isfinite(upper)
    sides = 2 if (below & above).any() else int(below.any())
    return Problems(lower, upper, covariance, np.zeros(len(lower)), sides)


def gives_values(method):
    return method == "auto" or METHODS[method].values


def gives_derivatives(method):
    return method == "auto" or METHODS[method].derivatives


def names_for(method, covariance):
    """Return the derivatives that a method gives for a covariance."""
    if not gives_derivatives(method):
        return ()
    if method != "auto" and METHODS[method].limits_only:
        return LIMITS
    return (*LIMITS, "cov", *covariance.parameters)


def estimate(problems, method, wrt=(), n=POINTS, seed=0, run=solve):
    """Return an estimate, or None if the method says that it does not apply.

    Without ``n`` points are added until the relative error is 0.2 %, or there are too many.
    """
    request = within(2e-3, 2**12, seed, wrt) if n is None else fixed_points(n, seed, wrt)
    try:
        return run(problems, request, method)[0]
    except NotApplicable as error:
        refusal = str(error)
    assert METHODS[method].needs in refusal
    return None


@cache
def _solved(method, kind, entry, n, seed):
    """Return (case, problems, estimate) for the cases that a method solves.

    ``entry`` is that of the table, so that another method of the same name is another entry.
    """
    solved = []
    for case in cases():
        problems = problems_of(case, kind)
        if problems is None:
            continue
        wrt = names_for(method, problems.covariance)
        got = estimate(problems, method, wrt, n, seed)
        if got is not None and np.isfinite(got.rel_error[0]):
            solved.append((case, problems, got))
    return solved


def solved_cases(method, kind, n=POINTS, seed=0):
    return _solved(method, kind, (METHODS.get(method), KINDS[kind]), n, seed)


def samples(method, problems):
    """Return whether points of the request are spent."""
    names = [method]
    if method == "auto":
        names = solve(problems, fixed_points(POINTS, 0, ()), method)[1][0].split("+")
    return any(METHODS[name].samples for name in names)


def bits(got):
    """Return all numbers of an estimate as bytes, row by row."""
    arrays = [got.log_prob, got.rel_error, got.n.astype(float), got.log_bound]
    if got.derivatives is not None:
        for of in (got.derivatives.value, got.derivatives.error):
            arrays += [of[name] for name in sorted(of)]
    return [
        b"".join(np.ascontiguousarray(a[b]).tobytes() for a in arrays)
        for b in range(got.log_prob.size)
    ]


def distance(log_prob, truth):
    """Return the relative error of a probability with this logarithm."""
    return abs(np.expm1(np.clip(log_prob - truth, -700.0, 700.0)))


# Promises of methods


def solves_what_it_claims_to(method, kind):
    """Return finite errors where the structure is there, and mostly small ones."""
    solved = {case.name for case, _, _ in solved_cases(method, kind)}
    assert solved or any(solved_cases(method, other) for other in KINDS)
    if method in SOLVES:
        for case in cases():
            rows = KINDS[kind].make(case.model)
            if rows is not None and SOLVES[method](case, rows):
                assert case.name in solved
    useful = []
    for case, problems, got in solved_cases(method, kind):
        if samples(method, problems):
            useful.append(got.rel_error[0] <= ROUGH)
        else:
            assert got.rel_error[0] <= EXACT, case.name
    assert np.mean(useful or [True]) >= 0.75


def is_accurate(method, kind):
    """Be within the stated error of an independent computation."""
    for case, _, got in solved_cases(method, kind):
        truth, error = case.truth
        assert distance(got.log_prob[0], truth) <= got.rel_error[0] + error, case.name
        assert got.log_bound[0] >= truth - error - 1e-12 * abs(truth), case.name


def is_honest_with_few_points(method, kind):
    """Be within the stated error in all but 2 % of cases, whatever the points.

    Methods for derivatives alone have those in the mean judged, 2 % of which may be outside too.
    """
    if method != "auto" and not METHODS[method].samples:
        return
    values = gives_values(method)
    outside = count = 0
    for case in cases():
        problems = problems_of(case, kind)
        if problems is None:
            continue
        for n, seed in product((40, 200, 1000), range(1, 6 if values else 3)):
            got = estimate(problems, method, () if values else ("mean",), n, seed)
            if got is None:
                continue
            assert got.rel_error[0] >= 0.0
            if values:
                truth, error = case.truth
                wrong = distance(got.log_prob[0], truth) > got.rel_error[0] + error
            else:
                truth, error = (of["mean"] for of in case.derivatives)
                found = got.derivatives
                wrong = np.abs(found.value["mean"][0] - truth) > found.error["mean"][0] + error
            outside, count = outside + np.sum(wrong), count + np.size(wrong)
    assert outside <= 0.02 * count


def has_honest_derivatives(method, kind):
    """Have derivatives within their stated errors, which are of use."""
    outside = count = 0
    for case, problems, got in solved_cases(method, kind):
        if got.derivatives is None:
            continue
        values, errors = case.derivatives
        exact = not samples(method, problems)
        for name in values.keys() & got.derivatives.value.keys():
            value, error = got.derivatives.value[name][0], got.derivatives.error[name][0]
            gap = np.abs(value - values[name])
            inside = gap <= error + errors[name]
            size = np.abs(values[name]).max()
            assert inside.all() or not exact, (case.name, name, gap, error)
            outside, count = outside + np.sum(~inside), count + inside.size
            limit = 1e-7 if exact else 0.5
            assert np.median(error) <= limit * size + 1e-300, (case.name, name, error)
    assert outside <= 0.01 * count


def has_consistent_derivatives(method, kind):
    """Keep the value, whatever derivatives are asked for; and these obey the identities."""
    for case, problems, got in solved_cases(method, kind):
        if got.derivatives is None:
            continue
        if gives_values(method):
            plain = estimate(problems, method)
            assert plain.log_prob[0] == got.log_prob[0], case.name
            assert plain.rel_error[0] == got.rel_error[0], case.name
        value, error = got.derivatives.value, got.derivatives.error
        for name in value:
            assert value[name].shape == (1, *problems.covariance.derivative_shape(name))
            assert value[name].shape == error[name].shape
            assert (error[name] >= 0.0).all()
            only = estimate(problems, method, (name,)).derivatives
            np.testing.assert_array_equal(only.value[name], value[name])
            np.testing.assert_array_equal(only.error[name], error[name])
        _check_limits(case, value, error)
        if "cov" in value:
            _check_covariance(case, problems.covariance, value, error)


def _check_limits(case, value, error):
    for name in ("lower", "upper"):
        infinite = np.isinf(getattr(case, name))
        assert not value[name][0, infinite].any()  # exactly
        assert not error[name][0, infinite].any()
    unlimited = np.isinf(case.lower) & np.isinf(case.upper)
    for name in {"mean", "cov"} & value.keys():
        assert not value[name][0, unlimited].any()
        assert not error[name][0, unlimited].any()
    total = value["mean"] + value["lower"] + value["upper"]
    rounding = 1e-12 * (np.abs(value["lower"]) + np.abs(value["upper"]))
    assert (np.abs(total) <= error["mean"] + rounding).all(), case.name


def _check_covariance(case, covariance, value, error):
    G, bound = value["cov"][0], error["cov"][0]
    size = np.abs(G).max()
    np.testing.assert_allclose(G, G.T, rtol=1e-10, atol=1e-12 * size)
    # P does not change with the unit of a coordinate.
    ends = [np.where(np.isinf(a), 0.0, a) for a in (case.lower, case.upper)]
    terms = [ends[0] * value["lower"][0], ends[1] * value["upper"][0]]
    total = terms[0] + terms[1] + 2.0 * (G * case.cov).sum(axis=1)
    allowed = 2.0 * (bound * np.abs(case.cov)).sum(axis=1)
    allowed += np.abs(ends[0]) * error["lower"][0] + np.abs(ends[1]) * error["upper"][0]
    allowed += 1e-12 * (np.abs(terms).sum(axis=0) + (np.abs(G) * np.abs(case.cov)).sum(axis=1))
    assert (np.abs(total) <= allowed).all(), case.name
    # The chain rule, by differences of the covariance in its own parameters.
    for name in covariance.parameters:
        parameter = getattr(covariance, name)
        for place in np.ndindex(parameter.shape[1:]):
            step = np.zeros(parameter.shape)
            step[0][place] = 1e-3
            up, down = (
                replace(covariance, **{name: parameter + sign * step}).matrix()[0]
                for sign in (1.0, -1.0)
            )
            change = (up - down) / 2e-3
            gap = abs(value[name][0][place] - np.sum(G * change))
            allowed = error[name][0][place] + np.sum(bound * np.abs(change)) + 1e-9 * size
            assert gap <= allowed, (case.name, name, place)


def repeats_itself(method, kind):
    """Give the same bits for the same seed, and others for another one if points are random."""
    for case, problems, got in solved_cases(method, kind):
        wrt = names_for(method, problems.covariance)
        assert bits(estimate(problems, method, wrt)) == bits(got), case.name
        if case.name == "five of two factors" and method != "auto" and METHODS[method].random:
            assert bits(estimate(problems, method, wrt, seed=1)) != bits(got)


def _batches(method, kind):
    """Return cases that a method solves as batches of one dimension."""
    by_size = {}
    for case, problems, _ in solved_cases(method, kind):
        by_size.setdefault(problems.covariance.dense().factor.shape[1:], []).append(case)
    return [some for some in by_size.values() if len(some) > 1]


def does_not_depend_on_batches_or_threads(method, kind):
    """Give each row the bits that it has alone, however a batch is cut and by any threads."""
    used = []
    for some in _batches(method, kind):
        problems = batch_of(some, kind)
        wrt = names_for(method, problems.covariance)
        turned = np.arange(len(some))[::-1]
        for options in ({"n": 64}, {"n": None}):
            together = bits(estimate(problems, method, wrt, **options))
            alone = [
                bits(estimate(problems_of(case, kind), method, wrt, **options))[0] for case in some
            ]
            assert together == alone, [case.name for case in some]
            cut = [problems.take(turned[:2]), problems.take(turned[2:])]
            parts = [
                row
                for part in cut
                if part.size
                for row in bits(estimate(part, method, wrt, **options))
            ]
            assert parts == together[::-1]
        many = 200 // len(some)
        with _three_threads(used):
            rows = problems.take(np.tile(turned[::-1], many))
            tiled = bits(estimate(rows, method, wrt, n=64))
        expected = bits(estimate(problems, method, wrt, n=64))
        assert tiled == expected * many
        one = problems_of(some[-1], kind)  # whose points are shared out
        with _three_threads(used):
            shared = bits(estimate(one, method, wrt, n=2**14))
        assert shared == bits(estimate(one, method, wrt, n=2**14))
    assert any(used) or not used or method not in SOLVES  # they did run in threads


@contextmanager
def _three_threads(used):
    before = _threads._threads, _threads._pool
    _threads._threads, _threads._pool = 3, None
    try:
        yield
        used.append(_threads._pool is not None)
    finally:
        _threads._threads, _threads._pool = before


def takes_one_covariance_for_all_rows(method, kind):
    """Give rows that share a covariance the bits of rows with copies of it."""
    for case, problems, _ in solved_cases(method, kind):
        if case.d < 2:
            continue
        shift = np.array([[0.0], [0.25], [-0.5]])
        lower, upper = problems.lower + shift, problems.upper + shift
        wrt = names_for(method, problems.covariance)
        copies = KINDS[kind].stack([problems.covariance] * 3)
        shared, copied = (
            bits(estimate(_problems(lower, upper, rows), method, wrt))
            for rows in (problems.covariance, copies)
        )
        assert shared == copied, case.name


def obeys_identities(method, kind):
    """Agree with itself: reflected, in another order, in other units, and cut in two."""
    for case, _, got in solved_cases(method, kind):
        model, d = case.model, case.d
        turned = (-case.upper, -case.lower, model)
        order = np.arange(d)[::-1]
        unit = 2.0 ** np.arange(d)
        reordered = (case.lower[order], case.upper[order], _transformed(model, order, np.ones(d)))
        scaled = (case.lower * unit, case.upper * unit, _transformed(model, np.arange(d), unit))
        for lower, upper, other in (turned, reordered, scaled):
            again = _again(method, kind, lower, upper, other)
            gap = distance(again.log_prob[0], got.log_prob[0])
            assert gap <= again.rel_error[0] + got.rel_error[0] + 1e-13, case.name
        # Two halves of an interval.
        k = d - 1
        low, high = max(case.lower[k], -2.0), min(case.upper[k], 2.0)
        if not low < high:
            continue
        below, above = case.upper.copy(), case.lower.copy()
        below[k] = above[k] = 0.5 * (low + high)
        parts = [
            _again(method, kind, case.lower, below, model),
            _again(method, kind, above, case.upper, model),
        ]
        logs = np.array([part.log_prob[0] for part in parts])
        share = np.exp(logs - np.logaddexp(*logs))
        allowed = got.rel_error[0] + sum(share * [part.rel_error[0] for part in parts])
        assert distance(np.logaddexp(*logs), got.log_prob[0]) <= allowed + 1e-13, case.name


def _transformed(model, order, unit):
    """Return a model in another order of the coordinates and in other units."""
    if isinstance(model, Factors):
        return Factors((model.c * unit**2)[order], (model.V * unit[:, None])[order])
    return replace(model, cov=(model.cov * np.outer(unit, unit))[np.ix_(order, order)])


def _again(method, kind, lower, upper, model):
    problems = _problems(np.array(lower)[None], np.array(upper)[None], KINDS[kind].make(model))
    wrt = () if gives_values(method) else ("mean",)
    return estimate(problems, method, wrt)


def sums_to_one_over_all_orthants(method, kind):
    """Give probabilities of all orthants around a point that add up to one."""
    for case, _, _ in solved_cases(method, kind):
        if case.d > 3 or not np.isfinite(case.upper).all():
            continue
        total = error = 0.0
        for signs in product((True, False), repeat=case.d):
            lower = np.where(signs, -INF, case.upper)
            upper = np.where(signs, case.upper, INF)
            part = _again(method, kind, lower, upper, case.model)
            total += np.exp(part.log_prob[0])
            error += np.exp(part.log_prob[0]) * part.rel_error[0]
        assert abs(total - 1.0) <= error + 1e-14, case.name


def never_raises_for_data(method, kind):
    """Return numbers for whatever limits and covariances there are, and no NaN."""
    for name, problems in _extreme_problems(kind):
        for wrt in {(), names_for(method, problems.covariance)}:
            if not wrt and not gives_values(method):
                continue
            got = estimate(problems, method, wrt, n=64, run=differentiate if wrt else solve)
            if got is None:
                continue
            assert not np.isnan(got.log_prob).any(), name
            assert (got.rel_error >= 0.0).all(), name
            assert (got.log_prob <= got.rel_error + 1e-12).all(), name
            for of in (got.derivatives,) if got.derivatives else ():
                for derivative in of.value:
                    assert np.isfinite(of.value[derivative]).all(), (name, derivative)
                    assert (of.error[derivative] >= 0.0).all(), (name, derivative)
            if name.startswith("no limits"):
                assert np.abs(got.log_prob).max() <= 1e-14
            if name.startswith("empty"):
                assert (got.log_prob == -INF).all()


def _extreme_problems(kind):
    for case in cases():
        covariance = KINDS[kind].make(case.model)
        if covariance is None or case.name not in ("one", "two", "three", "five of one factor"):
            continue
        for name, ends in EXTREME_LIMITS.items():
            lower, upper = (np.full((2, 5), a, dtype=float)[:, : case.d].copy() for a in ends)
            yield f"{name}, d = {case.d}", _problems(lower, upper, covariance)
    if KINDS[kind].rows is Dense:
        rng = np.random.default_rng(0)
        factor = rng.normal(size=(5, 5))
        factor[1] = 0.0  # no variance
        factor[3] = 2.0 * factor[0]  # determined by another
        for name, ends in SINGULAR_LIMITS.items():
            lower, upper = (np.full((2, 5), a) for a in ends)
            yield name, boxes(lower, upper, factor)
            few = [0, 2, 3]
            yield f"{name}, d = 3", boxes(lower[:, :3], upper[:, :3], factor[few])
            yield f"{name}, d = 2", boxes(lower[:, :2], upper[:, :2], factor[[0, 3]])


EXTREME_LIMITS = {
    "no limits": (-INF, INF),
    "empty": (0.5, 0.5),
    "narrow": (0.5, 0.5 + 1e-12),
    "far": (-INF, -40.0),
    "farther": (-INF, -1e4),
    "farther still": (-INF, -1e13),
    "out of reach": (1e9, INF),
    "beyond numbers": (-INF, -1e200),
    "far interval": (1e3, 1e3 + 1.0),
    "certain": (-1e9, 1e9),
    "mixed": ([-INF, 1e5, 0.0, -1e-300, 3.0], [INF, INF, 1e-8, 1e-300, 3.0 + 1e-10]),
}
SINGULAR_LIMITS = {
    "constant inside": (-1.0, 1.0),
    "constant outside": (0.5, 2.0),
    "constant at its limit": (0.0, 2.0),
    "constant far": (-INF, -40.0),
}


def says_what_it_cannot_solve(method, kind):
    """Return an infinite error, or raise with the sentence of what it needs when forced."""
    if method == "auto":
        return
    entry = METHODS[method]
    for case in cases():
        problems = problems_of(case, kind)
        if problems is None:
            continue
        wrt = names_for(method, problems.covariance) if not gives_values(method) else ()
        place = entry.preference(problems)
        forced = estimate(problems, method, wrt)
        if place is None and len(_blocks_of(case)) == 1:
            assert forced is None, case.name
            continue
        if place is None or entry.values is False:
            continue
        with np.errstate(all="ignore"):
            direct = entry.solve(problems, fixed_points(POINTS))
        if np.isinf(direct.rel_error[0]):
            refused = forced is None or np.isinf(forced.rel_error[0])
            assert refused or len(_blocks_of(case)) > 1, case.name
            assert forced is None or not entry.structured, case.name
        else:
            truth, error = case.truth
            gap = distance(direct.log_prob[0], truth)
            assert gap <= direct.rel_error[0] + error + 1e-13, case.name


def _blocks_of(case):
    linked = np.linalg.matrix_power(np.abs(case.cov) > 0.0, case.d)
    limited = np.isfinite(case.lower) | np.isfinite(case.upper)
    if not limited.all():
        return [0, 1]  # its marginal may have another form
    return np.unique(linked, axis=0)


PROMISES = (
    solves_what_it_claims_to,
    is_accurate,
    is_honest_with_few_points,
    has_honest_derivatives,
    has_consistent_derivatives,
    repeats_itself,
    does_not_depend_on_batches_or_threads,
    takes_one_covariance_for_all_rows,
    obeys_identities,
    sums_to_one_over_all_orthants,
    never_raises_for_data,
    says_what_it_cannot_solve,
)


# Promises of covariances


def _rows_of(kind):
    for case in cases():
        rows = KINDS[kind].make(case.model)
        if rows is not None:
            yield case, rows


def has_the_covariance_of_the_case(kind):
    """Return the matrix, its deviations and a dense factor."""
    for case, rows in _rows_of(kind):
        assert rows.shape == (1, case.d)
        assert rows.d == case.d
        assert rows.memory > 0
        size = np.sqrt(np.outer(np.diag(case.cov), np.diag(case.cov)))
        for matrix in (rows.matrix(), rows.dense().matrix(), rows.triangular().matrix()):
            assert np.all(np.abs(matrix[0] - case.cov) <= 1e-14 * case.d * size), case.name
        deviation = np.sqrt(np.diag(case.cov)) * np.ones((1, 1))
        np.testing.assert_allclose(rows.deviations(), deviation, rtol=1e-14)
        assert not rows.constant().any()
        assert rows.regular(np.ones((3, case.d), dtype=bool)).tolist() == [True] * 3
        form = rows.one_factor()
        if form is not None and np.isfinite(form.error[0]):
            found = np.diag(form.c[0]) + np.outer(form.v[0], form.v[0])
            np.testing.assert_allclose(found, case.cov, rtol=1e-12, atol=1e-13)


def has_marginals(kind):
    """Return the covariances of some rows and coordinates."""
    for case, rows in _rows_of(kind):
        batch = KINDS[kind].stack([rows] * 4)
        assert batch.shape == (4, case.d)
        assert rows.take(np.array([0, 0, 0])).shape[0] == 1  # one for all
        assert batch.take(np.array([1, 3])).shape == (2, case.d)
        assert batch.take(slice(1, 4)).shape == (3, case.d)
        some = np.arange(case.d)[::2]
        for drop_columns in (False, True):
            left = batch.take(np.array([2]), some, drop_columns)
            assert left.shape == (1, some.size)
            expected = case.cov[np.ix_(some, some)]
            np.testing.assert_allclose(left.matrix()[0], expected, rtol=1e-13, atol=1e-14)


def has_conditionals(kind):
    """Return the problems of the others given the value of one coordinate."""
    for case, rows in _rows_of(kind):
        if case.d < 2:
            continue
        problems = Problems(case.lower[None], case.upper[None], rows, np.zeros(1))
        every = np.arange(case.d)
        values = np.linspace(-1.0, 1.5, case.d)
        given = rows.given_value(problems, np.zeros_like(every), every, values)
        assert (given.size, given.d) == (case.d, case.d - 1)
        matrices = np.broadcast_to(given.covariance.matrix(), (case.d, case.d - 1, case.d - 1))
        for i, x in enumerate(values):
            expected = case.model.given(i).cov
            np.testing.assert_allclose(matrices[i], expected, rtol=1e-11, atol=1e-13)
            shift = np.delete(case.cov[i] / case.cov[i, i] * x, i)
            for limits, before in ((given.lower, case.lower), (given.upper, case.upper)):
                moved = np.delete(before, i) - shift
                np.testing.assert_allclose(limits[i], moved, rtol=1e-12, atol=1e-12)
        assert (given.rounding >= 0.0).all()
        assert given.rounding.max() < 1e-11


def links_what_depends(kind):
    """Keep independent coordinates apart, if it says which ones depend on which variables."""
    for case, rows in _rows_of(kind):
        links = rows.links()
        if links is None:
            continue
        shared = np.einsum("ir,jr->ij", links[0].astype(int), links[0].astype(int)) > 0
        assert (shared | np.eye(case.d, dtype=bool))[case.cov != 0.0].all(), case.name


COVARIANCE_PROMISES = (
    has_the_covariance_of_the_case,
    has_marginals,
    has_conditionals,
    links_what_depends,
)


def ids(promises):
    """Return parameters of a test with the names of the promises."""
    return [pytest.param(promise, id=promise.__name__) for promise in promises]
