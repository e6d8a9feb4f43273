"""Tables as text."""

from collections.abc import Sequence


def align_columns(lines: Sequence[Sequence[str]]) -> list[str]:
    """Return lines of columns: numbers to the right below their heads, and names to the left."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    left = [all(not _is_figure(line[k]) for line in lines) for k in range(len(widths))]
    aligned = []
    for line in lines:
        cells = zip(line, widths, left, strict=True)
        text = "  ".join(f"{c:<{w}}" if name else f"{c:>{w}}" for c, w, name in cells)
        aligned.append(text.rstrip())
    return aligned


def _is_figure(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
