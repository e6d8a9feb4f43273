"""The code that a function depends on, found by reading the files of the repository.

Results of a task are kept as long as this code is the same. Inside ``validation`` it is followed by
name, from a function to the functions, classes and constants that it uses, so that another wording
of a page keeps all results; of ``mvnorth`` and ``exact_torch`` it is the whole package.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

WHOLE = ("mvnorth", "exact_torch")  # packages that count as a whole; the second uses the first
FOLLOWED = "validation"
_DATA = ("mvnorth/_tables/*.npy", "validation/reference/*.json", "validation/reference/*.npz")
_NOT_IN_RESULTS = ("cli.py", "__main__.py")


class Reached(NamedTuple):
    """What a function depends on.

    Attributes
    ----------
    code : str
        A fingerprint of the code, without comments and docstrings, and of stored tables.
    modules : frozenset of str
        The modules of ``validation`` from which something is used, and whole packages.
    """

    code: str
    modules: frozenset[str]


def reached(call: Callable[..., Any], root: Path) -> Reached:
    """Return what a function of a module depends on, given the folder of the packages."""
    search = _Search(root)
    if search.path(call.__module__) is None:
        search.add_file(call.__module__, Path(inspect.getfile(call)))
    search.use(call.__module__, call.__qualname__.partition(".")[0])
    hashed = hashlib.sha256()
    for module, name in sorted(search.used):
        hashed.update(f"{module} {name} {search.used[module, name]}\n".encode())
    for package in sorted(search.packages):
        hashed.update(package_code(root, package).encode())
    for pattern in _DATA:
        for path in sorted(root.glob(pattern)):
            hashed.update(path.read_bytes())
    modules = {module for module, _ in search.used} | search.packages
    return Reached(hashed.hexdigest(), frozenset(modules))


@functools.cache
def package_code(root: Path, package: str) -> str:
    """Return a fingerprint of a package without its command line."""
    hashed = hashlib.sha256()
    for path in sorted((root / package).rglob("*.py")):
        if path.name not in _NOT_IN_RESULTS:
            hashed.update(f"{path.relative_to(root)} {ast.dump(_parsed(path))}".encode())
    return hashed.hexdigest()


class _Target(NamedTuple):
    """What an imported name stands for: a module, or a name of a module."""

    module: str
    name: str | None


@dataclass
class _Module:
    """The top level of a file: statements by the names they define, imports, and the rest."""

    definitions: dict[str, list[ast.stmt]] = field(default_factory=dict)
    imports: dict[str, _Target] = field(default_factory=dict)
    rest: list[ast.stmt] = field(default_factory=list)


class _Search:
    """What is used so far, from one function on."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.used: dict[tuple[str, str], str] = {}
        self.packages: set[str] = set()
        self._modules: dict[str, _Module] = {}

    def add_file(self, module: str, path: Path) -> _Module:
        """Read the file of a module."""
        if module not in self._modules:
            self._modules[module] = self._read(module, path)
        return self._modules[module]

    def use(self, module: str, name: str) -> None:
        """Follow a name of a module."""
        if (module, name) in self.used:
            return
        path = self.path(module)
        if path is None and module not in self._modules:
            return
        known = self._modules[module] if path is None else self.add_file(module, path)
        if name in known.imports:
            self._follow(known.imports[name])
            return
        statements = known.definitions.get(name, [])
        self.used[module, name] = "".join(map(ast.dump, [*statements, *known.rest]))
        for statement in [*statements, *known.rest]:
            self._scan(module, known, statement)

    def _use_all(self, module: str) -> None:
        path = self.path(module)
        if path is None or (module, "*") in self.used:
            return
        self.used[module, "*"] = ""
        known = self.add_file(module, path)
        for name in [*known.definitions, *known.imports]:
            self.use(module, name)

    def _follow(self, target: _Target) -> None:
        package = target.module.partition(".")[0]
        if package in WHOLE:
            self.packages |= set(WHOLE[: WHOLE.index(package) + 1])
        elif package == FOLLOWED:
            if target.name is None or target.name == "*":
                self._use_all(target.module)
            else:
                self.use(target.module, target.name)
        elif target in (_Target("importlib", "import_module"), _Target("importlib", None)):
            for path in sorted((self.root / FOLLOWED).rglob("*.py")):  # any of them may be loaded
                parts = path.relative_to(self.root).with_suffix("").parts
                self._use_all(".".join(parts).removesuffix(".__init__"))

    def _scan(self, module: str, known: _Module, node: ast.AST) -> None:
        """Follow all names in a statement."""
        names = dict(known.imports)
        for inner in ast.walk(node):
            if isinstance(inner, ast.Import | ast.ImportFrom):
                for name, target in self._targets(module, inner):
                    names[name] = target
                    if self.path(target.module) is None or target.name == "*":
                        self._follow(target)
        bare = _bare(node)
        for inner in ast.walk(node):
            if isinstance(inner, ast.Attribute):
                resolved = self._resolved(inner, names)
                if resolved is not None:
                    self._follow(resolved)
            elif isinstance(inner, ast.Name):
                if inner.id in names:
                    if names[inner.id].name is not None or inner.id in bare:
                        self._follow(names[inner.id])
                elif inner.id in known.definitions:
                    self.use(module, inner.id)

    def _resolved(self, node: ast.expr, names: dict[str, _Target]) -> _Target | None:
        """Return what ``a.b.c`` stands for, if ``a`` is an imported module."""
        if isinstance(node, ast.Name):
            return names.get(node.id)
        if not isinstance(node, ast.Attribute):
            return None
        base = self._resolved(node.value, names)
        if base is None or base.name is not None:
            return None
        return self._target(base.module, node.attr)

    def _target(self, module: str, name: str) -> _Target:
        """Return what ``from module import name`` gives."""
        inside = f"{module}.{name}"
        if self.path(inside) is not None:
            return _Target(inside, None)
        return _Target(module, name)

    def _targets(
        self, module: str, node: ast.Import | ast.ImportFrom
    ) -> Iterator[tuple[str, _Target]]:
        if isinstance(node, ast.Import):
            for alias in node.names:
                whole = alias.name if alias.asname else alias.name.partition(".")[0]
                yield alias.asname or whole, _Target(whole, None)
        elif node.module is not None and not node.level:
            for alias in node.names:
                yield alias.asname or alias.name, self._target(node.module, alias.name)

    def path(self, module: str) -> Path | None:
        """Return the file of a module of the followed package."""
        if module.partition(".")[0] != FOLLOWED:
            return None
        base = self.root.joinpath(*module.split("."))
        paths = (base.with_suffix(".py"), base / "__init__.py")
        return next((path for path in paths if path.is_file()), None)

    def _read(self, module: str, path: Path) -> _Module:
        found = _Module()
        for statement in _parsed(path).body:
            if isinstance(statement, ast.Import | ast.ImportFrom):
                found.imports |= dict(self._targets(module, statement))
                continue
            names = list(_defined(statement))
            for name in names:
                found.definitions.setdefault(name, []).append(statement)
            if not names:
                found.rest.append(statement)
        return found


def _defined(statement: ast.stmt) -> Iterator[str]:
    """Yield the names that a statement defines at the top level of a module."""
    if isinstance(statement, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
        yield statement.name
    elif isinstance(statement, ast.Assign | ast.AnnAssign | ast.AugAssign):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        for target in targets:
            yield from (each.id for each in ast.walk(target) if isinstance(each, ast.Name))


def _bare(node: ast.AST) -> set[str]:
    """Return names that occur by themselves, not as ``name.attribute``."""
    inside = {
        id(each.value)
        for each in ast.walk(node)
        if isinstance(each, ast.Attribute) and isinstance(each.value, ast.Name)
    }
    return {e.id for e in ast.walk(node) if isinstance(e, ast.Name) and id(e) not in inside}


def _parsed(path: Path) -> ast.Module:
    """Return the syntax tree of a file without docstrings and annotations of functions."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            node.body = [each for each in body if not _is_text(each)]  # type: ignore[attr-defined]
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            node.returns = None
        elif isinstance(node, ast.arg):
            node.annotation = None
    return tree


def _is_text(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )
