"""The command line."""

import pytest

import mvnorth
from mvnorth.cli import main


def test_demo_prints_a_table(capsys):
    assert main(["demo"]) == 0
    printed = capsys.readouterr().out
    lines = [line for line in printed.splitlines() if line.endswith("x")]
    assert len(lines) == 6
    assert "0.333333" in printed
    assert "1.70394e-24" in printed


def test_version(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["--version"])
    assert stop.value.code == 0
    assert mvnorth.__version__ in capsys.readouterr().out


def test_unknown_command(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["nonsense"])
    assert stop.value.code == 2
    assert "nonsense" in capsys.readouterr().err
