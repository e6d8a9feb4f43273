"""The Cholesky factor of diag(c) + V V^T, see ``mvnorth._linalg.factors``."""

import numpy as np

from mvnorth._compile import kernel


@kernel()
def factors_cholesky(c, diag, V, W):
    """Fill diag (B, d) and W (B, d, k) for c (B, d) and V (B, d, k)."""
    size, d, k = V.shape
    S, u = np.empty((k, k)), np.empty(k)
    for b in range(size):
        S[:] = np.eye(k)
        for j in range(d):
            variance = c[b, j]
            for r in range(k):
                u[r] = 0.0
                for s in range(k):
                    u[r] += S[r, s] * V[b, j, s]
                variance += V[b, j, r] * u[r]
            root = np.sqrt(variance)
            diag[b, j] = root
            for r in range(k):
                W[b, j, r] = u[r] / root
            for r in range(k):
                for s in range(k):
                    S[r, s] -= W[b, j, r] * W[b, j, s]
