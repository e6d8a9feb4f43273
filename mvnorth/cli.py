"""The command line: argument parsing and printing only."""

import argparse
import logging
import os
import re
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

import mvnorth
from mvnorth._contrasts import KINDS
from mvnorth._fit_tables import box_arguments, quantile_arguments, score_arguments
from mvnorth._max_t import ALTERNATIVES
from mvnorth._methods import derivative_methods, value_methods
from mvnorth._print_results import (
    print_box,
    print_environment,
    print_json,
    print_quantiles,
    print_scores,
    quantile_rows,
    result_rows,
)
from mvnorth._quantile import TAILS
from mvnorth._read_numbers import InputError, read_groups, read_table, written_out
from mvnorth._warmup import GROUPS

__all__ = ["main"]

_DF = "degrees of freedom of Student's t; default: normal"

_CODES = """exit codes:
  0    done, as accurate as was asked for
  1    done, but a result is less accurate than was asked for
  2    wrong input, or a file that cannot be read or written; the reason is on standard error
  130  interrupted"""

_NUMBERS = """\
Where NUMBERS are expected, give a file, "-" for standard input, or the numbers themselves: 0 or
"0,1,inf", with ";" between rows. A file is NPY, or text with columns apart by commas, semicolons
(then a comma is a decimal one), tabs or spaces; names of columns in the first line and of rows in
the first column are recognised, and lines that start with # are skipped."""

_PROB = f"""\
Probability that X ~ N(mean, cov) lies within limits, with an error bound at about 99 % confidence.
With --df X has Student's t distribution, with the scale matrix cov.

  neither --lower nor --upper   Pr(X >= 0), the orthant
  only --upper                  Pr(X <= upper), the distribution function
  only --lower                  Pr(X >= lower)
  both                          Pr(lower <= X <= upper)

{_NUMBERS}
One number stands for all coordinates; a column is a vector as a row is; several rows are several
problems with one covariance."""

_ARGMAX = f"""\
Probability of each of independent scores s_i ~ N(score_i, sigma_i^2) to be the largest, for every
row of a table (a table of one column is one row).

{_NUMBERS}"""

_QUANTILE = f"""\
The limit q that all coordinates of X ~ N(mean, cov) keep to with probability p, and its error.

  --tail lower   Pr(X_i <= q for all i) = p (the default)
  --tail upper   Pr(X_i > q for all i) = p
  --tail both    Pr(|X_i| <= q for all i) = p

{_NUMBERS}
Several probabilities, or several rows of --mean, are several problems with one covariance."""

_COMPARE = """\
Compare the means of groups: p-values adjusted for all comparisons, and simultaneous intervals. The
variance is estimated from all groups together.

  --kind dunnett    each group against the control (the default)
  --kind tukey      all pairs
  --kind sequence   each group against the one before

The table has a line for each observation with a column "group" and a column "value", or these two
first; "-" is standard input."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run ``mvnorth`` or ``python -m mvnorth``; return the exit code.

    0 if all went well, 1 if a result is less accurate than asked, 2 if the input is wrong, 130 if
    it was interrupted, 141 if nobody reads the output, 70 for a fault of this program.
    """
    try:
        try:
            return _run(list(sys.argv[1:] if arguments is None else arguments))
        finally:
            sys.stdout.flush()
    except BrokenPipeError:  # "| head" has seen enough; the code is that of programs which it ends
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except KeyboardInterrupt:
        print("mvnorth: interrupted", file=sys.stderr)
        return 130
    except InputError as error:
        print(f"mvnorth: {error}", file=sys.stderr)
    except OSError as error:
        print(f"mvnorth: {error.strerror or error}", file=sys.stderr)
    except MemoryError:
        print("mvnorth: there is not enough memory for this", file=sys.stderr)
    except Exception:  # Python's own code for this would be 1
        traceback.print_exc()
        return 70
    return 2


def _run(arguments: list[str]) -> int:
    options = _parser().parse_args([_shielded(word) for word in arguments])
    return options.run(options) or 0


def _shielded(word: str) -> str:
    """Put a space before numbers such as -1,1 and -inf, which argparse would take for options."""
    return f" {word}" if word.startswith("-") and written_out(word) is not None else word


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="mvnorth",
        description="Multivariate normal probabilities",
        epilog=f'"mvnorth COMMAND --help" describes a command.\n\n{_CODES}',
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"mvnorth {mvnorth.__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(name: str, run: Any, summary: str, description: str) -> argparse.ArgumentParser:
        added = commands.add_parser(
            name,
            help=summary,
            description=description,
            epilog=_CODES,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        added.set_defaults(run=run)
        return added

    prob = command("prob", _prob, "probability of a box or an orthant", _PROB)
    prob.add_argument("--mean", default="0", metavar="NUMBERS", help="default: 0")
    prob.add_argument("--cov", required=True, metavar="NUMBERS", help="covariance matrix")
    prob.add_argument("--lower", metavar="NUMBERS", help="lower limits")
    prob.add_argument("--upper", metavar="NUMBERS", help="upper limits")
    prob.add_argument("--df", type=float, help=_DF)
    prob.add_argument(
        "--complement",
        action="store_true",
        help="one minus the probability, with relative accuracy",
    )
    prob.add_argument("--rtol", type=float, help="relative error asked for; default: 1e-4")
    prob.add_argument("--atol", type=float, help="absolute error asked for; one of both is met")
    prob.add_argument("--n", type=_whole, help="number of points; default: what the error takes")
    prob.add_argument(
        "--method",
        default="auto",
        help=f"{', '.join(value_methods())} (default: auto); with --grad "
        f"{', '.join(derivative_methods())}",
    )
    prob.add_argument("--log", action="store_true", help="the logarithm, and its derivatives")
    prob.add_argument(
        "--grad",
        nargs="?",
        const="",
        metavar="IN",
        help='derivatives in "mean,lower,upper,cov" or some of them; default: mean and the limits '
        "given",
    )
    prob.add_argument("--seed", type=_whole, default=0, help="of the points; default: 0")
    _add_json(prob)

    argmax = command("argmax", _argmax, "which of several scores is the largest", _ARGMAX)
    argmax.add_argument("scores", metavar="SCORES", help="a row for each problem")
    argmax.add_argument(
        "--sigma",
        required=True,
        metavar="NUMBERS",
        help="standard deviations: one number, one for each class, a column with one for each row, "
        "or a table",
    )
    argmax.add_argument(
        "--topk", type=_whole, default=1, metavar="K", help="to be among the K largest; default: 1"
    )
    _add_json(argmax)

    quantile = command("quantile", _quantile, "limit with a given probability", _QUANTILE)
    quantile.add_argument("--p", required=True, metavar="NUMBERS", help="probabilities")
    quantile.add_argument("--cov", required=True, metavar="NUMBERS", help="covariance matrix")
    quantile.add_argument("--mean", default="0", metavar="NUMBERS", help="default: 0")
    quantile.add_argument("--tail", choices=TAILS, default="lower", help="default: lower")
    quantile.add_argument("--df", type=float, help=_DF)
    quantile.add_argument(
        "--complement",
        action="store_true",
        help="--p has probabilities of the complement, such as 1e-12",
    )
    quantile.add_argument("--rtol", type=float, help="relative error asked for; default: 1e-4")
    quantile.add_argument("--atol", type=float, help="absolute error asked for; one of both is met")
    quantile.add_argument("--seed", type=_whole, default=0, help="of the points; default: 0")
    _add_json(quantile)

    compare = command("compare", _compare, "compare the means of groups", _COMPARE)
    compare.add_argument("observations", metavar="FILE", help="a table of groups and values")
    compare.add_argument("--kind", choices=KINDS, default="dunnett", help="default: dunnett")
    compare.add_argument("--control", metavar="NAME", help="default: the first group of the file")
    compare.add_argument(
        "--alternative", choices=ALTERNATIVES, default="two-sided", help="default: two-sided"
    )
    compare.add_argument("--level", type=float, default=0.95, help="of intervals; default: 0.95")
    compare.add_argument("--group", metavar="NAME", help='column of groups; default: "group"')
    compare.add_argument("--value", metavar="NAME", help='column of values; default: "value"')
    compare.add_argument("--no-step-down", action="store_true", help="leave step-down p-values out")
    compare.add_argument("--rtol", type=float, help="relative error asked for; default: 1e-4")
    compare.add_argument("--seed", type=_whole, default=0, help="of the points; default: 0")
    _add_json(compare)

    text = "Versions, threads, devices, and where compiled kernels are kept."
    _add_json(command("info", _info, "versions, threads, devices, cache", text))
    groups = "\n".join(f"  {name:<11} {text}" for name, (_, text) in GROUPS.items())
    text = f"""\
Compile kernels now, so that no later run has to: of the groups given, or of all, which takes some
minutes. They are cached; "mvnorth info" says where.

{groups.replace("`", "")}"""
    warm = command("warmup", _warmup, "compile kernels before they are needed", text)
    warm.add_argument("groups", nargs="*", metavar="GROUP", help="default: all")
    text = "A few probabilities with errors and times, scipy's beside them."
    command("demo", _demo, "a few probabilities, with scipy's beside them", text)
    return parser


def _add_json(parser: argparse.ArgumentParser) -> None:
    text = 'one line of JSON; infinities are the strings "Infinity" and "-Infinity"'
    parser.add_argument("--json", action="store_true", help=text)


def _whole(text: str) -> int:
    """Return a whole number; 1e5 is one as well."""
    try:
        return int(text) if text.strip().lstrip("+-").isdecimal() else _exactly(float(text))
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(f"must be a whole number, got {text!r}") from None


def _exactly(number: float) -> int:
    if number != int(number):
        raise ValueError
    return int(number)


def _check_stdin(*sources: str | None) -> None:
    if sources.count("-") > 1:
        raise InputError('"-" (standard input) can be given once only')


def _say(text: object) -> None:
    print(f"mvnorth: {text}", file=sys.stderr)


class _Note(logging.Handler):
    """Prints what mvnorth logs to standard error."""

    def emit(self, record: logging.LogRecord) -> None:
        _say(record.getMessage())


@contextmanager
def _computing(names: dict[str, str]) -> Iterator[None]:
    """Name options in error messages, print warnings, and say on a terminal what takes long."""
    logger, note = logging.getLogger("mvnorth"), _Note(logging.INFO)
    if sys.stderr.isatty():
        logger.addHandler(note)
        logger.setLevel(logging.INFO)
    # A kernel at work would keep Python from acting on Ctrl-C: let the signal end the process.
    usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    ends = usual and threading.current_thread() is threading.main_thread()
    if ends:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        with warnings.catch_warnings():
            warnings.showwarning = lambda message, *_: _say(message)
            yield
    except (ValueError, TypeError) as error:
        first = re.match(r"\w*", str(error))
        word = first.group() if first else ""
        rest = str(error)[len(word) :].replace(" or None", "")
        raise InputError(names.get(word, word) + rest) from error
    finally:
        logger.removeHandler(note)
        if ends:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def _prob(options: argparse.Namespace) -> int:
    given = {name: getattr(options, name) for name in ("mean", "cov", "lower", "upper")}
    _check_stdin(*given.values())
    tables = {k: read_table(f"--{k}", v) for k, v in given.items() if v is not None}
    lower, upper = tables.get("lower"), tables.get("upper")
    arrays = box_arguments(tables["mean"], tables["cov"], lower, upper)
    options_of_box = ("n", "rtol", "atol", "method", "df", "complement", "seed")
    settings = {name: getattr(options, name) for name in options_of_box}
    names = {name: f"--{name}" for name in settings} | {"wrt": "--grad"}
    result: mvnorth.OrthantResult
    with _computing(names | {name: table.name for name, table in tables.items()}):
        if options.grad is None:
            result = mvnorth.box(*arrays, **settings)
        else:
            usual = ["mean", *(name for name in ("lower", "upper") if name in tables)]
            wrt = tuple(re.findall(r"[^,\s]+", options.grad) or usual)
            result = mvnorth.box_grad(*arrays, wrt=wrt, log=options.log, **settings)
    if lower is None:
        event = "X >= 0" if upper is None else "X <= upper"
    else:
        event = "X >= lower" if upper is None else "lower <= X <= upper"
    if options.complement:
        event = f"not {event}"
    d = arrays[-1].shape[-1]
    batches = (table for name, table in tables.items() if name != "cov")
    labels = [t.rows for t in batches if t.rows and len(t.rows) == np.size(result.prob) > 1]
    rows = result_rows(result, labels[0] if labels else None)
    if options.json:
        print_json({"event": event, "d": d, "log": options.log, "results": rows})
    else:
        print_box(f"Pr({event}), {d} coordinate{'s' * (d > 1)}", rows, options.log)
    return _warn_of_accuracy(rows)


def _warn_of_accuracy(rows: Sequence[dict[str, Any]]) -> int:
    """Say how many results are less accurate than was asked for; return the exit code."""
    short = sum(row["status"] == "limit" for row in rows)
    if short:
        which = "the result is" if len(rows) == 1 else f"{short} of {len(rows)} results are"
        _say(
            f"{which} less accurate than asked; the errors printed hold. If the method "
            "samples, give more points with --n, else accept a larger --rtol or --atol"
        )
    return 1 if short else 0


def _argmax(options: argparse.Namespace) -> None:
    _check_stdin(options.scores, options.sigma)
    scores, sigma = read_table("SCORES", options.scores), read_table("--sigma", options.sigma)
    mu, deviations = score_arguments(scores, sigma)
    with _computing({"mu": scores.name, "sigma": sigma.name, "k": "--topk"}):
        prob = mvnorth.prob_topk(mu, deviations, options.topk)
    classes = scores.columns
    rows = scores.rows
    if mu.ndim == 1 and scores.values.shape[-1] == 1:  # the table was a column
        classes, rows = rows, None
    classes = classes or tuple(str(k + 1) for k in range(prob.shape[-1]))
    k = options.topk
    event = "the largest" if k == 1 else f"among the {k} largest"
    if options.json:
        names = rows or range(1, np.atleast_2d(prob).shape[0] + 1)
        pairs = zip(names, np.atleast_2d(prob), strict=True)
        results = [{"row": name, "prob": row} for name, row in pairs]
        print_json({"event": event, "k": k, "classes": classes, "results": results})
    else:
        print_scores(f"probability to be {event}", prob, rows, classes)


def _quantile(options: argparse.Namespace) -> int:
    given = {name: getattr(options, name) for name in ("p", "mean", "cov")}
    _check_stdin(*given.values())
    tables = {name: read_table(f"--{name}", source) for name, source in given.items()}
    p, mean, cov = quantile_arguments(**tables)
    names = ("tail", "df", "complement", "rtol", "atol", "seed")
    settings = {name: getattr(options, name) for name in names}
    called = {name: f"--{name}" for name in names}
    with _computing(called | {name: table.name for name, table in tables.items()}):
        result = mvnorth.quantile(p, cov, mean=mean, **settings)
    rows = quantile_rows(result, p, tables["mean"].rows)
    event = {"lower": "X <= q", "upper": "X > q", "both": "|X| <= q"}[options.tail]
    d = cov.shape[-1]
    if options.json:
        words = {"event": event, "d": d, "df": options.df, "complement": options.complement}
        print_json({**words, "results": rows})
    else:
        probability = "1 - p" if options.complement else "p"
        title = f"q with Pr({event}) = {probability}, {d} coordinate{'s' * (d > 1)}"
        print_quantiles(title, rows)
    return _warn_of_accuracy(rows)


def _compare(options: argparse.Namespace) -> int:
    samples = read_groups("FILE", options.observations, options.group, options.value)
    control = 0 if options.control is None else options.control
    names = ("alternative", "level", "rtol", "seed")
    settings = {name: getattr(options, name) for name in names}
    called = {name: f"--{name}" for name in (*names, "control")}
    with _computing(called | {"samples": "FILE", "means": "FILE"}):
        contrasts = mvnorth.sample_contrasts(samples, kind=options.kind, control=control)
        result = mvnorth.max_t(contrasts, step_down=not options.no_step_down, **settings)
    if options.json:
        counts = {name: len(values) for name, values in samples.items()}
        print_json({"kind": options.kind, "counts": counts, **result.to_dict()})
    else:
        print(result)
    return 1 if result.status == mvnorth.Status.LIMIT else 0


def _info(options: argparse.Namespace) -> None:
    from mvnorth._environment import environment

    with _computing({}):
        found = environment()
    if options.json:
        print_json(found)
    else:
        print_environment(found, repr(mvnorth.device_info()))


def _warmup(options: argparse.Namespace) -> None:
    with _computing({"groups": "GROUP"}):
        mvnorth.warmup(*options.groups, verbose=True)


def _demo(options: argparse.Namespace) -> None:
    from mvnorth._demo import demo

    demo()
