"""The command line of the reports: argument parsing and printing only."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from validation import reports

_ONE_THREAD = ("MVNORTH_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point of ``python -m validation``; returns the exit code.

    0 if all checks hold, 1 if one does not or a task failed, 2 if what was asked for makes no
    sense, 130 if it was interrupted.
    """
    options = _parser().parse_args(arguments)
    os.environ.update(dict.fromkeys(_ONE_THREAD, "1"))  # libraries read it when they are loaded
    if options.data_dir is not None:
        os.environ["EXACT_TORCH_DATA"] = str(options.data_dir.resolve())
    try:
        if options.download:
            _download()
        return _run(options)
    except KeyboardInterrupt:
        print("validation: interrupted; the same command goes on", file=sys.stderr)
        return 130
    except (ValueError, OSError, ImportError, RuntimeError) as error:
        print(f"validation: {error}", file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m validation",
        description="Reports on what mvnorth and exact_torch compute, beside what others do.",
    )
    parser.add_argument(
        "reports",
        nargs="*",
        metavar="report",
        type=_report,
        help=f"which ones: {', '.join(reports.REPORTS)}; all of them if none is named",
    )
    scale = parser.add_mutually_exclusive_group()
    scale.add_argument(
        "--full", dest="scale", action="store_const", const="full", help="two or three hours"
    )
    scale.add_argument(
        "--small", dest="scale", action="store_const", const="small", help="to test the reports"
    )
    parser.set_defaults(scale="quick")
    parser.add_argument(
        "--out", type=Path, default=Path("validation-report"), help="folder of the page"
    )
    parser.add_argument(
        "--only", metavar="TEXT", default="", help="compute only tasks whose name contains TEXT"
    )
    parser.add_argument("--jobs", type=_count, default=_cores(), help="processes")
    parser.add_argument("--dask", metavar="ADDRESS", help="scheduler of a Dask cluster")
    parser.add_argument("--data-dir", type=Path, help="folder of MNIST, CIFAR-10 and UCI files")
    parser.add_argument("--download", action="store_true", help="download MNIST and CIFAR-10 first")
    known = parser.add_mutually_exclusive_group()
    known.add_argument(
        "--page", action="store_true", help="compute nothing: the page of what is there"
    )
    known.add_argument(
        "--fresh", action="store_true", help="compute again what was computed before"
    )
    return parser


def _report(text: str) -> str:
    if text not in reports.REPORTS:
        raise argparse.ArgumentTypeError(f"{text!r} is none of {', '.join(reports.REPORTS)}")
    return text


def _cores() -> int:
    """Those that this process may use, where the system tells."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a positive number, got {text!r}")
    return int(text)


def _download() -> None:
    from exact_torch import data

    for name in ("mnist", "cifar10"):  # the UCI sets have no published checksum
        data.load(name)


def _run(options: argparse.Namespace) -> int:
    from validation import assemble  # after the number of threads is set

    names = tuple(name for name in reports.REPORTS if name in options.reports) or tuple(
        reports.REPORTS
    )
    began = time.monotonic()

    def progress(done: int, total: int, name: str, seconds: float, failed: bool) -> None:
        minutes, rest = divmod(int(time.monotonic() - began), 60)
        told = "FAILED" if failed else f"{seconds:.1f} s"
        print(f"[{done}/{total}, {minutes}:{rest:02d}] {name}, {told}", file=sys.stderr, flush=True)

    sections = assemble.sections(
        names,
        options.scale,
        options.out / "tasks",
        jobs=options.jobs,
        dask=options.dask,
        compute=not options.page,
        fresh=options.fresh,
        only=options.only,
        progress=progress,
    )
    name = "index" if names == tuple(reports.REPORTS) else "-".join(names)
    page = assemble.write(sections, options.scale, options.out, name)
    flagged = assemble.flagged(sections)
    for check in flagged:
        print(f"does not hold: {check.claim} {check.found}")
    print(f"{page} ({time.monotonic() - began:.0f} s)")
    return 1 if flagged else 0
