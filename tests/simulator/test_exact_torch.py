"""What the PyTorch operators ask of a device, which torch itself cannot simulate."""

import numpy as np
import pytest
from numba import cuda

from exact_torch import _ops


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("n", [0, pytest.param(16, marks=pytest.mark.slow)])
def test_same_as_on_the_cpu(n, rows, dtype):
    rng = np.random.default_rng(0)
    m = rng.normal(size=(3, 4)).astype(dtype)
    m[:, 1] = np.inf
    v = rng.uniform(0.5, 2.0, (rows, 4)).astype(dtype)
    given = (m, np.ones_like(v), v)
    found = _ops.solve(*map(cuda.to_device, given), n, 3, 2)
    expected = _ops.solve(*given, n, 3, 2)
    for there, here in zip(found, expected, strict=True):
        assert there.shape == here.shape
        np.testing.assert_allclose(there.copy_to_host(), here, rtol=1e-5 if n else 1e-6)
