"""Tasks that reports are made of, what keeps their results, and what runs them."""

from validation.running.store import Store
from validation.running.task import Outcome, Task
from validation.running.workers import run

__all__ = ["Outcome", "Store", "Task", "run"]
