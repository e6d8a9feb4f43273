"""Multivariate normal orthant and box probabilities.

>>> import numpy as np
>>> import mvnorth
>>> L = np.linalg.cholesky([[1.0, 0.5], [0.5, 1.0]])
>>> round(mvnorth.orthant_prob([0.0, 0.0], L), 12)
0.333333333333
"""

from mvnorth import covariance, qmc, special
from mvnorth._api import (
    box,
    box_logprob,
    box_prob,
    cdf,
    logcdf,
    orthant,
    orthant_logprob,
    orthant_prob,
)
from mvnorth._argmax import prob_argmax, prob_topk
from mvnorth._censored import censored_logpdf, censored_logpdf_grad
from mvnorth._censored_result import CensoredGradient
from mvnorth._contrasts import Contrasts, group_contrasts, sample_contrasts
from mvnorth._density import box_density
from mvnorth._device import DeviceInfo, device_info
from mvnorth._errors import AcceptanceError
from mvnorth._expected import expected_improvement, expected_loss, expected_max
from mvnorth._expected_gradients import expected_improvement_grad, expected_max_grad
from mvnorth._expected_result import ExpectedGradient
from mvnorth._explain import Explanation, Step, explain, explain_box
from mvnorth._gradients import box_grad, cdf_grad, orthant_grad
from mvnorth._hessian import orthant_hessian
from mvnorth._max_t import max_t
from mvnorth._max_t_result import MaxTResult
from mvnorth._moments import box_moments, orthant_moments
from mvnorth._moments_result import Density, Moments
from mvnorth._polytope import polytope, polytope_logprob, polytope_prob
from mvnorth._polytope_gradients import polytope_grad
from mvnorth._polytope_sampling import sample_polytope
from mvnorth._probit.multinomial import MultinomialProbit, MultinomialProbitResult
from mvnorth._probit.multivariate import Probit, ProbitResult
from mvnorth._quantile import quantile
from mvnorth._quantile_result import QuantileResult
from mvnorth._result import (
    OrthantGradient,
    OrthantResult,
    OrthantSample,
)
from mvnorth._sampling import sample_box, sample_orthant
from mvnorth._status import Status
from mvnorth._threads import get_num_threads, set_num_threads
from mvnorth._warmup import warmup
from mvnorth.covariance import Factors, OneFactor, delta_matrix

__version__ = "0.1.0"

__all__ = [
    "AcceptanceError",
    "CensoredGradient",
    "Contrasts",
    "Density",
    "DeviceInfo",
    "ExpectedGradient",
    "Explanation",
    "Factors",
    "MaxTResult",
    "Moments",
    "MultinomialProbit",
    "MultinomialProbitResult",
    "OneFactor",
    "OrthantGradient",
    "OrthantResult",
    "OrthantSample",
    "Probit",
    "ProbitResult",
    "QuantileResult",
    "Status",
    "Step",
    "box",
    "box_density",
    "box_grad",
    "box_logprob",
    "box_moments",
    "box_prob",
    "cdf",
    "cdf_grad",
    "censored_logpdf",
    "censored_logpdf_grad",
    "covariance",
    "delta_matrix",
    "device_info",
    "expected_improvement",
    "expected_improvement_grad",
    "expected_loss",
    "expected_max",
    "expected_max_grad",
    "explain",
    "explain_box",
    "get_num_threads",
    "group_contrasts",
    "logcdf",
    "max_t",
    "orthant",
    "orthant_grad",
    "orthant_hessian",
    "orthant_logprob",
    "orthant_moments",
    "orthant_prob",
    "polytope",
    "polytope_grad",
    "polytope_logprob",
    "polytope_prob",
    "prob_argmax",
    "prob_topk",
    "qmc",
    "quantile",
    "sample_box",
    "sample_contrasts",
    "sample_orthant",
    "sample_polytope",
    "set_num_threads",
    "special",
    "warmup",
]
