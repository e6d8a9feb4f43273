"""Recipes by name: the runs of an experiment, each a ``train.Config``.

``get("digits")`` is a single run, ``get("exact-v1-table1")`` all runs of a table of a paper,
``get("exact-v1-table1/mnist-resnet18-ce")`` one of them, ``get("exact-v1-table1-small")`` the
table's small twin, which a CPU computes in minutes, and ``get("mine.py")`` a file of your own.

A recipe is a Python file with ``RUNS``, configs by the names of variants ("" if there is only
one), and, where they are published, ``SEARCH``, the values of a search for each setting, or those
for each variant, ``SEEDS``, how many runs each number of the table is the mean of, and ``SMALL``,
the configs of the twin.  Its documentation says what of it is published and what is ours.

Table 2 of the single-logit paper needs no runs but those of its table 1: a run's summary has the
metrics of single logits and, as ``all_logits``, those of softmax probabilities.  Its table 3 is
about speed, see ``validation.benchmarks.single_logit``.  Table 3 of the mixing paper (LSTMs on
reviews) and its GLUE figure (BERT) have no recipe: they are about text, and this package is about
images and tables.
"""

import difflib
import importlib
import importlib.util
import pkgutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from exact_torch.train.config import Config
from mvnorth._interface import whole_number

__all__ = ["Recipe", "default_grid", "get", "names", "variants"]

# These take a CPU seconds or minutes as they are; every other recipe has a twin, NAME-small.
_SMALL_ALREADY = ("cifar10-batch", "digits", "digits-ce", "digits-hinge", "mnist", "swap-one-line")


@dataclass(frozen=True)
class Recipe:
    """The runs of an experiment.

    Attributes
    ----------
    name : str
        What ``get`` was called with.
    runs : mapping of str to Config
        Configs by variant; a single one is called "".
    search : mapping of str to mapping
        For each variant the values to search, by setting, as ``train.with_settings`` has them: the
        published ones, or ``default_grid``.
    seeds : int
        How many seeds a published number is the mean of, 1 where that is not said.
    doc : str
        The first line of the file's documentation.

    Examples
    --------
    >>> from exact_torch import recipes
    >>> recipe = recipes.get("mnist")
    >>> recipe.name, list(recipe.runs)
    ('mnist', ['exact', 'ce', 'hinge'])
    """

    name: str
    runs: Mapping[str, Config]
    search: Mapping[str, Mapping[str, Sequence[Any]]]
    seeds: int
    doc: str


def names() -> tuple[str, ...]:
    """The names of all recipes, without importing them.

    Returns
    -------
    tuple of str

    Examples
    --------
    >>> from exact_torch import recipes
    >>> recipes.names()[:4]
    ('cifar10-batch', 'digits', 'digits-ce', 'digits-hinge')
    >>> "mixing-table1" in recipes.names() and "mixing-table1-small" in recipes.names()
    True
    """
    listed = []
    for module in pkgutil.iter_modules(__path__):
        name = module.name.replace("_", "-")
        listed += [name] if name in _SMALL_ALREADY else [name, f"{name}-small"]
    return tuple(sorted(listed))


def variants(name: str) -> tuple[str, ...]:
    """The names of a recipe's runs.

    Parameters
    ----------
    name : str
        As ``get`` takes it.

    Returns
    -------
    tuple of str
        Each of them is a name for ``get``.

    Examples
    --------
    >>> from exact_torch import recipes
    >>> recipes.variants("mnist")
    ('mnist/exact', 'mnist/ce', 'mnist/hinge')
    >>> recipes.variants("digits")
    ('digits',)
    """
    return tuple(f"{name}/{variant}" if variant else name for variant in get(name).runs)


def get(name: str) -> Recipe:
    """A recipe.

    Parameters
    ----------
    name : str
        One of ``names()``, or the path of a file that ends in ".py"; "/VARIANT" after either
        takes one of its runs.

    Returns
    -------
    Recipe

    Examples
    --------
    >>> from exact_torch import recipes
    >>> recipe = recipes.get("digits")
    >>> recipe.runs[""].model
    'small_cnn'
    >>> list(recipes.get("mnist/ce").runs)
    ['ce']
    >>> recipes.get("digit")
    Traceback (most recent call last):
    ...
    ValueError: no recipe is called 'digit'; did you mean 'digits'? ...
    """
    if not isinstance(name, str):
        raise TypeError(f"the name of a recipe must be a string, got {name!r}")
    if name.endswith(".py") or ".py/" in name:
        path, _, variant = name.partition(".py/") if ".py/" in name else (name[:-3], "", "")
        base = f"{path}.py"
        recipe = _recipe(base, _from_file(Path(base)), "RUNS")
    else:
        base, _, variant = name.partition("/")
        if base not in names():
            near = difflib.get_close_matches(base, names(), n=1, cutoff=0.0)[0]
            raise ValueError(
                f"no recipe is called {base!r}; did you mean {near!r}? There are "
                f"{', '.join(names())}, and a file of your own, whose name ends in .py"
            )
        full = base.removesuffix("-small")
        module = importlib.import_module(f"{__name__}.{full.replace('-', '_')}")
        recipe = _recipe(base, module, "RUNS" if full == base else "SMALL")
    if not variant:
        return recipe
    if variant not in recipe.runs:
        near = difflib.get_close_matches(variant, recipe.runs, n=1, cutoff=0.0)[0]
        raise ValueError(f"{base} has no run {variant!r}; did you mean {near!r}?")
    search = {variant: recipe.search[variant]}
    return Recipe(name, {variant: recipe.runs[variant]}, search, recipe.seeds, recipe.doc)


def default_grid(config: Config) -> dict[str, tuple[Any, ...]]:
    """Return the values to search where a recipe does not say: around those of its config.

    Learning rates from a tenth of the config's to ten times it, four weight decays, and the margin
    and last sigma of a normalised EXACT loss, or sigma of any other.

    Parameters
    ----------
    config : Config

    Returns
    -------
    dict
        Values by setting, as ``train.search.search`` takes them.

    Examples
    --------
    >>> from exact_torch import recipes
    >>> recipes.default_grid(recipes.get("digits-ce").runs[""])["lr"]
    (0.01, 0.03, 0.1, 0.3, 1.0)
    """
    grid: dict[str, tuple[Any, ...]] = {
        "lr": tuple(float(f"{factor * config.lr:.3g}") for factor in (0.1, 0.3, 1.0, 3.0, 10.0)),
        "weight_decay": (0.0, 1e-4, 5e-4, 1e-3),
    }
    if config.loss == "exact" and config.loss_options.get("normalize"):
        grid["loss_options.margin"] = (0.5, 1.0, 2.0, 5.0, None)
        grid["loss_options.sigma"] = ([10.0, 0.1], [10.0, 0.3], [10.0, 1.0])
    elif config.loss == "exact":
        grid["loss_options.sigma"] = ("auto", 0.5, 1.0, 4.0)
    return grid


def _from_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise ValueError(f"there is no recipe file {str(path)!r}")
    spec = importlib.util.spec_from_file_location(f"recipe_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise ValueError(f"{path} does not run: {type(error).__name__}: {error}") from error
    return module


def _recipe(name: str, module: ModuleType, attribute: str) -> Recipe:
    runs = getattr(module, attribute, None)
    if not isinstance(runs, Mapping) or not runs:
        raise ValueError(f"recipe {name} must have {attribute}, configs by name, got {runs!r}")
    for variant, config in runs.items():
        if not isinstance(variant, str) or not isinstance(config, Config):
            raise TypeError(
                f"{attribute} of recipe {name} must map names to Configs, got {config!r}"
            )
    search = getattr(module, "SEARCH", {})
    if not isinstance(search, Mapping):
        raise TypeError(f"SEARCH of recipe {name} must map settings to values, got {search!r}")
    if not all(isinstance(values, Mapping) for values in search.values()):
        search = dict.fromkeys(runs, search)  # the same for all
    search = {
        variant: search.get(variant) or default_grid(config) for variant, config in runs.items()
    }
    seeds = whole_number("SEEDS", getattr(module, "SEEDS", 1), at_least=1)
    doc = (module.__doc__ or "").strip().partition("\n")[0]
    return Recipe(name, dict(runs), search, seeds, doc)
