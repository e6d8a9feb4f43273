"""The commands of the command line and their options: descriptions and parsing only."""

import argparse

import mvnorth
from mvnorth._contrasts import KINDS
from mvnorth._max_t import ALTERNATIVES
from mvnorth._methods import derivative_methods, value_methods
from mvnorth._quantile import TAILS
from mvnorth._warmup import GROUPS

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
row of a table (a table of one column is one row). With --loss also the expected loss of choosing
each: the expectation of the largest score minus its own.

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


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of ``mvnorth``: ``command`` of its result names one of the commands."""
    parser = argparse.ArgumentParser(
        prog="mvnorth",
        description="Multivariate normal probabilities",
        epilog=f'"mvnorth COMMAND --help" describes a command.\n\n{_CODES}',
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"mvnorth {mvnorth.__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(name: str, summary: str, description: str) -> argparse.ArgumentParser:
        return commands.add_parser(
            name,
            help=summary,
            description=description,
            epilog=_CODES,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )

    prob = command("prob", "probability of a box or an orthant", _PROB)
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

    argmax = command("argmax", "which of several scores is the largest", _ARGMAX)
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
    argmax.add_argument(
        "--loss", action="store_true", help="print the expected loss of choosing each score, too"
    )
    _add_json(argmax)

    quantile = command("quantile", "limit with a given probability", _QUANTILE)
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

    compare = command("compare", "compare the means of groups", _COMPARE)
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
    _add_json(command("info", "versions, threads, devices, cache", text))
    groups = "\n".join(f"  {name:<11} {text}" for name, (_, text) in GROUPS.items())
    text = f"""\
Compile kernels now, so that no later run has to: of the groups given, or of all, which takes some
minutes. They are cached; "mvnorth info" says where.

{groups.replace("`", "")}"""
    warm = command("warmup", "compile kernels before they are needed", text)
    warm.add_argument("groups", nargs="*", metavar="GROUP", help="default: all")
    text = "A few probabilities with errors and times, scipy's beside them."
    command("demo", "a few probabilities, with scipy's beside them", text)
    return parser


def _add_json(parser: argparse.ArgumentParser) -> None:
    text = 'one line of JSON; infinities are the strings "Infinity" and "-Infinity"'
    parser.add_argument("--json", action="store_true", help=text)


def _whole(text: str) -> int:
    """Return a whole number; 1e5 is one as well."""
    try:
        return int(text) if text.strip().lstrip("+-").isdecimal() else _to_whole_number(float(text))
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(f"must be a whole number, got {text!r}") from None


def _to_whole_number(number: float) -> int:
    if number != int(number):
        raise ValueError
    return int(number)
