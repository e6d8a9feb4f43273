"""What is said of the benchmarks: which there are, and what the one for GPUs runs."""

import re
from pathlib import Path

from validation import benchmarks
from validation.benchmarks import gpu

FOLDER = Path(benchmarks.__file__).parent


def test_all_programs_are_listed():
    listed = re.findall(r"python -m validation\.benchmarks\.(\w+)", benchmarks.__doc__)
    programs = [path.stem for path in FOLDER.glob("*.py") if "def main(" in path.read_text()]
    assert sorted(listed) == sorted(programs)


def test_figure_5_is_run_as_published():
    """512 samples of 8 to 512 classes, 128 classes with 16 to 2048 samples, batches of 256."""
    settings = gpu.Settings()
    assert settings.elements == 256
    assert settings.classes == tuple((c, 512) for c in (8, 16, 32, 64, 128, 256, 512))
    samples = (16, 32, 64, 128, 256, 512, 1024, 2048)
    assert settings.points == tuple((128, n) for n in samples)
