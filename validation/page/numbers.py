"""One format of numbers: the digits of a column line up, and no number has more than it needs.

A column of numbers has one number of decimals, chosen so that its largest number has four
significant digits and its typical small one at least two. Where that takes too many digits, the
whole column is in scientific notation.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any

MINUS = "\N{MINUS SIGN}"
NOTHING = "\N{EN DASH}"
_TIMES = "\N{MULTIPLICATION SIGN}"
_FIGURE_SPACE = "\N{FIGURE SPACE}"
_NO_BREAK = "\N{NO-BREAK SPACE}"
_MOST_DECIMALS = 5
_MOST_DIGITS = 7
_COMMAS_FROM = 10_000


def is_number(value: Any) -> bool:
    """Return whether a cell is a number: NaN is, a truth value is not."""
    return isinstance(value, Real) and not isinstance(value, bool)


def format_column(values: Sequence[Any]) -> list[str]:
    """Return the cells of a column as HTML; texts are returned as they are.

    Examples
    --------
    >>> format_column([98.3333, 7.5])
    ['98.33', '7.50']
    >>> format_column([3, 25000])
    ['3', '25,000']
    """
    numbers = [value for value in values if is_number(value) and math.isfinite(value)]
    if all(isinstance(value, Integral) for value in numbers):
        return [_cell(value, lambda v: _whole(v, numbers)) for value in values]
    decimals = _decimals([float(value) for value in numbers])
    if decimals is None:
        return _scientific_column(values)
    signed = any(value < 0 for value in numbers)
    comma = "," if max(map(abs, numbers)) >= _COMMAS_FROM else ""
    return [_cell(value, lambda v: _fixed(float(v), decimals, signed, comma)) for value in values]


def format_number(value: Any) -> str:
    """Return one number that stands alone."""
    return format_column([value])[0]


def tidy(text: str) -> str:
    """Return a text, already escaped, whose numbers look like those of tables.

    Hyphens for minus become minus signs, exponents of ten are raised, and lines do not break
    within "20 %", "1 ± 2" and "N = 16".
    """
    text = re.sub(r"(?<![\w.])(\d+(?:\.\d+)?)e([+-]?)0*(\d+)\b", _power, tidy_signs(text))
    text = re.sub(r"(?<=[\w)])\^([\w.\N{MINUS SIGN}]*\w)", r"<sup>\1</sup>", text)
    text = re.sub(r"(?<=\d) %", f"{_NO_BREAK}%", text)
    text = re.sub(r"(?<=[\d%]) ?± ?(?=\d)", f"{_NO_BREAK}±{_NO_BREAK}", text)
    return re.sub(r"(?<=\b[^\W\d]) (=|&[lg]t;) (?=\S)", rf"{_NO_BREAK}\1{_NO_BREAK}", text)


def tidy_signs(text: str) -> str:
    """Return a text with minus signs where hyphens stand for them."""
    text = re.sub(r"(?:(?<=\d)|(?<=\b\w)) - (?=\w)", f" {MINUS} ", text)
    return re.sub(r"(?<![\w.)\]-])-(?=\.?\d|log\b)", MINUS, text)


def _power(match: re.Match[str]) -> str:
    mantissa, sign, exponent = match.groups()
    if float(mantissa) == 0:
        return "0"
    if exponent == "0":
        return mantissa
    return f"{mantissa}{_TIMES}10<sup>{MINUS if sign == '-' else ''}{exponent}</sup>"


def _cell(value: Any, number: Any) -> str:
    if value is None or (is_number(value) and math.isnan(value)):
        return NOTHING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not is_number(value):
        return str(value)
    if math.isinf(value):
        return f"{MINUS}\N{INFINITY}" if value < 0 else "\N{INFINITY}"
    return str(number(value)).replace("-", MINUS)


def _whole(value: Any, column: Sequence[Any]) -> str:
    return f"{int(value):,}" if max(map(abs, column)) >= _COMMAS_FROM else f"{int(value)}"


def _decimals(numbers: Sequence[float]) -> int | None:
    """Return how many decimals a column has; None for scientific notation."""
    sizes = sorted(abs(value) for value in numbers if value != 0)
    if not sizes:
        return 0
    # Differences are small by nature: half of them may show fewer digits, but one in ten of others.
    small = sizes[len(sizes) // 2 if min(numbers) < 0 else len(sizes) // 10]
    largest, smallest = (math.floor(math.log10(size)) for size in (sizes[-1], small))
    given = max(_decimals_of(value) for value in numbers)
    decimals = min(max(3 - largest, 0), max(2 - largest, _MOST_DECIMALS))
    decimals = max(decimals, 1 - smallest)
    if given < decimals:
        decimals = int(given)
    if decimals > _MOST_DECIMALS or largest + 1 + decimals > _MOST_DIGITS:
        return None
    return decimals


def _decimals_of(value: float) -> float:
    """Return the decimals of a number's shortest text; infinitely many if it has an exponent."""
    text = f"{value:.10g}"
    return math.inf if "e" in text else len(text.partition(".")[2])


def _fixed(value: float, decimals: int, signed: bool, comma: str) -> str:
    text = f"{value:{comma}.{decimals}f}"
    if float(text.replace(",", "")) == 0:
        if value and not signed:
            return _scientific(value, 1)
        return text.removeprefix("-")
    return text


def _scientific_column(values: Sequence[Any]) -> list[str]:
    given = max(
        len(f"{float(value):.10e}".partition("e")[0].rstrip("0")) - 2 - (value < 0)
        for value in values
        if is_number(value) and math.isfinite(value)
    )
    exponents = [
        len(_exponent(float(value)))
        for value in values
        if is_number(value) and math.isfinite(value) and value
    ]
    width = max(exponents, default=0)
    return [_cell(value, lambda v: _scientific(float(v), min(given, 2), width)) for value in values]


def _scientific(value: float, decimals: int, width: int = 0) -> str:
    """Return a number as mantissa and power of ten, the power filled up to a width."""
    if value == 0:
        return "0"
    mantissa = f"{value:.{decimals}e}".partition("e")[0]
    exponent = _exponent(float(f"{value:.{decimals}e}"))
    return f"{mantissa}{_TIMES}10<sup>{exponent:{_FIGURE_SPACE}<{width}}</sup>"


def _exponent(value: float) -> str:
    return str(int(f"{value:e}".partition("e")[2]))
