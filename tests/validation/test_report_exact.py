import pytest
from support.broken import flags

from validation.page import Check, Picture, Table
from validation.reports import exact


@pytest.fixture(scope="module")
def section():
    outcomes = {task.name: task.perform() for task in exact.tasks("small")}
    failed = {name: each.failure for name, each in outcomes.items() if each.failure}
    assert not failed
    return exact.section({name: each.value for name, each in outcomes.items()}, "small")


def test_no_claim_is_flagged(section):
    checks = [part for part in section.walk() if isinstance(part, Check)]
    assert len(checks) == 10
    assert [check for check in checks if not check.holds] == []


def test_tables_and_pictures(section):
    titles = [part.title for part in section.walk() if isinstance(part, Table | Picture)]
    assert len(titles) == len(set(titles))
    for title in (
        "Errors against 40 digits",
        "Time against C (N = 512)",
        "Memory against N (C = 16)",
        "Estimates of the loss by N draws",
        "Noise of P, C = 50",
        "Gradients by N draws",
    ):
        assert title in titles


@pytest.mark.parametrize("scale", ["small", "quick", "full"])
def test_names_are_unique_and_measurements_are_alone(scale):
    tasks = exact.tasks(scale)
    assert len({task.name for task in tasks}) == len(tasks)
    assert len({task.key for task in tasks}) == len(tasks)
    for task in tasks:
        assert task.alone == task.name.startswith("cost")


@pytest.mark.slow
def test_a_broken_coefficient_is_flagged(tmp_path):
    old, new = "0.1666666666666668", "0.1666676666666668"  # of the exponential
    claims = flags(tmp_path, "exact", "mvnorth/_tables/normal.py", old, new)
    assert any("40 digits" in claim for claim in claims)
    assert any("trapezoid" in claim for claim in claims)


@pytest.mark.slow
def test_a_broken_loss_is_flagged(tmp_path):
    old = 'return -log_prob if self.options.objective == "nll" else -torch.expm1(log_prob)'
    new = "return -1.02 * log_prob"
    claims = flags(tmp_path, "exact", "exact_torch/_values.py", old, new)
    assert any("trapezoid" in claim for claim in claims)
    assert any("published draws of P is" in claim for claim in claims)
