"""Phi, its inverse, log Phi and phi/Phi over flat arrays, as vector code."""

import numpy as np

from mvnorth._compile import FAST, kernel
from mvnorth._scalar import normal
from mvnorth._scalar.exp_log import scale_by_power
from mvnorth._scalar.normal import (
    ndtr_parts,
    quantile_central,
    quantile_tail,
    quantile_w,
)
from mvnorth._tables.normal import QUANTILE_W_MAX


@kernel(FAST)
def ndtr(x, out):
    for i in range(x.size):
        f, k = ndtr_parts(x[i])
        out[i] = scale_by_power(f, k) if x[i] == x[i] else x[i]


@kernel(FAST)
def log_ndtr(x, out):
    for i in range(x.size):
        out[i] = normal.log_ndtr(x[i]) if x[i] == x[i] else x[i]


@kernel(FAST)
def mills(x, out):
    for i in range(x.size):
        out[i] = normal.mills(x[i]) if x[i] == x[i] else x[i]


@kernel(FAST)
def ndtri(p, out):
    far = 0
    for i in range(p.size):
        inside = p[i] > 0.0 and p[i] < 1.0
        safe = p[i] if inside else 0.5
        tiny = safe < 1e-290  # perhaps subnormal: bring it into the range of split_mantissa
        q, w = quantile_w(safe * 2.0**64 if tiny else safe, -64.0 if tiny else 0.0)
        far += w > QUANTILE_W_MAX
        edge = -np.inf if p[i] == 0.0 else (np.inf if p[i] == 1.0 else np.nan)
        out[i] = quantile_central(q, w) if inside else edge
    if far > 0:
        for i in range(p.size):
            if p[i] > 0.0 and p[i] < 1e-17:
                f = p[i] * 2.0**64 if p[i] < 1e-290 else p[i]
                q, w = quantile_w(f, -64.0 if p[i] < 1e-290 else 0.0)
                if w > QUANTILE_W_MAX:
                    out[i] = quantile_tail(q, w)
