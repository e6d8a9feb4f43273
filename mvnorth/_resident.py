"""Input that lives on a GPU: results stay there.

What a kernel computes whole, with one common factor or for the probability to be best, is neither
copied nor waited for.  Sampling is planned on the host, where input is ordered and tilted: it is
copied there, points are weighed on the device, and results are copied back.
"""

import functools
import inspect
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any, ParamSpec, TypeVar

import numpy as np

from mvnorth import _arguments, _checks
from mvnorth._device import Device, named, on_device, ordinal, require, stream_of
from mvnorth._result import OrthantGradient, OrthantResult
from mvnorth._status import Status
from mvnorth.covariance import Covariance, Factors, OneFactor

_ON_HOST = {np.ndarray, list, tuple, float, int, str, bool, type(None)}
_P = ParamSpec("_P")
_R = TypeVar("_R")


def follows_input(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Let a public function take arrays that live on a GPU, and return its results there."""
    signature = inspect.signature(function)

    @functools.wraps(function)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        if _ON_HOST.issuperset(map(type, args)) and _ON_HOST.issuperset(map(type, kwargs.values())):
            return function(*args, **kwargs)
        there = [a for value in (*args, *kwargs.values()) for a in _arrays(value) if on_device(a)]
        if not there:
            return function(*args, **kwargs)
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        given = bound.arguments
        if named(given["device"]) == "cpu":
            raise ValueError(
                "device='cpu', but the input lives on a GPU; copy it to the host first "
                "(.cpu(), .get() or .copy_to_host()), or leave device out"
            )
        require()
        queue = _queue(there)
        found = _DIRECT.get(function.__name__, _nothing)(queue, given)
        if found is None:
            for name, value in given.items():
                given[name] = _on_host(queue, value)
            given["device"] = Device(stream_of(there[0]), np.dtype(np.float64))
            found = _on_device(queue, function(*bound.args, **bound.kwargs))
        return found

    return call


def _queue(there: list[Any]) -> Any:
    """Return the stream of the first of these arrays, which all live on the current device."""
    from mvnorth._cuda.launch import Queue, current

    for number in map(ordinal, there):
        if number not in (None, current()):
            raise ValueError(
                f"an array lives on CUDA device {number}, but the current one is {current()}; "
                f"call torch.cuda.set_device({number}), or use() of cupy.cuda.Device({number})"
            )
    return Queue.of(stream_of(there[0]))


def _arrays(value: Any) -> tuple[Any, ...]:
    return value.arrays if isinstance(value, Covariance) else (value,)


def _nothing(queue: Any, given: dict[str, Any]) -> Any:
    return None


def _on_host(queue: Any, value: Any) -> Any:
    if isinstance(value, Factors):
        return type(value)(*(_on_host(queue, array) for array in value.arrays))
    return queue.get(queue.view(value)) if on_device(value) else value


def _on_device(queue: Any, found: Any) -> Any:
    """Return a result with its numbers on the device; what is no number stays."""
    if isinstance(found, OrthantResult):
        numbers = {
            field.name: _on_device(queue, getattr(found, field.name))
            for field in fields(found)
            if field.name not in ("method", "tolerance", "log", "of_cdf")
        }
        return replace(found, **numbers)
    return None if found is None else queue.put(found, np.int8 if type(found) is Status else None)


def _orthant(queue: Any, given: dict[str, Any]) -> OrthantResult | None:
    return _one_factor(queue, given, ())


def _orthant_grad(queue: Any, given: dict[str, Any]) -> OrthantResult | None:
    if not isinstance(given["L"], OneFactor):
        return None
    if given["df"] is not None or given["delta"] is not None:
        return None
    names = _arguments.subset("wrt", given["wrt"], ("m", "c", "v", "cov"))
    return None if "cov" in names else _one_factor(queue, given, names)


def _one_factor(
    queue: Any, given: dict[str, Any], wrt: tuple[str, ...]
) -> OrthantResult | OrthantGradient | None:
    """Return the result for one common factor, exact; None for other problems."""
    cov = given["L"]
    if not isinstance(cov, OneFactor) or given["method"] not in ("auto", "quadrature"):
        return None
    if given["df"] is not None or given["delta"] is not None or given["complement"]:
        return None
    from mvnorth._cuda import results
    from mvnorth._cuda.one_factor import one_factor

    tolerance = _arguments.tolerance(
        given["rtol"], given["atol"], _arguments.points_count(given["n"])
    )
    _arguments.whole_number("seed", given["seed"], at_least=0)
    m, batch = results.rows(queue, "m", given["m"])
    if m.shape[1] != cov.d:
        raise ValueError(
            f"m and L differ in dimension: m has {(*batch, m.shape[1])}, the OneFactor "
            f"{tuple(cov.c.shape)}"
        )
    c, shape = results.matching(queue, "c", cov.c, m, batch)
    v, _ = results.matching(queue, "v", cov.v, m, batch)
    found = one_factor(queue, m, c, v, wrt)
    found["status"] = results.status(queue, found["log_prob"], found["rel_error"], tolerance)
    if wrt and not given["log"]:
        results.of_probability(queue, found, wrt)
    shaped = {name: queue.shaped(a, (*shape, *a.shape[1:])) for name, a in found.items()}
    shaped |= {"log_bound": None, "method": "quadrature"}
    asked = None if tolerance is None else (tolerance.relative, tolerance.absolute)
    if wrt:
        return OrthantGradient(**shaped, tolerance=asked, log=given["log"])
    return OrthantResult(**shaped, tolerance=asked)


def _prob_argmax(queue: Any, given: dict[str, Any]) -> Any:
    """Return probabilities of all classes; None for relative accuracy."""
    if given["relative"] or given["cov"] is not None:
        return None
    from mvnorth._cuda import results
    from mvnorth._cuda.argmax import argmax

    mu, batch = results.rows(queue, "mu", given["mu"])
    sigma = given["sigma"] if on_device(given["sigma"]) else _checks.deviations(given["sigma"])
    deviations, shape = results.matching(queue, "sigma", sigma, mu, batch)
    return queue.shaped(argmax(queue, mu, deviations), (*shape, mu.shape[1]))


_DIRECT: dict[str, Callable[[Any, dict[str, Any]], Any]] = {
    "orthant": _orthant,
    "orthant_grad": _orthant_grad,
    "prob_argmax": _prob_argmax,
}
