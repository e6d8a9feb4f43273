"""Which oracles there are on this machine; a missing one is named, with how to get it."""

from __future__ import annotations

import functools
import subprocess
from importlib.metadata import PackageNotFoundError, version
from typing import NamedTuple

import scipy

from validation.oracles import r_mvtnorm


class Oracle(NamedTuple):
    """Its name, its version (None if it is missing), and how to get it."""

    name: str
    version: str | None
    install: str = ""


@functools.cache
def oracles() -> list[Oracle]:
    """All oracles of the reports, those that are missing too."""
    return [
        Oracle("closed forms, quadrature", "ours, without mvnorth"),
        Oracle("brute-force Monte Carlo", "ours, by numpy"),
        Oracle("scipy", scipy.__version__),
        Oracle("mpmath", package_version("mpmath"), "python -m pip install mpmath"),
        Oracle(
            "R's mvtnorm, pmvnorm",
            _mvtnorm("pmvnorm"),
            "put Rscript on the PATH and install mvtnorm",
        ),
        Oracle(
            "R's mvtnorm, slpmvnorm",
            _mvtnorm("slpmvnorm"),
            "put Rscript on the PATH and install mvtnorm 1.2 or newer",
        ),
        Oracle("BoTorch's MVNXPB", package_version("botorch"), "python -m pip install botorch"),
    ]


def package_version(name: str) -> str | None:
    """Of an installed package; None if it is not there."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _mvtnorm(function: str) -> str | None:
    if not r_mvtnorm.available(function):
        return None
    show = "cat(as.character(packageVersion('mvtnorm')))"
    result = subprocess.run(["Rscript", "-e", show], capture_output=True, text=True, check=True)
    return result.stdout.strip()
