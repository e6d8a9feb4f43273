"""The table of problems with known answers: log Pr(lower <= X <= upper) for X ~ N(0, cov).

No answer comes from mvnorth. Closed forms, products, quadrature in one or two dimensions and
transfer operators (`validation.oracles.one_dimension`) give 1e-9 in log P or better; the stored
references carry their own error. Coordinates are shuffled and in about half the problems
rescaled, and boxes are reflected where their structure survives it, all seeded by the problem's
name, so that no method profits from the order in which a problem happens to be written down.

Tags
----
orthant, box            only upper limits; any other limits
independent, equicorrelation, one-factor, two-factor, ar1, markov, brownian, block
                        the structure of the covariance
random                  a covariance without structure (any with d = 2 or 3)
exchangeable            equal correlations, variances and limits
negative                no correlation is positive, some are negative
near-singular, singular some coordinate is all but fixed by the others; rank below d
tail, deep-tail         log P in (-745, -10]; P is zero in float64
small, high-dim         d <= 3, d >= 100
easy                    d <= 50, and neither a tail nor near or truly singular
hard                    near or truly singular, a deep tail, or a tail with d >= 20
reference               stored on disk, see `validation/reference/README.md`
"""

from validation.problems.builders import (
    REFERENCE,
    ar1,
    bivariate,
    block,
    brownian,
    exchangeable,
    independent,
    markov,
    one_factor,
    reference,
    reference_gradient,
    trivariate,
    two_factor,
    zero_orthant,
)
from validation.problems.problem import Problem
from validation.problems.table import named, names, problems

__all__ = [
    "REFERENCE",
    "Problem",
    "ar1",
    "bivariate",
    "block",
    "brownian",
    "exchangeable",
    "independent",
    "markov",
    "named",
    "names",
    "one_factor",
    "problems",
    "reference",
    "reference_gradient",
    "trivariate",
    "two_factor",
    "zero_orthant",
]
