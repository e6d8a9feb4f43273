"""Tasks are done once, kept, done again when a worker is lost, and the same whatever runs them."""

import os
import re
import signal
from pathlib import Path

import numpy as np
import pytest

from validation.running import Outcome, Store, Task, run, task, workers


def draw(seed, n):
    return [*np.random.default_rng(seed).normal(size=n).tolist(), float("inf")]


def fails():
    raise ValueError("no such thing")


def dies_once(mark):
    """Kills its process the first time."""
    if not Path(mark).exists():
        Path(mark).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return "alive"


def dies():
    os.kill(os.getpid(), signal.SIGKILL)


def count(folder):
    """Says how often it was called."""
    Path(folder, str(len(os.listdir(folder)))).touch()
    return 1.5


DRAWS = [Task(f"draw {seed}", draw, {"seed": seed, "n": 5}) for seed in range(6)]


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "tasks")


def test_results_come_in_the_order_of_the_tasks(store):
    outcomes = run(DRAWS, store, jobs=2)
    assert [each.value for each in outcomes] == [draw(seed, 5) for seed in range(6)]
    assert all(each.failure is None for each in outcomes)


def test_what_has_finished_is_not_done_again(store, tmp_path):
    folder = tmp_path / "calls"
    folder.mkdir()
    tasks = [Task("count", count, {"folder": str(folder)})]
    reported = []
    first = run(tasks, store, report=lambda index, outcome: reported.append(index))
    again = run(tasks, store, report=lambda index, outcome: reported.append(index))
    assert first[0].value == again[0].value == 1.5
    assert len(os.listdir(folder)) == 1
    assert reported == [0]


def test_equal_tasks_are_done_once(store, tmp_path):
    folder = tmp_path / "calls"
    folder.mkdir()
    tasks = [Task(name, count, {"folder": str(folder)}) for name in ("one", "two")]
    outcomes = run([tasks[0], DRAWS[0], tasks[1]], store)
    assert [each.value for each in outcomes] == [1.5, draw(0, 5), 1.5]
    assert len(os.listdir(folder)) == 1


def test_an_interrupted_run_keeps_what_has_finished(store):
    def interrupt(index, outcome):
        if index == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(DRAWS, store, report=interrupt)
    known = [store.get(each) for each in DRAWS]
    assert known[2].value == draw(2, 5)
    assert [each.value for each in run(DRAWS, store)] == [draw(seed, 5) for seed in range(6)]


def test_a_half_written_result_is_no_result(store):
    store.put(DRAWS[0], Outcome(1.0, 0.1))
    path = next(store.folder.iterdir())
    path.write_text(path.read_text()[:20])
    assert store.get(DRAWS[0]) is None


def test_other_arguments_or_another_library_are_another_result(monkeypatch):
    key = DRAWS[0].key
    assert key == Task("another name", draw, {"n": 5, "seed": 0}).key
    assert key != DRAWS[1].key
    assert key != Task("draw 0", fails, {"seed": 0, "n": 5}).key
    monkeypatch.setattr(task, "fingerprint", lambda call: "another")
    assert key != DRAWS[0].key


def test_results_name_the_commit_and_the_day(store, monkeypatch):
    monkeypatch.setattr(task, "commit", lambda: "abc1234")
    store.put(DRAWS[0], DRAWS[0].perform())
    stored = store.get(DRAWS[0])
    assert stored.commit == "abc1234"
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", stored.date)


def test_a_failure_is_told_and_tried_again(store):
    outcomes = run([Task("fails", fails, {}), DRAWS[0]], store)
    assert "ValueError: no such thing" in outcomes[0].failure
    assert outcomes[1].value == draw(0, 5)
    assert store.get(Task("fails", fails, {})) is None


def test_a_lost_process_loses_no_task(store, tmp_path):
    tasks = [*DRAWS[:3], Task("dies", dies_once, {"mark": str(tmp_path / "mark")}), *DRAWS[3:]]
    outcomes = run(tasks, store, jobs=2)
    assert outcomes[3].value == "alive"
    assert [each.value for each in outcomes[:3]] == [draw(seed, 5) for seed in range(3)]
    assert [each.value for each in outcomes[4:]] == [draw(seed, 5) for seed in range(3, 6)]


def test_a_task_that_always_kills_its_process_is_named(store):
    outcomes = run([DRAWS[0], Task("dies", dies, {}), DRAWS[1]], store, jobs=2)
    assert "killed" in outcomes[1].failure
    assert [outcomes[0].value, outcomes[2].value] == [draw(0, 5), draw(1, 5)]


def test_nothing_runs_beside_what_measures_time(store, monkeypatch):
    asked = []

    def seen(tasks, jobs, begin):
        asked.append((sorted(tasks), jobs))
        return ((index, each.perform()) for index, each in tasks.items())

    monkeypatch.setattr(workers, "in_processes", seen)
    measured = Task("alone", draw, {"seed": 9, "n": 1}, alone=True)
    run([measured, *DRAWS[:2]], store, jobs=2)
    assert asked == [([1, 2], 2), ([0], 1)]


@pytest.fixture(scope="module")
def cluster():
    distributed = pytest.importorskip("dask.distributed")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None, host="127.0.0.1"
    ) as cluster:
        yield cluster


@pytest.mark.filterwarnings("ignore")  # of dask and tornado when workers are lost
class TestDask:
    def test_the_same_results(self, cluster, store, tmp_path):
        here = run(DRAWS, Store(tmp_path / "here"), jobs=2)
        there = run(DRAWS, store, dask=cluster.scheduler_address)
        assert [each.value for each in here] == [each.value for each in there]

    def test_failures(self, cluster, store):
        outcomes = run([Task("fails", fails, {})], store, dask=cluster.scheduler_address)
        assert "ValueError" in outcomes[0].failure

    def test_a_lost_worker_loses_no_task(self, cluster, store, tmp_path):
        tasks = [*DRAWS[:2], Task("dies", dies_once, {"mark": str(tmp_path / "mark")}), *DRAWS[2:]]
        outcomes = run(tasks, store, dask=cluster.scheduler_address)
        assert [each.failure for each in outcomes] == [None] * 7
        assert outcomes[2].value == "alive"

    def test_workers_of_several_threads_are_refused(self, store):
        distributed = pytest.importorskip("dask.distributed")
        with (
            distributed.LocalCluster(
                n_workers=1, threads_per_worker=2, processes=False, dashboard_address=None
            ) as cluster,
            pytest.raises(ValueError, match="--nthreads 1"),
        ):
            run(DRAWS, store, dask=cluster.scheduler_address)
