"""The cache of compiled kernels: where it fails, results are right and one warning says why."""

import importlib.util
import logging
import os
import re
import subprocess
import sys
import warnings
from pathlib import Path

import numba
import pytest
from numba.core import caching

from mvnorth import _compile

ROOT = Path(__file__).parents[2]
SOURCE = """
from mvnorth._compile import inner, kernel


@inner()
def double(x):
    return 2.0 * x


@kernel()
def add(x, y):
    return double(x) + y


@kernel()
def subtract(x, y):
    return x - y
"""


@pytest.fixture
def load(tmp_path, monkeypatch):
    """``load()`` imports two kernels anew, as another process would, cached in ``tmp_path``."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(_compile, "_warned", set())
    monkeypatch.setattr(_compile, "_last_compiled", -float("inf"))
    path = tmp_path / "kernels.py"
    path.write_text(SOURCE)

    def load():
        spec = importlib.util.spec_from_file_location("kernels", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return load


def test_python_calls_what_is_a_part_of_kernels_by_for_python(load):
    double = load().double
    with pytest.raises(TypeError, match=r"for_python\(double\)"):
        double(1.0)
    assert _compile.for_python(double)(1.0) == 2.0


def cached_files(folder):
    return sorted(path for path in folder.rglob("*") if path.suffix in (".nbi", ".nbc"))


def hits(function):
    return sum(function.stats.cache_hits.values())


def test_kernels_are_cached(load, tmp_path):
    assert load().add(1.0, 2.0) == 4.0
    names = [path.name for path in cached_files(tmp_path)]
    assert [name.split("-")[0] for name in names] == [
        "kernels.add"
    ] * 2  # the other is a part of it
    again = load()
    assert again.add(1.0, 2.0) == 4.0
    assert hits(again.add) == 1


def test_no_folder_can_be_written(load, monkeypatch):
    def refuse(self):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(caching._CacheLocator, "ensure_cache_path", refuse)
    module = load()
    with pytest.warns(RuntimeWarning, match="NUMBA_CACHE_DIR") as caught:
        results = module.add(1.0, 2.0), module.subtract(1.0, 2.0), module.add(1, 2)
    assert results == (4.0, -1.0, 4.0)
    assert len(caught) == 1
    assert caught[0].filename == __file__


def test_kernels_are_found_in_a_folder_that_can_only_be_read(load, monkeypatch):
    load().add(1.0, 2.0)

    def refuse(self):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(caching._CacheLocator, "ensure_cache_path", refuse)
    again = load()
    assert again.add(1.0, 2.0) == 4.0
    assert hits(again.add) == 1


def test_no_locator_works(load, monkeypatch):
    monkeypatch.setattr(numba.config, "CACHE_LOCATOR_CLASSES", "NoSuchLocator", raising=False)
    monkeypatch.setattr(_compile._Files, "_locator_classes", [])
    module = load()
    with pytest.warns(RuntimeWarning, match="NUMBA_CACHE_DIR") as caught:
        assert module.add(1.0, 2.0) == 4.0
    assert len(caught) == 1


@pytest.mark.parametrize("written", ["nothing", "index"])
def test_disk_is_full(load, monkeypatch, tmp_path, written):
    def full(self, *arguments):
        raise OSError(28, "No space left on device")

    name = "_save_index" if written == "nothing" else "_save_data"
    with monkeypatch.context() as patch:
        patch.setattr(caching.IndexDataCacheFile, name, full)
        module = load()
        with pytest.warns(RuntimeWarning, match="No space left.*NUMBA_CACHE_DIR") as caught:
            results = module.add(1.0, 2.0), module.subtract(1.0, 2.0)
        assert results == (4.0, -1.0)
        assert len(caught) == 1
    assert cached_files(tmp_path) == []
    assert load().add(1.0, 2.0) == 4.0  # there is space again
    assert len(cached_files(tmp_path)) == 2


def test_an_interrupt_while_a_kernel_is_written(load, monkeypatch, tmp_path):
    """An index must not name a file that an older version of the kernel has left there."""

    def interrupt(self, *arguments):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(caching.IndexDataCacheFile, "_save_data", interrupt)
        with pytest.raises(KeyboardInterrupt):
            load().subtract(1.0, 2.0)
    assert cached_files(tmp_path) == []


def test_a_process_killed_while_a_kernel_is_written(load, monkeypatch, tmp_path):
    path = tmp_path / "kernels.py"
    load().subtract(1.0, 2.0)
    path.write_text(SOURCE.replace("x - y", "y - x"))
    _compile._stamp.cache_clear()
    _compile._read.cache_clear()
    with monkeypatch.context() as patch:
        patch.setattr(caching.IndexDataCacheFile, "_save_data", lambda *arguments: None)
        assert load().subtract(1.0, 2.0) == 1.0
    assert load().subtract(1.0, 2.0) == 1.0  # not the older version's file


@pytest.mark.parametrize("suffix", [".nbi", ".nbc"])
@pytest.mark.parametrize(
    "damage",
    [lambda data: b"", lambda data: data[: len(data) // 2], lambda data: bytes(len(data))],
    ids=["empty", "truncated", "zeros"],
)
def test_damaged_files_are_replaced(load, tmp_path, suffix, damage):
    load().add(1.0, 2.0)
    for path in cached_files(tmp_path):
        if path.suffix == suffix:
            path.write_bytes(damage(path.read_bytes()))
    module = load()
    with pytest.warns(RuntimeWarning, match="damaged.*NUMBA_CACHE_DIR") as caught:
        assert module.add(1.0, 2.0) == 4.0
    assert len(caught) == 1
    again = load()
    assert again.add(1.0, 2.0) == 4.0
    assert hits(again.add) == 1


def test_one_line_is_logged(load, caplog, tmp_path):
    caplog.set_level(logging.INFO, logger="mvnorth")
    module = load()
    module.add(1.0, 2.0)
    module.subtract(1.0, 2.0)
    assert len(caplog.messages) == 1
    assert caplog.messages[0].startswith("compiling kernels; cached in " + str(tmp_path))
    load().add(1.0, 2.0)
    assert len(caplog.messages) == 1


def test_a_later_compilation_is_logged_again(load, caplog, monkeypatch):
    caplog.set_level(logging.INFO, logger="mvnorth")
    module = load()
    module.add(1.0, 2.0)
    monkeypatch.setattr(_compile, "_last_compiled", _compile._last_compiled - 100.0)
    module.subtract(1.0, 2.0)
    assert len(caplog.messages) == 2


def test_a_change_in_an_imported_file_makes_kernels_out_of_date(tmp_path, monkeypatch):
    package = tmp_path / "mvnorth"
    (package / "_scalar").mkdir(parents=True)
    (package / "_scalar" / "__init__.py").write_text("")
    base, middle = package / "_scalar" / "base.py", package / "_scalar" / "middle.py"
    base.write_text("FACTOR = 2.0\n")
    middle.write_text("from mvnorth._scalar.base import (\n    FACTOR,\n)\n")
    top, other = package / "top.py", package / "other.py"
    top.write_text("from mvnorth._scalar import middle\n")
    other.write_text("import math\n")
    monkeypatch.setattr(_compile, "__file__", str(package / "_compile.py"))

    def stamps():
        _compile._stamp.cache_clear()
        _compile._read.cache_clear()
        return _compile._stamp(top), _compile._stamp(other)

    before = stamps()
    assert stamps() == before
    base.write_text("FACTOR = 3.0\n")
    after = stamps()
    assert after[0] != before[0]
    assert after[1] == before[1]


def test_every_kernel_module_imports_in_a_way_that_the_stamp_sees():
    for path in sorted((ROOT / "mvnorth").glob("_*/*.py")):
        source = path.read_text()
        imported = re.findall(r"^(?:from|import) (mvnorth\S*|\.\S*)", source, re.MULTILINE)
        assert len(imported) == len(_compile._IMPORT.findall(source)), path


def test_public_functions_without_a_cache():
    code = """
import warnings
from numba.core import caching

def refuse(self):
    raise PermissionError(13, "Permission denied")

caching._CacheLocator.ensure_cache_path = refuse
import mvnorth

with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    print(mvnorth.orthant_prob([0.0], [[1.0]]), mvnorth.orthant_prob([0.0], [[1.0]]))
    print(*(w.category.__name__ for w in caught))
"""
    environment = os.environ | {"NUMBA_CACHE_DIR": "/dev/null/cache"}
    run = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert run.stdout == "0.5 0.5\nRuntimeWarning\n", run.stderr


@pytest.mark.skipif(
    importlib.util.find_spec("numba_cuda") is None, reason="numba-cuda is not installed"
)
@pytest.mark.skipif(os.environ.get("NUMBA_ENABLE_CUDASIM") == "1", reason="kernels are simulated")
class TestCuda:
    @pytest.fixture
    def launch(self, load):
        from mvnorth._cuda import launch

        return launch

    def test_no_folder_can_be_written(self, launch, monkeypatch):
        from numba.cuda.core import caching as cuda_caching

        def refuse(self):
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr(cuda_caching._CacheLocator, "ensure_cache_path", refuse)
        monkeypatch.setattr(caching._CacheLocator, "ensure_cache_path", refuse)
        with pytest.warns(RuntimeWarning, match="NUMBA_CACHE_DIR"):
            launch.kernel(32, 1)(lambda x: None)

    def test_damaged_files_and_full_disks(self, launch, monkeypatch):
        compiled = launch.kernel(32, 1)(lambda x: None)
        cache = compiled._cache
        folder = Path(cache.cache_path)
        index = folder / f"{cache._impl.filename_base}.nbi"
        index.write_bytes(b"")
        signature, target = ("float64",), compiled.targetctx
        monkeypatch.setattr(type(cache), "_index_key", lambda *arguments: "key")
        monkeypatch.setattr(type(target), "refresh", lambda self: None)
        monkeypatch.setattr(type(target), "codegen", lambda self: None)
        with pytest.warns(RuntimeWarning, match="damaged"):
            assert cache.load_overload(signature, target) is None
        assert not index.exists()

        def full(self, *arguments):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(type(cache), "_save_overload", full)
        with pytest.warns(RuntimeWarning, match="No space left"):
            cache.save_overload(signature, None)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            cache.save_overload(signature, None)  # said once
