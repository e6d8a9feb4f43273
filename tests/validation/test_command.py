"""``python -m validation``: exit codes, pages, what is missing, and wrong input."""

import json
import types

import pytest

from validation import assemble, cli, data_sets, reports
from validation.page import Check, Section, Table, Text
from validation.running import Task, task, workers


def half(x):
    return x / 2


def fails(x):
    raise ValueError(f"not {x}")


def report(tasks, holds=True):
    """Return a module of a report, made here."""

    def section(results, scale):
        assert scale == "small"
        rows = [[name, value] for name, value in results.items()]
        return Section("x", [Table("Halves", ["x", "half"], rows), Check("So it is.", holds, "x")])

    return types.SimpleNamespace(tasks=lambda scale: tasks, section=section)


@pytest.fixture
def made(monkeypatch):
    """Reports of ours in place of all others."""

    def put(**modules):
        minutes = dict.fromkeys(("small", "quick", "full"), 1.0)
        entries = {name: reports.Entry(name.title(), minutes, ()) for name in modules}
        monkeypatch.setattr(reports, "REPORTS", entries)
        monkeypatch.setattr(reports, "get", modules.__getitem__)

    return put


@pytest.fixture
def run(tmp_path, monkeypatch):
    """The program, in this process: others are slow to start."""

    def here(tasks, jobs, begin):
        return ((index, task.perform()) for index, task in tasks.items())

    monkeypatch.setattr(workers, "in_processes", here)
    for name in cli._ONE_THREAD:  # which the program sets
        monkeypatch.setenv(name, "1")
    return lambda *told: cli.main([*told, "--small", "--jobs", "1", "--out", str(tmp_path)])


HALVES = [Task("4", half, {"x": 4}), Task("5", half, {"x": 5})]


def test_the_page_of_all_reports(made, run, tmp_path, capsys):
    made(one=report(HALVES), two=report(HALVES[:1]))
    assert run() == 0
    told = json.loads((tmp_path / "index.json").read_text())
    assert told["reports"]["one"]["tables"]["halves.csv"]["rows"] == [["4", 2.0], ["5", 2.5]]
    assert list(told["reports"]) == ["one", "two"]
    assert told["run"]["scale"] == "small"
    printed = capsys.readouterr()
    assert str(tmp_path / "index.html") in printed.out
    assert "Computing 2 tasks: about" in printed.err  # equal tasks count once
    assert "one: all tasks done" in printed.err


def test_a_second_run_has_nothing_to_do(made, run, capsys):
    made(one=report(HALVES))
    assert run() == run() == 0
    assert capsys.readouterr().err.count("Computing 2 tasks") == 1
    assert run("--fresh") == 0
    assert capsys.readouterr().err.count("Computing 2 tasks") == 1


def test_the_page_names_the_commits_of_results(made, run, tmp_path, monkeypatch):
    made(one=report(HALVES[:1]))
    monkeypatch.setattr(task, "commit", lambda: "abc1234")
    monkeypatch.setattr(assemble, "commit", lambda: "abc1234")
    run()
    made(one=report(HALVES))
    monkeypatch.setattr(task, "commit", lambda: "def5678")
    monkeypatch.setattr(assemble, "commit", lambda: "def5678")
    run()
    told = json.loads((tmp_path / "index.json").read_text())
    assert told["run"]["commit"] == "def5678"
    assert told["reports"]["one"]["commits"] == ["abc1234", "def5678"]
    assert [each["tasks"] for each in told["reports"]["one"]["computed"]] == [1, 1]
    assert "commit <code>abc1234</code>" in (tmp_path / "index.html").read_text()


def test_answers_of_leading_reports_are_on_the_first_screen(made, run, tmp_path, monkeypatch):
    module = report(HALVES)
    module.section = lambda results, scale: Section("x", [], "It is four.")
    made(one=module)
    entry = reports.REPORTS["one"]._replace(leading=True)
    monkeypatch.setitem(reports.REPORTS, "one", entry)
    run()
    text = (tmp_path / "index.html").read_text()
    assert "<dd>It is four.</dd>" in text
    assert "2 of 2 tasks computed" in text


def test_only_some_tasks(made, run, tmp_path):
    made(one=report(HALVES))
    assert run("--only", "4") == 0
    told = json.loads((tmp_path / "index.json").read_text())["reports"]["one"]
    assert told["tables"]["halves.csv"]["rows"] == [["4", 2.0]]
    assert told["not_run"][0]["what"] == "1 of 2 tasks."


def test_every_report_has_typical_times_of_every_scale():
    for entry in reports.REPORTS.values():
        assert set(entry.minutes) == {"small", "quick", "full"}
        assert all(minutes > 0 for minutes in entry.minutes.values())
    assert [name for name, entry in reports.REPORTS.items() if entry.leading]


def test_one_report_has_a_page_of_its_own(made, run, tmp_path):
    made(one=report(HALVES), two=report(HALVES))
    assert run("two") == 0
    assert list(json.loads((tmp_path / "two.json").read_text())["reports"]) == ["two"]


def test_a_check_that_does_not_hold_is_an_exit_code(made, run, capsys):
    made(one=report(HALVES, holds=False))
    assert run() == 1
    assert "check failed: So it is. x" in capsys.readouterr().out


def test_a_task_that_fails_is_a_check_that_does_not_hold(made, run, tmp_path, capsys):
    made(one=report([*HALVES, Task("six", fails, {"x": 6})]))
    assert run() == 1
    assert "check failed: `six` is computed. ValueError: not 6" in capsys.readouterr().out
    told = json.loads((tmp_path / "index.json").read_text())["reports"]["one"]
    assert [check["holds"] for check in told["checks"]] == [False, True]
    assert len(told["tables"]["halves.csv"]["rows"]) == 2


def test_a_section_that_cannot_speak(made, run, tmp_path):
    broken = report([Task("six", fails, {"x": 6})])
    broken.section = lambda results, scale: Section("x", [Text(results["six"])])
    made(one=broken)
    assert run() == 1
    broken.tasks = lambda scale: HALVES
    assert run() == 1
    told = json.loads((tmp_path / "index.json").read_text())["reports"]["one"]
    assert told["checks"] == [
        {"claim": "The report can be written.", "holds": False, "found": "KeyError('six')"}
    ]


def test_a_fault_is_flagged_though_results_are_missing(made, run, tmp_path):
    def told_of(section):
        broken = report(HALVES)
        broken.section = section
        made(one=broken)
        code = run("--page")
        return code, json.loads((tmp_path / "index.json").read_text())["reports"]["one"]

    code, told = told_of(lambda results, scale: Section("x", [Text(results["4"])]))
    assert code == 0
    assert told["not_run"][-1]["why"] == "It needs a result that is missing (KeyError('4'))."
    code, told = told_of(lambda results, scale: Section("x", [Text([][0])]))
    assert code == 1
    assert told["checks"][0]["found"] == "IndexError('list index out of range')"


def test_the_page_of_what_is_there(made, run, tmp_path):
    made(one=report(HALVES[:1]))
    run()
    made(one=report(HALVES))
    assert run("--page") == 0
    told = json.loads((tmp_path / "index.json").read_text())["reports"]["one"]
    assert told["tables"]["halves.csv"]["rows"] == [["4", 2.0]]
    assert told["not_run"][0]["what"] == "1 of 2 tasks."
    assert told["not_run"][0]["command"] == "python -m validation one --small"


def test_a_module_that_is_missing_is_named(made, run, tmp_path, monkeypatch):
    made(one=report(HALVES))
    entry = reports.Entry(
        "Other", dict.fromkeys(("small", "quick", "full"), 1.0), ("matplotlib", "no_such_module")
    )
    monkeypatch.setitem(reports.REPORTS, "other", entry)
    assert run() == 0
    (told,) = json.loads((tmp_path / "index.json").read_text())["reports"]["other"]["not_run"]
    assert told["why"] == "no_such_module cannot be imported."
    assert "'.[validation]'" in told["command"]


def test_oracles_that_are_missing_are_named(made, run, tmp_path, monkeypatch):
    missing = assemble.inventory.Oracle("An oracle", None, "ask in Delphi")
    monkeypatch.setattr(assemble.inventory, "oracles", lambda: [missing])
    made(one=report(HALVES))
    run()
    facts = json.loads((tmp_path / "index.json").read_text())["run"]
    assert facts["oracle: An oracle"] == "missing: ask in Delphi"


@pytest.mark.parametrize(
    ("told", "message"),
    [
        (["accurcy"], "'accurcy' is none of when, criticism"),
        (["--jobs", "0"], "expected a positive number, got '0'"),
        (["--full", "--small"], "not allowed with"),
    ],
)
def test_wrong_input(told, message, capsys):
    with pytest.raises(SystemExit) as stopped:
        cli.main(told)
    assert stopped.value.code == 2
    assert message in capsys.readouterr().err


def test_interrupted(made, run, monkeypatch, capsys):
    def interrupt(*told, **more):
        raise KeyboardInterrupt

    made(one=report(HALVES))
    monkeypatch.setattr(assemble, "run", interrupt)
    assert run() == 130
    assert "run the same command to resume" in capsys.readouterr().err


def test_no_such_cluster(made, run, capsys):
    pytest.importorskip("dask.distributed")
    made(one=report(HALVES))
    assert run("--dask", "no-such-thing://x") == 2
    assert "no-such-thing" in capsys.readouterr().err


def test_data_sets(tmp_path, monkeypatch):
    pytest.importorskip("sklearn")
    monkeypatch.setenv("EXACT_TORCH_DATA", str(tmp_path))
    data_sets.there.cache_clear()
    assert data_sets.there("digits")
    assert not data_sets.there("mnist")
    assert "--download" in data_sets.missing("A table", "MNIST").command
    assert "--data-dir" in data_sets.missing("A table", "uci/wine").command
    data_sets.there.cache_clear()
