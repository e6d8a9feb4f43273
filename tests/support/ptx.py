"""Kernels compiled for devices that are not there, and what the assembler says of them."""

import functools
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

CAPABILITIES = ((8, 0), (9, 0), (10, 0))


@dataclass(frozen=True)
class Usage:
    registers: int
    spilled: int
    stack: int
    shared: int


@functools.cache
def compiled(shape, capability):
    """PTX of a ``mvnorth._cuda.launch.Shape``."""
    from numba import cuda
    from numba.cuda import dispatcher

    # A kernel that calls other compiled functions asks for the device that they are for.
    device = mock.Mock(compute_capability=capability)
    with mock.patch.object(dispatcher, "get_current_device", return_value=device):
        ptx, _ = cuda.compile_ptx(
            shape.kernel.py_func, shape.signature, cc=capability, launch_bounds=shape.bounds
        )
    return ptx


def assembled(ptx, capability):
    """What ``ptxas`` says, or None where it is not installed."""
    assembler = shutil.which("ptxas")
    if assembler is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "kernel.ptx")
        source.write_text(ptx)
        name = "sm_" + "".join(map(str, capability))
        command = [assembler, "-v", f"-arch={name}", str(source), "-o", str(Path(folder, "out"))]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stderr

    def number(pattern):
        return sum(int(found) for found in re.findall(pattern, said))

    return Usage(
        number(r"Used (\d+) registers"),
        number(r"(\d+) bytes spill"),
        number(r"(\d+) bytes stack frame"),
        number(r"(\d+) bytes smem"),
    )
