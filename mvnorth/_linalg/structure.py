"""Whether A A^T can have a structure at all: cheap tests that most covariances fail.

They need a few rows of A only, and compile in a moment: what recognises a structure, and is asked
only where it is possible, does not.
"""

from mvnorth._compile import inner, kernel

_DEPENDENT = 1e-4  # partial correlation that is no rounding, and no misfit that counts as such
_SINGULAR = 1e-8  # 1 - rho**2 below which nothing is excluded
_APART = 1e-9  # difference of products of covariances, times d and the deviations


@inner()
def _product(A, i, j):
    """Return the covariance of coordinates i and j."""
    total = 0.0
    for k in range(A.shape[1]):
        total += A[i, k] * A[j, k]
    return total


@inner()
def _is_partial(ab, ac, bc, cc, minor_ac, minor_bc):
    """Whether a and b depend given c."""
    partial = ab * cc - ac * bc
    return partial * partial > _DEPENDENT**2 * (minor_ac * minor_bc)


@inner()
def _dependent(A, i):
    """Whether any two of three coordinates from i on depend given the third."""
    aa, bb, cc = _product(A, i, i), _product(A, i + 1, i + 1), _product(A, i + 2, i + 2)
    ab, ac, bc = _product(A, i, i + 1), _product(A, i, i + 2), _product(A, i + 1, i + 2)
    minor_ab, minor_ac, minor_bc = aa * bb - ab * ab, aa * cc - ac * ac, bb * cc - bc * bc
    regular = minor_ab > _SINGULAR * (aa * bb) and minor_ac > _SINGULAR * (aa * cc)
    return (
        regular
        and minor_bc > _SINGULAR * (bb * cc)
        and _is_partial(ab, ac, bc, cc, minor_ac, minor_bc)
        and _is_partial(ac, ab, bc, bb, minor_ab, minor_bc)
        and _is_partial(bc, ab, ac, aa, minor_ab, minor_ac)
    )


@inner()
def _apart(A):
    """Whether the products of covariances s_01 s_23, s_02 s_13 and s_03 s_12 differ."""
    first = _product(A, 0, 1) * _product(A, 2, 3)
    second = _product(A, 0, 2) * _product(A, 1, 3)
    third = _product(A, 0, 3) * _product(A, 1, 2)
    variances = _product(A, 0, 0) * _product(A, 1, 1) * _product(A, 2, 2) * _product(A, 3, 3)
    scale = _APART * A.shape[0] * variances**0.5
    return abs(first - second) > scale or abs(second - third) > scale


@kernel()
def possible_structures(factor, one_factor, chain):
    """Say which covariances A A^T may have the form diag(c) + v v^T, and which may be chains.

    One factor has covariances v_i v_j, so that s_01 s_23 = s_02 s_13 = s_03 s_12; ``recognise`` of
    ``one_factor.py`` accepts much smaller differences than those which count here.  Of any three
    coordinates of a chain one lies between the other two, which are independent given it.  A few
    triples are tested; where two coordinates are nearly equal, nothing is excluded.

    Parameters
    ----------
    factor : (N, d, r) A, triangular or some rows of a triangular one
    one_factor, chain : (N,) output, False where it certainly is none
    """
    size, d, columns = factor.shape
    for b in range(size):
        one_factor[b] = d < 4 or columns != d or not _apart(factor[b])
        chain[b] = d < 3 or not (
            _dependent(factor[b], 0)
            or _dependent(factor[b], (d - 3) // 2)
            or _dependent(factor[b], d - 3)
        )
