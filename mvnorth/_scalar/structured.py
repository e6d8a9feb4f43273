"""Reverse sweep through the structured Genz recursion, for one variable of one sample.

The formulas are derived in ``mvnorth._cpu.structured_pathwise``, x^ written ``x_bar``; A and W are
halved.  One function an output, as vector code wants it.
"""

from mvnorth._compile import FAST, scalar


@scalar(FAST, forceinline=True)
def limit_bar(h_b, h_y, w, S_bar):
    """b_bar, from phi/Phi at the limit b = upper - t S, S before the variable, and at y.

    These two are called where the loop is: a level deeper they cost 6 % more on a CPU.
    """
    return h_b * (1.0 + w * S_bar / h_y)


@scalar(FAST, forceinline=True)
def half_A(upper, t, S, b_bar):
    return -0.5 * b_bar * (upper - t * S)


@scalar(FAST, forceinline=True)
def half_W(w, y, S_bar):
    return 0.5 * w * y * S_bar


@scalar(FAST, forceinline=True)
def running_sum_bar(s_bar, A, W, later, inverse_s):
    """In s_i, from that in s_(i+1); ``later`` is A + W of the next variable."""
    return s_bar + ((A - W) - later) * inverse_s


@scalar(FAST, forceinline=True)
def log_c_bar(A, W, s_bar, v2_over_c):
    return (A - W) - s_bar * v2_over_c


@scalar(FAST, forceinline=True)
def v_bar(S, y, S_bar, s_bar, b_bar, inverse_diag, w_of_v, s_of_v):
    return y * S_bar * w_of_v + s_bar * s_of_v - b_bar * S * inverse_diag
