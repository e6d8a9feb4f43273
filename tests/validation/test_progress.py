"""What is printed while reports are computed: what runs, and how long is left."""

import io

import pytest

from validation.progress import Display, Estimate, Job, describe_seconds

JOBS = [
    Job("paper", "table 1", 60.0, False),
    Job("paper", "table 2", 60.0, False),
    Job("paper", "table 3", 60.0, False),
    Job("speed", "kernel", 30.0, True),
]


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_tasks_that_run_alone_are_not_shared_by_processes():
    assert Estimate(JOBS, 1).left({}) == 3 * 60 + 30
    assert Estimate(JOBS, 2).left({}) == 3 * 60 / 2 + 30


def test_running_tasks_have_less_left():
    estimate = Estimate(JOBS, 1)
    assert estimate.left({0: 20.0}) == 190.0
    assert estimate.left({0: 500.0}) > 2 * 150  # it is late, and so the others will be


def test_measured_times_correct_the_typical_ones():
    slow = Estimate(JOBS, 1)
    slow.finish(0, 600.0)
    assert slow.left({}) > 2 * 240 + 30  # the others of the report, and a slow machine
    fast = Estimate(JOBS, 1)
    fast.finish(0, 1.0)
    assert fast.left({}) < 2 * 40 + 30
    for index in (1, 2, 3):
        fast.finish(index, 1.0)
    assert fast.left({}) == 0


def test_a_line_says_what_runs_and_how_long_is_left():
    clock = Clock()
    display = Display(JOBS, 5, 2, io.StringIO(), clock)
    display.begin(0)
    display.begin(1)
    clock.now += 45
    display.finish(0, 45.0)
    assert display.line() == (
        "1 of 4 tasks, 45 s so far, about 51 s left; now paper: table 2 (45 s)"
    )


def test_few_lines_where_there_is_no_terminal():
    stream = io.StringIO()
    with Display(JOBS, 5, 2, stream) as display:
        for index in range(4):
            display.begin(index)
            display.finish(index, 1.0, "Traceback\nValueError: no" if index == 2 else None)
    assert stream.getvalue().splitlines() == [
        "Computing 4 tasks (5 more are already computed): about 2 min.",
        "FAILED paper: table 3: ValueError: no",
        "paper: all tasks done",
        "speed: all tasks done",
        "Computed in 0 s, 1 failed.",
    ]


def test_nothing_to_do_prints_nothing():
    stream = io.StringIO()
    with Display([], 5, 2, stream):
        pass
    assert stream.getvalue() == ""


def test_an_interruption_is_not_a_success():
    stream = Terminal()
    with pytest.raises(KeyboardInterrupt), Display(JOBS, 0, 2, stream):
        raise KeyboardInterrupt
    assert "Computed in" not in stream.getvalue()
    assert stream.getvalue().endswith("\r\x1b[K")


def test_one_line_is_written_over_on_a_terminal(monkeypatch):
    monkeypatch.setattr("validation.progress._EVERY_ON_TERMINAL", 0.01)
    monkeypatch.setenv("COLUMNS", "40")
    stream = Terminal()
    with Display(JOBS, 0, 2, stream) as display:
        display.begin(0)
        for _ in range(200):
            if stream.getvalue().count("0 of 4 tasks") > 2:
                break
            display._over.wait(0.01)
    lines = stream.getvalue().split("\r\x1b[K")
    assert lines.count("0 of 4 tasks, 0 s so far, about 2 min le"[:39]) > 2
    assert "\n" not in "".join(lines[2:])


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "0 s"), (59.4, "59 s"), (61, "1 min"), (3599, "1 h 0 min"), (8000, "2 h 13 min")],
)
def test_times_in_words(seconds, words):
    assert describe_seconds(seconds) == words
