"""The command line of the reports: argument parsing and printing only."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from validation import reports
from validation.progress import describe_seconds

_ONE_THREAD = ("MVNORTH_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point of ``python -m validation``; returns the exit code.

    0 if all checks hold, 1 if one does not or a task failed, 2 for wrong arguments, 130 if it was
    interrupted.
    """
    options = _parser().parse_args(arguments)
    os.environ.update(dict.fromkeys(_ONE_THREAD, "1"))  # libraries read it when they are imported
    if options.data_dir is not None:
        os.environ["EXACT_TORCH_DATA"] = str(options.data_dir.resolve())
    try:
        if options.download:
            _download()
        return _run(options)
    except KeyboardInterrupt:
        print("validation: interrupted; run the same command to resume", file=sys.stderr)
        return 130
    except (ValueError, OSError, ImportError, RuntimeError) as error:
        print(f"validation: {error}", file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m validation",
        description="Measure mvnorth and exact_torch, compare them with other software and with "
        "published results, and write a page with all findings.",
        epilog="Results are stored as they are computed: after an interruption, run the same "
        "command to resume. The exit code is 0 if all checks hold and 1 if one does not.",
    )
    parser.add_argument(
        "reports",
        nargs="*",
        metavar="report",
        type=_report,
        help=f"reports to run: {', '.join(reports.REPORTS)} (default: all)",
    )
    scale = parser.add_mutually_exclusive_group()
    scale.add_argument(
        "--full",
        dest="scale",
        action="store_const",
        const="full",
        help=f"run the experiments at full size ({_hours('full')}; the default takes "
        f"{_hours('quick')})",
    )
    scale.add_argument(
        "--small",
        dest="scale",
        action="store_const",
        const="small",
        help="run tiny experiments, to test the reports themselves",
    )
    parser.set_defaults(scale="quick")
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("validation-report"),
        metavar="FOLDER",
        help="folder for the page and the stored results (default: %(default)s)",
    )
    parser.add_argument(
        "--only", metavar="TEXT", default="", help="run only tasks whose name contains TEXT"
    )
    parser.add_argument(
        "--jobs",
        type=_count,
        default=_cores(),
        metavar="N",
        help="number of processes (default: %(default)s, one for each core)",
    )
    parser.add_argument(
        "--dask", metavar="ADDRESS", help="run tasks on the Dask cluster with this scheduler"
    )
    parser.add_argument(
        "--data-dir", type=Path, metavar="FOLDER", help="folder with MNIST, CIFAR-10 and UCI files"
    )
    parser.add_argument("--download", action="store_true", help="download MNIST and CIFAR-10 first")
    known = parser.add_mutually_exclusive_group()
    known.add_argument(
        "--page", action="store_true", help="compute nothing: write the page from stored results"
    )
    known.add_argument(
        "--fresh", action="store_true", help="ignore stored results and compute all of them again"
    )
    return parser


def _report(text: str) -> str:
    if text not in reports.REPORTS:
        raise argparse.ArgumentTypeError(f"{text!r} is none of {', '.join(reports.REPORTS)}")
    return text


def _hours(scale: str) -> str:
    """Return how long all reports take on two cores, in words."""
    minutes = sum(entry.minutes[scale] for entry in reports.REPORTS.values()) / 2
    return f"about {describe_seconds(60 * minutes)} on two cores"


def _cores() -> int:
    """Return the number of cores that this process may use, where the system knows it."""
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
    sections = assemble.sections(
        names,
        options.scale,
        options.out / "tasks",
        jobs=options.jobs,
        dask=options.dask,
        compute=not options.page,
        fresh=options.fresh,
        only=options.only,
    )
    name = "index" if names == tuple(reports.REPORTS) else "-".join(names)
    page = assemble.write(sections, options.scale, options.out, name)
    flagged = assemble.flagged(sections)
    for check in flagged:
        print(f"check failed: {check.claim} {check.found}")
    print(f"Wrote {page}")
    return 1 if flagged else 0
