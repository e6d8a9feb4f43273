"""The documentation: Sphinx builds it without a warning, and nothing in it leads nowhere."""

import dataclasses
import enum
import importlib
import inspect
import re
import subprocess
import sys
import zlib
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType
from urllib.parse import unquote

from support import browser

ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "docs").glob("*.md"))


def public():
    """What users may import: (module, name, thing), every thing as often as it has names."""
    import exact_torch
    import mvnorth

    later = [importlib.import_module(f"exact_torch.{name}") for name in exact_torch._LATER]
    modules = [mvnorth, exact_torch, *later, importlib.import_module("exact_torch.train.trained")]
    for module in modules:
        for name in module.__all__:
            thing = getattr(module, name)
            if isinstance(thing, ModuleType):
                modules.append(thing)
            elif callable(thing):
                yield module.__name__, name, thing


def sections(thing):
    parts = re.split(r"^(\w+)\n-+\n", inspect.getdoc(thing) or "", flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True)) | {"": parts[0]}


def entries(thing):
    """The names that a docstring explains; those of a class also in what it is derived from."""
    kinds = inspect.getmro(thing) if isinstance(thing, type) else [thing]
    for kind in kinds:
        found = sections(kind)
        text = found.get("Parameters", "") + found.get("Attributes", "")
        for line in re.findall(r"^\S.*$", text, flags=re.MULTILINE):
            yield from (name.strip(" *") for name in line.partition(" : ")[0].split(","))


def missing(thing):
    found = sections(thing)
    if not found[""].strip() or thing.__doc__ is None:
        yield "a summary"
    if ">>> " not in found.get("Examples", ""):
        yield "an example"
    if inspect.isfunction(thing) and "Returns" not in found:
        hint = inspect.signature(thing).return_annotation
        if hint not in (None, "None"):
            yield "what it returns"
    if isinstance(thing, type):
        for name, member in vars(thing).items():
            function = inspect.isroutine(member) or isinstance(member, property)
            ours = getattr(getattr(member, "fget", member), "__module__", "") == thing.__module__
            inherited = any(hasattr(base, name) for base in thing.__mro__[1:])
            if function and ours and not inherited and name[0] != "_" and not member.__doc__:
                yield f"a docstring of {name}"
        # Of an enumeration, a protocol or an exception without arguments of its own there is no
        # signature to explain.
        own = dataclasses.is_dataclass(thing) or hasattr(thing, "_fields")
        if issubclass(thing, enum.Enum) or not (own or "__init__" in vars(thing)):
            return
        if getattr(thing, "_is_protocol", False):
            return
    explained = set(entries(thing))
    for name in inspect.signature(thing).parameters:
        if name not in explained and not (name.endswith("_error") and "..." in explained):
            yield name


def test_docstrings_are_whole():
    found = {f"{module}.{name}": list(missing(thing)) for module, name, thing in public()}
    assert len(found) > 100
    assert {name: what for name, what in found.items() if what} == {}


def test_equations_are_numbered():
    numbered = 0
    for page in PAGES:
        equations = re.findall(
            r"^ *\$\$\n(.*?)\n *\$\$$", page.read_text(), re.MULTILINE | re.DOTALL
        )
        tags = [re.findall(r"\\tag\{(\d+)\}$", equation) for equation in equations]
        assert tags == [[str(number)] for number in range(1, len(tags) + 1)], page
        numbered += len(tags)
    assert numbered > 20


class Addresses(HTMLParser):
    """What a page links to, and where others may link to."""

    def __init__(self, page):
        super().__init__()
        self.links, self.anchors = [], {""}
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.links += [unquote(values[key]) for key in ("href", "src") if values.get(key)]
        self.anchors.add(values.get("id"))


def dead_links(site):
    pages = {page: Addresses(page) for page in site.rglob("*.html")}
    for page, found in pages.items():
        for link in found.links:
            if re.match(r"[a-z]+:", link):
                continue
            path, _, anchor = link.partition("#")
            target = (page.parent / path.partition("?")[0]).resolve() if path else page
            if not target.exists() or (target in pages and anchor not in pages[target].anchors):
                yield page.name, link


def listed(site):
    """The names of the site's inventory, which has every function and class it documents."""
    *head, rest = (site / "objects.inv").read_bytes().split(b"\n", 4)
    assert b"zlib" in head[3]
    return {line.split()[0] for line in zlib.decompress(rest).decode().splitlines()}


# The theme cuts off what is too wide for a phone; so it is said what sticks out, unless it is in
# something that scrolls.
SAY = """<script>addEventListener("load", () => {
  const article = document.querySelector("article");
  const scrolls = x => x !== article
    && (getComputedStyle(x).overflowX !== "visible" || scrolls(x.parentElement));
  for (const x of article.querySelectorAll("*"))
    if (x.getBoundingClientRect().right > innerWidth + 1 && !scrolls(x))
      console.log("too wide: " + x.outerHTML.slice(0, 80));
})</script>"""


def look(site, name, width):
    """The page in a browser, with the site's style."""
    page = site / name
    text = page.read_text(encoding="utf-8").replace("</head>", f"{SAY}</head>", 1)
    copy = site / f"{page.stem}_looked_at.html"
    base = f'<head><base href="{page.parent.as_uri()}/">'
    copy.write_text(text.replace("<head>", base, 1), encoding="utf-8")
    return browser.look(copy, width)


def test_the_site_is_built_whole(tmp_path):
    site = tmp_path / "site"
    build = subprocess.run(
        [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "docs", site],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert build.returncode == 0, build.stderr
    assert not list(dead_links(site))
    known = listed(site)
    names = {}
    for module, name, thing in public():
        names.setdefault(thing, set()).add(f"{module}.{name}")
    assert [also for also in names.values() if not also & known] == []
    assert "equation-3" in Addresses(site / "markov.html").anchors
    shell = (site / "reference" / "command_lines.html").read_text(encoding="utf-8")
    assert "usage: mvnorth" in shell
    assert "usage: exact-torch train" in shell
    if browser.PROGRAM is None:
        return
    for name in ("index.html", "one_factor.html", "reference/probabilities.html"):
        found = look(site, name, 390)
        assert found["links"] == 0
        assert found["console"] == []
        assert found["ink"] != found["paper"]
