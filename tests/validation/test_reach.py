"""Results of a task are kept as long as the code that it reaches is the same."""

import pytest

from validation.running import reach

FILES = {
    "mvnorth/core.py": "x = 1\n",
    "mvnorth/cli.py": "print(1)\n",
    "exact_torch/loss.py": "y = 1\n",
    "validation/__init__.py": "",
    "validation/report.py": """
        import math
        from validation import measure
        from validation.measure import LIMIT
        from validation.words import said

        def compute(n: int) -> list:
            "Docstring."
            return [helper(n), measure.size(n), LIMIT]

        def helper(n):
            import mvnorth
            return mvnorth.core.x + CONSTANT

        CONSTANT = 1

        def section(results):
            return said(results)
        """,
    "validation/measure.py": """
        from validation.deep import depth

        LIMIT = 3
        UNUSED = 4

        def size(n):
            return depth(n)

        def other():
            from exact_torch import loss
            return loss
        """,
    "validation/deep.py": "depth = lambda n: n\n",
    "validation/words.py": "def said(results):\n    return str(results)\n",
}


@pytest.fixture
def tree(tmp_path):
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = text.split("\n")
        path.write_text("\n".join(line.removeprefix(" " * 8) for line in lines))
    return tmp_path


def code(tree, name="compute"):
    """Return what a function of the report reaches, with the files as they are now."""

    def call():
        raise AssertionError

    call.__module__, call.__qualname__ = "validation.report", name
    return reach.Reader(tree).reached(call)


def change(tree, name, old, new):
    path = tree / name
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("validation/report.py", "[helper(n),", "[2 * helper(n),"),  # the function itself
        ("validation/report.py", "CONSTANT = 1", "CONSTANT = 2"),  # a constant of a helper
        ("validation/measure.py", "LIMIT = 3", "LIMIT = 4"),  # imported by name
        ("validation/measure.py", "depth(n)", "depth(n + 1)"),  # an attribute of a module
        ("validation/deep.py", "n: n", "n: -n"),  # two modules away
        ("mvnorth/core.py", "x = 1", "x = 2"),  # imported inside a function
    ],
)
def test_code_that_is_reached_counts(tree, name, old, new):
    before = code(tree)
    change(tree, name, old, new)
    assert code(tree).code != before.code


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("validation/report.py", "said(results)", "said(results) + 'more'"),
        ("validation/report.py", "Docstring.", "Other words."),
        ("validation/report.py", "import math", "import math  # why"),
        ("validation/words.py", "str(results)", "repr(results)"),
        ("validation/measure.py", "UNUSED = 4", "UNUSED = 5"),
        ("exact_torch/loss.py", "y = 1", "y = 2"),
        ("mvnorth/cli.py", "print(1)", "print(2)"),
    ],
)
def test_other_code_does_not(tree, name, old, new):
    before = code(tree)
    change(tree, name, old, new)
    assert code(tree).code == before.code


def test_modules_are_named(tree):
    names = {"validation.report", "validation.measure", "validation.deep", "mvnorth"}
    assert code(tree).modules == names


def test_a_function_that_imports_by_name_reaches_everything(tree):
    change(tree, "validation/report.py", "import math", "import importlib\nimport math")
    change(tree, "validation/report.py", "return [", "importlib.import_module('x')\n    return [")
    before = code(tree)
    assert "validation.words" in before.modules
    change(tree, "validation/words.py", "str(results)", "repr(results)")
    assert code(tree).code != before.code
