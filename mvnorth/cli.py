"""The command line: what each command reads, computes and prints."""

import argparse
import logging
import os
import re
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

import mvnorth
from mvnorth._command_options import make_parser
from mvnorth._fit_tables import box_arguments, quantile_arguments, score_arguments
from mvnorth._print_results import (
    print_box,
    print_environment,
    print_json,
    print_quantiles,
    print_scores,
    quantile_rows,
    result_rows,
    score_rows,
)
from mvnorth._read_numbers import InputError, read_groups, read_table, written_out

__all__ = ["main"]


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
    options = make_parser().parse_args([_shielded(word) for word in arguments])
    return _COMMANDS[options.command](options) or 0


def _shielded(word: str) -> str:
    """Put a space before numbers such as -1,1 and -inf, which argparse would take for options."""
    return f" {word}" if word.startswith("-") and written_out(word) is not None else word


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
        loss = mvnorth.expected_loss(mu, deviations) if options.loss else None
    classes = scores.columns
    rows = scores.rows
    if mu.ndim == 1 and scores.values.shape[-1] == 1:  # the table was a column
        classes, rows = rows, None
    classes = classes or tuple(str(k + 1) for k in range(prob.shape[-1]))
    k = options.topk
    event = "the largest" if k == 1 else f"among the {k} largest"
    if options.json:
        results = score_rows(prob, loss, rows)
        print_json({"event": event, "k": k, "classes": classes, "results": results})
    else:
        print_scores(f"probability to be {event}", prob, loss, rows, classes)


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


_COMMANDS: dict[str, Callable[[argparse.Namespace], int | None]] = {
    "prob": _prob,
    "argmax": _argmax,
    "quantile": _quantile,
    "compare": _compare,
    "info": _info,
    "warmup": _warmup,
    "demo": _demo,
}
