"""Generate ``mvnorth/_tables/gauss.npy``: Gauss rules of the normal distribution below a limit.

    python -m mvnorth._precompute.gauss

The n-point rule for the density phi(y) / Phi(b) on y < b, n = 1 to RULES, has nodes and weights
that are smooth functions of b.  They are interpolated at Chebyshev points piece by piece: pieces
of width WIDTH in b from LEFT to RIGHT, and pieces in 1/b**2 below LEFT.  A limit above RIGHT makes
no difference to the integral of a bounded function, and has the rule of RIGHT.  What is interpolated for a node y is b - y, times -b in the
pieces below LEFT.

The recurrence coefficients of the orthogonal polynomials come from the moments by Chebyshev's
algorithm, which loses many digits and is given enough of them; nodes and weights are the
eigenvalues and squared first components of the eigenvectors of the Jacobi matrix (Golub and Welsch
1969).
"""

from multiprocessing import Pool
from pathlib import Path

import mpmath as mp
import numpy as np

RULES = 12
DEGREE = 11
LEFT, RIGHT, WIDTH = -6, 9, mp.mpf(1) / 2
FAR_PIECES = 8
TABLE = Path(__file__).parents[1] / "_tables" / "gauss.npy"


def recurrence(b: mp.mpf, n: int) -> tuple[list[mp.mpf], list[mp.mpf], mp.mpf]:
    """Return the coefficients of the orthogonal polynomials in (b - y) / scale, and the scale."""
    scale = 1 / mp.sqrt(1 + min(b, 0) ** 2)
    linear, square = b * scale, scale * scale
    # Moments of exp(linear u - square u**2 / 2) on u > 0, by parts.
    moment = [mp.sqrt(mp.pi / 2) / scale * mp.erfc(-b / mp.sqrt(2)) * mp.exp(b * b / 2)]
    moment.append((linear * moment[0] + 1) / square)
    for k in range(1, 2 * n):
        moment.append((linear * moment[k] + k * moment[k - 1]) / square)
    before, now = [mp.mpf(0)] * (2 * n), [value / moment[0] for value in moment[: 2 * n]]
    a, c = [now[1]], [mp.mpf(1)]
    for k in range(1, n):
        after = [mp.mpf(0)] * (2 * n)
        for j in range(k, 2 * n - k):
            after[j] = now[j + 1] - a[k - 1] * now[j] - c[k - 1] * before[j]
        a.append(after[k + 1] / after[k] - now[k] / now[k - 1])
        c.append(after[k] / now[k - 1])
        before, now = now, after
    return a, c, scale


def rules(b: mp.mpf, most: int = RULES) -> list[list[tuple[mp.mpf, mp.mpf]]]:
    """Return pairs (b - y, weight) of the rules with 1 to ``most`` nodes, farthest first."""
    with mp.workdps(120 + int(100 * mp.log10(1 + abs(b)))):
        a, c, scale = recurrence(b, most)
    found = []
    with mp.workdps(40):
        for n in range(1, most + 1):
            jacobi = mp.matrix(n, n)
            for i in range(n):
                jacobi[i, i] = a[i]
                if i:
                    jacobi[i, i - 1] = jacobi[i - 1, i] = mp.sqrt(c[i])
            values, vectors = mp.eigsy(jacobi)
            pairs = [(scale * values[k], vectors[0, k] ** 2) for k in range(n)]
            found.append(sorted(pairs, reverse=True))
    return found


def pieces() -> list[tuple[bool, mp.mpf, mp.mpf]]:
    """Return (whether the variable is 1/b**2, its least and its largest value) of all pieces."""
    end = mp.mpf(1) / LEFT**2
    far = [(True, end * k / FAR_PIECES, end * (k + 1) / FAR_PIECES) for k in range(FAR_PIECES)]
    count = int((RIGHT - LEFT) / WIDTH)
    return far + [(False, LEFT + k * WIDTH, LEFT + (k + 1) * WIDTH) for k in range(count)]


def fit(piece: tuple[bool, mp.mpf, mp.mpf]) -> np.ndarray:
    """Return coefficients (DEGREE + 1, numbers of all rules), highest power first, on [-1, 1]."""
    far, low, high = piece
    with mp.workdps(40):
        points = [mp.cos(mp.pi * (2 * k + 1) / (2 * DEGREE + 2)) for k in range(DEGREE + 1)]
        powers, values = mp.matrix(DEGREE + 1, DEGREE + 1), []
        for i, x in enumerate(points):
            for j in range(DEGREE + 1):
                powers[i, j] = x ** (DEGREE - j)
            u = (low + high) / 2 + (high - low) / 2 * x
            b = -1 / mp.sqrt(u) if far else u
            row = []
            for pairs in rules(b):
                row += [distance * (-b if far else 1) for distance, _ in pairs]
                row += [weight for _, weight in pairs]
            values.append(row)
        coefficients = powers**-1 * mp.matrix(values)
        return np.array(coefficients.tolist(), dtype=np.float64)


def main() -> None:
    with Pool() as pool:
        table = np.array(pool.map(fit, pieces(), chunksize=1))
    np.save(TABLE, table)


if __name__ == "__main__":
    main()
