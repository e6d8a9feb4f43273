"""The code that a function depends on, found by reading the files of the repository.

Results of a task are kept as long as this code is the same. Inside ``validation`` it is followed by
name, from a function to the functions, classes and constants that it uses, so that another wording
of a page keeps all results; of ``mvnorth`` and ``exact_torch`` it is the whole package.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

WHOLE = ("mvnorth", "exact_torch")  # packages that count as a whole; the second uses the first
FOLLOWED = "validation"
_DATA = ("mvnorth/_tables/*.npy", "validation/reference/*.json", "validation/reference/*.npz")
_NOT_IN_RESULTS = ("cli.py", "_command_options.py", "__main__.py")


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


class Reader:
    """Reads the files of the packages in a folder once, and says what their functions reach."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._modules: dict[str, _Module | None] = {}
        self._uses: dict[_Target, _Use] = {}
        self._packages: dict[str, str] = {}
        paths = [path for pattern in _DATA for path in sorted(root.glob(pattern))]
        self._data = b"".join(map(Path.read_bytes, paths))

    def reached(self, call: Callable[..., Any]) -> Reached:
        """Return what a function of a module depends on."""
        module = call.__module__
        if self._module(module) is None:
            self._modules[module] = self._read(module, Path(inspect.getfile(call)))
        waiting = [_Target(module, call.__qualname__.partition(".")[0])]
        used: dict[_Target, _Use] = {}
        packages: set[str] = set()
        while waiting:
            target = waiting.pop()
            package = target.module.partition(".")[0]
            if package in WHOLE:
                packages |= set(WHOLE[: WHOLE.index(package) + 1])
            elif target not in used:
                used[target] = self._use(target)
                waiting += used[target].targets
        codes = {(each.module, each.name or "*"): use.code for each, use in used.items()}
        hashed = hashlib.sha256()
        for (name, part), code in sorted(codes.items()):
            if code is not None:
                hashed.update(f"{name} {part} {code}\n".encode())
        for package in sorted(packages):
            hashed.update(self._package(package).encode())
        hashed.update(self._data)
        modules = {name for (name, _), code in codes.items() if code is not None}
        return Reached(hashed.hexdigest(), frozenset(modules | packages))

    def _package(self, package: str) -> str:
        """Return a fingerprint of a package without its command line."""
        if package not in self._packages:
            hashed = hashlib.sha256()
            for path in sorted((self.root / package).rglob("*.py")):
                if path.name not in _NOT_IN_RESULTS:
                    name = path.relative_to(self.root)
                    hashed.update(f"{name} {ast.dump(_parsed(path))}".encode())
            self._packages[package] = hashed.hexdigest()
        return self._packages[package]

    def _use(self, target: _Target) -> _Use:
        """Return the code of a name and what it refers to."""
        if target not in self._uses:
            self._uses[target] = self._find(target)
        return self._uses[target]

    def _find(self, target: _Target) -> _Use:
        if target in (_Target("importlib", "import_module"), _Target("importlib", None)):
            return _Use(None, [_Target(name, None) for name in self._all_modules()])
        known = self._module(target.module)
        if known is None:
            return _Use(None, [])
        if target.name is None or target.name == "*":
            names = [*known.definitions, *known.imports]
            return _Use("", [_Target(target.module, name) for name in names])
        if target.name in known.imports:
            return _Use(None, [known.imports[target.name]])
        statements = [*known.definitions.get(target.name, []), *known.rest]
        code = "".join(map(ast.dump, statements))
        targets = [each for one in statements for each in self._scan(target.module, known, one)]
        return _Use(code, targets)

    def _all_modules(self) -> Iterator[str]:
        """Yield the names of the modules of the followed package: any of them may be loaded."""
        for path in sorted((self.root / FOLLOWED).rglob("*.py")):
            name = ".".join(path.relative_to(self.root).with_suffix("").parts)
            yield name.removesuffix(".__init__")

    def _scan(self, module: str, known: _Module, node: ast.AST) -> Iterator[_Target]:
        """Yield what the names in a statement stand for."""
        names = dict(known.imports)
        nodes = list(ast.walk(node))
        for inner in nodes:
            if isinstance(inner, ast.Import | ast.ImportFrom):
                for name, target in self._targets(module, inner):
                    names[name] = target
                    if self._module(target.module) is None or target.name == "*":
                        yield target
        owners = {id(each.value) for each in nodes if isinstance(each, ast.Attribute)}
        for inner in nodes:
            if isinstance(inner, ast.Attribute):
                resolved = self._resolved(inner, names)
                if resolved is not None:
                    yield resolved
            elif isinstance(inner, ast.Name):
                if inner.id in names:
                    target = names[inner.id]
                    if target.name is not None or id(inner) not in owners:
                        yield target
                elif inner.id in known.definitions:
                    yield _Target(module, inner.id)

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
        if self._module(inside) is not None:
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

    def _module(self, module: str) -> _Module | None:
        """Return the top level of a module of the followed package; None for others."""
        if module not in self._modules:
            self._modules[module] = None
            if module.partition(".")[0] == FOLLOWED:
                base = self.root.joinpath(*module.split("."))
                paths = (base.with_suffix(".py"), base / "__init__.py")
                path = next((path for path in paths if path.is_file()), None)
                if path is not None:
                    self._modules[module] = _Module()  # modules may import each other
                    self._modules[module] = self._read(module, path)
        return self._modules[module]

    def _read(self, module: str, path: Path) -> _Module:
        read = _Module()
        for statement in _parsed(path).body:
            if isinstance(statement, ast.Import | ast.ImportFrom):
                read.imports |= dict(self._targets(module, statement))
                continue
            names = list(_defined(statement))
            for name in names:
                read.definitions.setdefault(name, []).append(statement)
            if not names:
                read.rest.append(statement)
        return read


class _Target(NamedTuple):
    """What an imported name stands for: a module, or a name of a module."""

    module: str
    name: str | None


class _Use(NamedTuple):
    """The code of a name, None if it is imported or unknown, and what it refers to."""

    code: str | None
    targets: list[_Target]


@dataclass
class _Module:
    """The top level of a file: statements by the names they define, imports, and the rest."""

    definitions: dict[str, list[ast.stmt]] = field(default_factory=dict)
    imports: dict[str, _Target] = field(default_factory=dict)
    rest: list[ast.stmt] = field(default_factory=list)


def _defined(statement: ast.stmt) -> Iterator[str]:
    """Yield the names that a statement defines at the top level of a module."""
    if isinstance(statement, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
        yield statement.name
    elif isinstance(statement, ast.Assign | ast.AnnAssign | ast.AugAssign):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        for target in targets:
            yield from (each.id for each in ast.walk(target) if isinstance(each, ast.Name))


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
