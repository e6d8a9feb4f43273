"""Results as a person reads them, in aligned columns, and as a program does, in JSON."""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from mvnorth._columns import align_columns
from mvnorth._quantile_result import QuantileResult
from mvnorth._result import OrthantResult
from mvnorth._status import Status


def print_json(value: dict[str, Any]) -> None:
    """Print one line of strict JSON."""
    print(json.dumps(_plain(value), allow_nan=False))


def _plain(value: Any) -> Any:
    """Return lists and numbers of Python; JSON has no infinities, which become strings."""
    if isinstance(value, dict):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(entry) for entry in value]
    if isinstance(value, (np.ndarray, np.generic)):
        return _plain(value.tolist())
    if isinstance(value, float) and value in (np.inf, -np.inf):
        return "Infinity" if value > 0 else "-Infinity"
    return value


def result_rows(result: OrthantResult, names: Sequence[str] | None) -> list[dict[str, Any]]:
    """Return a record for each problem, in the order of the input; rows have names or numbers."""
    keys = ("prob", "log_prob", "error", "rel_error", "log_bound", "n", "method")
    columns = {key: np.atleast_1d(getattr(result, key)) for key in keys}
    slopes: dict[str, np.ndarray] = {}
    for key, value in vars(result).items():
        if key.startswith("grad_") and value is not None:
            slopes[key.removeprefix("grad_")] = value if np.ndim(result.prob) else value[None]
    rows = []
    for k, status in enumerate(np.atleast_1d(result.status)):
        row: dict[str, Any] = {"row": names[k] if names else k + 1}
        row |= {key: column[k] for key, column in columns.items()}
        row["status"] = Status(int(status)).name.lower()
        if slopes:
            row["grad"] = {key: value[k] for key, value in slopes.items()}
        rows.append(row)
    return rows


def print_box(event: str, rows: Sequence[dict[str, Any]], log: bool) -> None:
    """Print one problem line by line, several in a table; derivatives below."""
    if len(rows) == 1:
        (row,) = rows
        print(f"event           {event}")
        if not log:
            print(f"probability     {row['prob']:.10g} +- {row['error']:.1e}")
        print(f"log             {row['log_prob']:.10g}")
        print(f"relative error  {row['rel_error']:.1e}")
        print(f"method          {row['method']}" + f", {row['n']} points" * bool(row["n"]))
        print(f"status          {row['status']}")
    else:
        print(event)
        value, error = ("log_prob", "rel_error") if log else ("prob", "error")
        lines = [("row", value, error, "n", "method", "status")]
        for row in rows:
            method = row["method"].replace(", ", "+") or "-"
            figures = (f"{row[value]:.10g}", f"{row[error]:.1e}", str(row["n"]))
            lines.append((str(row["row"]), *figures, method, row["status"]))
        _print_columns(lines)
    if "grad" in rows[0]:
        print(f"\nderivatives of the {'logarithm' if log else 'probability'}")
        _print_columns(_slope_lines(rows))


def _slope_lines(rows: Sequence[dict[str, Any]]) -> list[Sequence[str]]:
    lines: list[Sequence[str]] = [("row", "in", "derivative", "error")]
    for row in rows:
        for name in (key for key in row["grad"] if not key.endswith("_error")):
            value, error = row["grad"][name], row["grad"][f"{name}_error"]
            for index in np.ndindex(value.shape):
                if list(index) == sorted(index, reverse=True):  # a covariance is symmetric
                    entry = f"{name}[{','.join(str(i + 1) for i in index)}]"
                    figures = (f"{value[index]:.10g}", f"{error[index]:.1e}")
                    lines.append((str(row["row"]), entry, *figures))
    return lines


def score_rows(
    prob: np.ndarray, loss: np.ndarray | None, rows: Sequence[str] | None
) -> list[dict[str, Any]]:
    """Return a record for each row of scores, with expected losses if there are any."""
    columns = {"prob": prob} if loss is None else {"prob": prob, "loss": loss}
    tables = {key: np.atleast_2d(table) for key, table in columns.items()}
    names = rows or range(1, len(tables["prob"]) + 1)
    return [
        {"row": name, **{key: table[b] for key, table in tables.items()}}
        for b, name in enumerate(names)
    ]


def print_scores(
    title: str,
    prob: np.ndarray,
    loss: np.ndarray | None,
    rows: Sequence[str] | None,
    classes: Sequence[str],
) -> None:
    """Print a line for each class if there is one row, else a line for each row.

    Expected losses are a second column, or a second table.
    """
    print(title)
    if prob.ndim == 1:
        columns = [["class", *classes], ["prob", *(f"{p:.8f}" for p in prob)]]
        if loss is not None:
            columns.append(["expected loss", *(f"{value:.8g}" for value in loss)])
        _print_columns(list(zip(*columns, strict=True)))
        return
    names = rows or [str(k + 1) for k in range(len(prob))]
    _print_table(names, classes, [[f"{p:.8f}" for p in row] for row in prob])
    if loss is not None:
        print("\nexpected loss of choosing it")
        _print_table(names, classes, [[f"{value:.8g}" for value in row] for row in loss])


def _print_table(
    names: Sequence[str], classes: Sequence[str], cells: Sequence[Sequence[str]]
) -> None:
    lines = [[name, *row] for name, row in zip(names, cells, strict=True)]
    _print_columns([("row", *classes), *lines])


def quantile_rows(
    result: QuantileResult, p: np.ndarray, names: Sequence[str] | None
) -> list[dict[str, Any]]:
    """Return a record for each problem; rows have the names of the means, or numbers."""
    size = np.size(result.quantile)
    labels = names if names and len(names) == size > 1 else range(1, size + 1)
    keys = ("quantile", "error", "n", "method", "status")
    columns = (np.atleast_1d(getattr(result, key)) for key in keys)
    rows = []
    for label, level, *figures in zip(labels, np.broadcast_to(p, (size,)), *columns, strict=True):
        row = {"row": label, "p": level, **dict(zip(keys, figures, strict=True))}
        rows.append(row | {"status": Status(int(row["status"])).name.lower()})
    return rows


def print_quantiles(title: str, rows: Sequence[dict[str, Any]]) -> None:
    """Print one problem line by line, several in a table."""
    if len(rows) == 1:
        (row,) = rows
        print(f"event     {title}")
        print(f"p         {row['p']:.10g}")
        print(f"quantile  {row['quantile']:.10g} +- {row['error']:.1e}")
        print(f"method    {row['method']}" + f", {row['n']} points" * bool(row["n"]))
        print(f"status    {row['status']}")
        return
    print(title)
    lines = [("row", "p", "quantile", "error", "n", "method", "status")]
    for row in rows:
        figures = (f"{row['p']:.10g}", f"{row['quantile']:.10g}", f"{row['error']:.1e}")
        lines.append((str(row["row"]), *figures, str(row["n"]), row["method"], row["status"]))
    _print_columns(lines)


def print_environment(found: dict[str, Any], cuda: str) -> None:
    packages = found["packages"].items()
    cache = found["cache"]
    count = f"{cache['kernels']} compiled kernels, {cache['bytes'] / 2**20:.1f} MiB"
    lines = [
        ("mvnorth", f"{found['mvnorth']} in {found['folder']}"),
        ("python", f"{found['python']} on {found['platform']}"),
        *((name, version or "not installed") for name, version in packages),
        ("threads", f"{found['threads']} (from {found['threads_from']})"),
        ("cache", count if cache["kernels"] else "no kernel is compiled yet; a first use does it"),
        *(("", folder) for folder in cache["folders"]),
    ]
    for name, text in lines:
        print(f"{name:<15} {text}")
    print(cuda)


def _print_columns(lines: Sequence[Sequence[str]]) -> None:
    print("\n".join(align_columns(lines)))
