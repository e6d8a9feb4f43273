"""CUDA kernels without a GPU: simulated on the CPU, and compiled and assembled for real devices."""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support import ptx

TESTS = Path(__file__).parents[1]
MODULES = (
    "argmax", "gauss", "genz", "one_factor", "pathwise", "results", "structured",
    "structured_pathwise",
)  # fmt: skip
needs_compiler = pytest.mark.skipif(
    importlib.util.find_spec("numba_cuda") is None, reason="numba-cuda is not installed"
)


def shapes():
    """Every kernel as it is launched, by name.

    Left to the slow tests: single precision, and second kernels, which take longest to compile.
    """
    if importlib.util.find_spec("numba_cuda") is None:
        return []
    found = []
    for name in MODULES:
        module = importlib.import_module(f"mvnorth._cuda.{name}")
        for shape in module.SHAPES:
            kind = "double" if "float64" in str(shape.signature[0]) else "single"
            called = f"{shape.kernel.py_func.__name__}-{kind}"
            long = kind == "single" or "_left" in called
            marks = pytest.mark.slow if long else ()
            found.append(pytest.param(shape, id=called, marks=marks))
    return found


@pytest.mark.parametrize("tests", ["not slow", pytest.param("slow", marks=pytest.mark.slow)])
def test_simulated_kernels(tests):
    environment = os.environ | {"NUMBA_ENABLE_CUDASIM": "1"}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-n",
        "0",
        "-p",
        "no:cacheprovider",
        "-m",
        tests,
        "simulator",
    ]
    done = subprocess.run(command, cwd=TESTS, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout
    assert " skipped" not in done.stdout


def devices():
    """Compute capabilities; compiling for all but the first is left to the slow tests."""
    first, *others = (pytest.param(c, id=f"sm_{c[0]}{c[1]}") for c in ptx.CAPABILITIES)
    return [first, *(pytest.param(*c.values, id=c.id, marks=pytest.mark.slow) for c in others)]


@needs_compiler
@pytest.mark.parametrize("capability", devices())
@pytest.mark.parametrize("shape", shapes())
def test_kernels_fit_the_hardware(shape, capability):
    code = ptx.compiled(shape, capability)
    assert f".target sm_{capability[0]}{capability[1]}" in code
    assert "atom." not in code  # sums in another order would change from run to run
    if shutil.which("ptxas") is None:
        return  # the compiler has accepted it; registers and spills are the assembler's to tell
    usage = ptx.assembled(code, capability)
    assert usage.spilled == 0
    assert usage.registers <= shape.registers
    assert usage.shared <= shape.shared
