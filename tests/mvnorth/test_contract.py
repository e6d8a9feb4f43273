"""The promises of ``support.contract``, for every method of the table and every covariance."""

import importlib
import pkgutil

import pytest
from support.contract import COVARIANCE_PROMISES, KINDS, PROMISES, ids

from mvnorth import _covariance
from mvnorth._covariance.rows import CovarianceRows
from mvnorth._methods import METHODS


@pytest.mark.parametrize("promise", ids(PROMISES))
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("method", ["auto", *METHODS])
def test_method(method, kind, promise):
    promise(method, kind)


@pytest.mark.parametrize("promise", ids(COVARIANCE_PROMISES))
@pytest.mark.parametrize("kind", KINDS)
def test_covariance(kind, promise):
    promise(kind)


def test_every_class_of_covariances_is_tested():
    for module in pkgutil.iter_modules(_covariance.__path__, "mvnorth._covariance."):
        importlib.import_module(module.name)
    classes = {of for of in CovarianceRows.__subclasses__() if of.__module__.startswith("mvnorth.")}
    assert classes == {kind.rows for kind in KINDS.values()}
