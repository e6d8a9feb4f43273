"""Whether A A^T can have a structure at all: cheap tests that most covariances fail.

They need a few rows of A only, and compile in a moment: what recognises a structure, and is asked
only where it is possible, does not.
"""

import numpy as np

from mvnorth._compile import kernel

_DEPENDENT = 1e-4  # partial correlation that is no rounding, and no misfit that counts as such
_SINGULAR = 1e-8  # 1 - rho**2 below which nothing is excluded
_APART = 1e-9  # difference of products of covariances, times d and the deviations


@kernel()
def possible_structures(factor, one_factor, chain):
    """Say which covariances A A^T may have the form diag(c) + v v^T, and which may be chains.

    One factor has covariances v_i v_j, so that s_01 s_23 = s_02 s_13 = s_03 s_12; ``recognise`` of
    ``one_factor.py`` accepts much smaller differences than those which count here.  Of any three
    coordinates of a chain one lies between the other two, which are independent given it.  Three
    triples are tested; where two coordinates are nearly equal, nothing is excluded.

    Parameters
    ----------
    factor : (N, d, r) A, triangular or some rows of a triangular one
    one_factor, chain : (N,) output, False where it certainly is none
    """
    size, d, columns = factor.shape
    s = np.empty((4, 4))
    for b in range(size):
        one_factor[b] = chain[b] = True
        for test in range(4):  # of three triples, then of the first four
            count, first = (3, test * (d - 3) // 2) if test < 3 else (4, 0)
            if d < count:
                continue
            for i in range(count):
                for j in range(i + 1):
                    total = 0.0
                    for k in range(columns):
                        total += factor[b, first + i, k] * factor[b, first + j, k]
                    s[i, j] = s[j, i] = total
            if test < 3:
                dependent = True
                for k in range(3):  # whether the two others depend given k
                    i, j = (k + 1) % 3, (k + 2) % 3
                    minor_i = s[i, i] * s[k, k] - s[i, k] * s[i, k]
                    minor_j = s[j, j] * s[k, k] - s[j, k] * s[j, k]
                    partial = s[i, j] * s[k, k] - s[i, k] * s[j, k]
                    dependent = dependent and minor_i > _SINGULAR * (s[i, i] * s[k, k])
                    limit = _DEPENDENT**2 * (minor_i * minor_j)
                    dependent = dependent and partial * partial > limit
                chain[b] = chain[b] and not dependent
            elif columns == d:
                scale = _APART * d * (s[0, 0] * s[1, 1] * s[2, 2] * s[3, 3]) ** 0.5
                middle = s[0, 2] * s[1, 3]
                if (
                    abs(s[0, 1] * s[2, 3] - middle) > scale
                    or abs(s[0, 3] * s[1, 2] - middle) > scale
                ):
                    one_factor[b] = False
