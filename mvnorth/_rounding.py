"""Rounding of results by their precision."""

import numpy as np

# Relative error of the probability for each unit of its logarithm.
ROUNDING = {np.dtype(np.float64): 1e-15, np.dtype(np.float32): 2e-7}
