"""How functions are compiled, and where the machine code is kept.

Every compiled function of the package is made by one of three decorators: ``kernel`` for what
Python calls, ``inner`` for array functions that only kernels call, ``scalar`` for small functions
that are compiled as a part of their callers, on the CPU and in CUDA kernels.

numba would optimise and translate every function on its own, and again within each of its callers.
Here only kernels are: the other functions stay as they come from numba until they are linked into
one, which takes a third to a half off the time of a first call.

Kernels are cached on disk by numba's own rules: in ``NUMBA_CACHE_DIR`` if that is set, else beside
the source, else in the user's cache folder.  Two things differ.  A cache that cannot be used never
stops a computation: it is worth a warning, and the kernels are compiled again.  And a cached kernel
is out of date when any file that it imports from has changed, not only its own.
"""

import contextlib
import functools
import hashlib
import logging
import os
import pickle
import re
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numba
from numba.core.caching import CompileResultCacheImpl, FunctionCache, NullCache
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.targetconfig import ConfigStack

# Flags that keep infinities and NaN meaningful: only contraction to fused multiply-adds and
# the sign of zero are given up.
FAST = {"contract", "nsz"}
SUMS = FAST | {"reassoc"}  # for sums whose order does not matter

_QUIET = 2.0  # seconds without compiling after which the next compilation is worth a new log line

_logger = logging.getLogger("mvnorth")
_last_compiled = -float("inf")
_watcher: Callable[[str], None] | None = None
_warned: set[str] = set()  # kinds of warnings that were given
_IMPORT = re.compile(r"^from (mvnorth[.\w]*) import (\([^)]*\)|.*)", re.MULTILINE)


def kernel(fastmath: Any = False) -> Callable[[Callable], Any]:
    """Compile a function that Python calls: cached on disk, without the GIL."""
    return _compiled(cache=True, nogil=True, fastmath=fastmath)


def inner(fastmath: Any = False, *, forceinline: bool = False) -> Callable[[Callable], Any]:
    """Compile an array function as a part of each of its callers."""
    return _compiled(cache=False, fastmath=fastmath, forceinline=forceinline, **_PART)


def scalar(fastmath: Any = False, *, forceinline: bool = False) -> Callable[[Callable], Any]:
    """Compile a function as a part of each of its callers, which may be CUDA kernels."""
    options = {} if numba.config.ENABLE_CUDASIM else _PART  # simulated kernels are Python
    return _compiled(cache=False, fastmath=fastmath, forceinline=forceinline, **options)


def for_python(function: Any) -> Any:
    """Return a kernel that Python calls, of a function compiled as ``inner`` or ``scalar``."""
    return kernel(function.targetoptions.get("fastmath", False))(function.py_func)


class _NoEnvironments:
    """Stands for the code generator where numba stores Python objects beside machine code."""

    def set_env(self, name: str, environment: Any) -> None:
        pass


class _Part(JITCodeLibrary):
    """The code of a function that is only linked into others: not optimised, no machine code."""

    codegen = _NoEnvironments()

    def _optimize_functions(self, module: Any) -> None:
        module.data_layout = self._codegen._data_layout

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalized = True


class _PartCompiler(Compiler):
    def define_pipelines(self) -> Any:
        name = self.state.func_id.func_qualname
        if len(ConfigStack()) == 1:  # no caller is being compiled
            raise TypeError(f"Python cannot call {name}, but can call for_python({name})")
        self.state.library = _Part(self.state.targetctx.codegen(), name)
        return super().define_pipelines()


# No wrappers for Python and C, and no file in the cache.
_PART = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, "pipeline_class": _PartCompiler}


def _label_of_closure(function: Callable) -> str:
    """Return a name for what a generated function is generated from.

    numba counts functions of the same name, differently in each process.  Code from the cache would
    otherwise be linked with another function that happens to have the same name and number.
    """
    names = []
    for cell in function.__closure__ or ():
        value = getattr(cell.cell_contents, "py_func", cell.cell_contents)
        names.append(getattr(value, "__qualname__", None) or repr(value))
    return "_" + hashlib.sha256(" ".join(names).encode()).hexdigest()[:8]


def _compiled(cache: bool, **options: Any) -> Callable[[Callable], Any]:
    def decorate(function: Callable) -> Any:
        if function.__closure__:
            function.__qualname__ += _label_of_closure(function)
        dispatcher = numba.njit(error_model="numpy", **options)(function)
        if cache and dispatcher is not function:  # NUMBA_DISABLE_JIT leaves the function as it is
            dispatcher._cache = _KernelCache(function)
        return dispatcher

    return decorate


# The folder that the user names, then that of the source; their names differ between versions.
_NAMED_FOLDER, _SOURCE_FOLDER = CompileResultCacheImpl._locator_classes[:2]


class _ReadOnly(_SOURCE_FOLDER):  # type: ignore[valid-type, misc]
    """Finds kernels that were compiled earlier, where nothing can be written now."""

    @classmethod
    def from_function(cls, py_func: Callable, py_file: str) -> Any:
        locator = cls(py_func, py_file)
        if numba.config.CACHE_DIR:
            locator._cache_path = _NAMED_FOLDER(py_func, py_file).get_cache_path()
        return locator


class _Files(CompileResultCacheImpl):
    _locator_classes = [*CompileResultCacheImpl._locator_classes, _ReadOnly]  # noqa: RUF012


class _FileCache(FunctionCache):
    _impl_class = _Files


class _KernelCache:
    """numba's cache of one function, opened when it is first needed."""

    def __init__(self, function: Callable) -> None:
        self._function = function

    @functools.cached_property
    def _files(self) -> Any:
        try:
            cache = _FileCache(self._function)
        except Exception as error:  # such as a locator of the user's that does not work
            warn_no_cache(error)
            return NullCache()
        set_stamp(cache, self._function)
        return cache

    @property
    def cache_path(self) -> str | None:
        return self._files.cache_path

    def load_overload(self, signature: Any, target: Any) -> Any:
        files = self._files
        cached = load_safely(files, lambda: files.load_overload(signature, target))
        if cached is None:
            _log(self._function, files.cache_path)
        return cached

    def save_overload(self, signature: Any, compiled: Any) -> None:
        global _last_compiled
        _last_compiled = time.monotonic()
        files = self._files
        save_safely(files, lambda: files.save_overload(signature, compiled))

    def flush(self) -> None:
        self._files.flush()

    def enable(self) -> None:
        self._files.enable()

    def disable(self) -> None:
        self._files.disable()


def load_safely(cache: Any, load: Callable[[], Any]) -> Any:
    """Return what ``load`` finds in a cache of numba's; delete its files if they are damaged."""
    try:
        return load()
    except OSError:  # the folder is not there, or cannot be read: writing to it will say so
        return None
    except Exception as error:  # reading a damaged file may raise anything
        _delete(cache)
        _warn_once(
            "damaged",
            f"a damaged file of compiled kernels in {cache.cache_path} was deleted "
            f"({type(error).__name__}: {error}). If this happens again, set the environment "
            "variable NUMBA_CACHE_DIR to another folder.",
        )
        return None


def save_safely(cache: Any, save: Callable[[], None]) -> None:
    """Write a kernel to a cache of numba's, whole or not at all."""
    try:
        # numba writes the index, then the file that it names: a process that is killed in between
        # must not leave an index that names a file of an older version.
        if cache.cache_path and not cache._cache_file._load_index():
            _delete(cache)
        save()
    except BaseException as error:  # KeyboardInterrupt too
        _delete(cache)
        if not isinstance(error, (OSError, EOFError, pickle.PickleError)):
            raise
        warn_no_cache(error)


def _delete(cache: Any) -> None:
    if cache.cache_path is None:  # numba's NullCache
        return
    for path in Path(cache.cache_path).glob(f"{cache._impl.filename_base}.*"):
        with contextlib.suppress(OSError):
            path.unlink()


def set_stamp(cache: Any, function: Callable) -> None:
    """Make what is cached depend on all files that the function's file imports from."""
    with contextlib.suppress(OSError):  # no source files, as in a frozen program: numba's own stamp
        cache._cache_file._source_stamp = _stamp(Path(function.__code__.co_filename))


@functools.cache
def _stamp(path: Path) -> str:
    known, left = {path}, [path]
    while left:
        for imported in _read(left.pop())[1]:
            if imported not in known:
                known.add(imported)
                left.append(imported)
    return hashlib.sha256("".join(sorted(_read(path)[0] for path in known)).encode()).hexdigest()


@functools.cache
def _read(path: Path) -> tuple[str, list[Path]]:
    """Return the digest of a source file and the files of the package that it imports from."""
    source = path.read_bytes()
    return hashlib.sha256(source).hexdigest(), list(_imports(source.decode()))


def _imports(source: str) -> Iterator[Path]:
    here = Path(__file__)
    for module, names in _IMPORT.findall(source):
        path = here.parents[1].joinpath(*module.split("."))
        for candidate in (path, *(path / name for name in re.findall(r"\w+", names))):
            file = candidate.with_suffix(".py")
            # The other files beside this one have nothing that is compiled into a kernel.
            if file.exists() and (file.parent != here.parent or file.name == here.name):
                yield file


def is_current(index: Path, source: Path) -> bool:
    """Say whether an index file of the cache is for the source file as it is, and this numba."""
    try:
        with open(index, "rb") as file:
            version = pickle.load(file)
            return version == numba.__version__ and pickle.load(file)[0] == _stamp(source)
    except Exception:  # a damaged file, or a source that is no longer there
        return False


def _log(function: Callable, folder: str | None) -> None:
    """Log one line for a run of compilations, and the name of each function for debugging."""
    global _last_compiled
    now = time.monotonic()
    if now - _last_compiled > _QUIET:
        where = f"; cached in {folder} from then on" if folder else ""
        _logger.info("compiling kernels%s", where)
    _last_compiled = now
    name = f"{function.__module__}.{function.__qualname__}"
    _logger.debug("compiling %s", name)
    if _watcher is not None:
        _watcher(name)


@contextlib.contextmanager
def watch(watcher: Callable[[str], None] | None) -> Iterator[None]:
    """Call ``watcher`` with the name of every function that is compiled meanwhile."""
    global _watcher
    earlier, _watcher = _watcher, watcher
    try:
        yield
    finally:
        _watcher = earlier


def warn_no_cache(error: Exception) -> None:
    _warn_once(
        "no cache",
        f"compiled kernels cannot be cached ({type(error).__name__}: {error}): every new process "
        "compiles them again, which takes up to a minute. Set the environment variable "
        "NUMBA_CACHE_DIR to a folder that can be written.",
    )


def _warn_once(kind: str, message: str) -> None:
    if kind in _warned:
        return
    _warned.add(kind)
    here, level, frame = str(Path(__file__).parent), 1, sys._getframe()
    packages = (here + os.sep, str(Path(numba.__file__).parent) + os.sep)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(packages):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, RuntimeWarning, stacklevel=level)
