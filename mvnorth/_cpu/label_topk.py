"""Probability that one score is among the k largest, with derivatives, to absolute accuracy.

Given its own score, a + b z in units of the others' deviations, the others exceed it independently,
so that the number of those that do is Poisson-binomial:

    P = int phi(z) T(x(z)) dz,    T = Pr(at most k - 1 exceed),    x_i = a_i + b_i z

by the trapezoidal rule.  T comes from the recursion over coordinates, O(Ck) a node, and its
derivatives from the same recursion backwards, in which nothing is subtracted but the last step.
"""

import math

import numpy as np

from mvnorth._compile import kernel
from mvnorth._scalar.exp_log import scale_by_power
from mvnorth._scalar.normal import ndtr_parts

_REACH = 9.0  # of the nodes, where phi is 1e-18
_STEP = 0.125  # for equal deviations and any number of them
_MOST = 4096  # nodes a row
_DENSITY = 1.0 / math.sqrt(2.0 * math.pi)


@kernel()
def label_topk(a, b, k, prob, grad_a, grad_b, begin, end):
    """Probabilities of rows [begin, end), and their derivatives in a and in b.

    Absolute error 1e-12 if no b is above 10, growing to 1e-3 where one is 1000 or more.

    Parameters
    ----------
    a : (B, C) > -inf; +inf for a score that never exceeds
    b : (1 or B, C) >= 0
    k : at least 1
    prob : (B,) results
    grad_a, grad_b : (B, C) results
    """
    d = a.shape[1]
    prefix = np.empty((d + 1, k))
    ahead, exceed, density = np.empty(k + 1), np.empty(d), np.empty(d)
    for row in range(begin, end):
        b_row = b[min(row, b.shape[0] - 1)]
        steepest = 1.0
        for i in range(d):
            steepest = max(steepest, b_row[i])
            grad_a[row, i] = grad_b[row, i] = 0.0
        count = min(_MOST, int(2.0 * _REACH * steepest / _STEP))
        step = 2.0 * _REACH / count
        total = 0.0
        for node in range(count):
            z = -_REACH + (node + 0.5) * step
            weight = step * _DENSITY * math.exp(-0.5 * z * z)
            prefix[0] = 0.0
            prefix[0, 0] = 1.0
            for i in range(d):
                x = a[row, i] + b_row[i] * z
                q = exceed[i] = scale_by_power(*ndtr_parts(-x))
                density[i] = _DENSITY * math.exp(-0.5 * x * x)
                prefix[i + 1, 0] = prefix[i, 0] * (1.0 - q)
                for r in range(1, k):
                    prefix[i + 1, r] = prefix[i, r] * (1.0 - q) + prefix[i, r - 1] * q
            total += weight * np.sum(prefix[d])
            ahead[:k] = 1.0
            ahead[k] = 0.0
            for i in range(d - 1, -1, -1):
                slope = 0.0
                for r in range(k):
                    slope += prefix[i, r] * (ahead[r] - ahead[r + 1])
                    ahead[r] += exceed[i] * (ahead[r + 1] - ahead[r])
                slope *= weight * density[i]
                grad_a[row, i] += slope
                grad_b[row, i] += slope * z
        prob[row] = min(total, 1.0)
