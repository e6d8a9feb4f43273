"""How Sphinx makes the site: ``sphinx-build -W docs docs/_build``."""

import contextlib
import html
import importlib
import io
import os
import re
import sys
from pathlib import Path
from xml.etree import ElementTree

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))  # these files, whatever is installed

import mvnorth  # noqa: E402

project = "mvnorth"
author = "The mvnorth developers"
project_copyright = "the mvnorth developers"
version = release = mvnorth.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",  # for the role of single backticks only
    "sphinx.ext.napoleon",
]
exclude_patterns = ["_build"]
nitpicky = True
nitpick_ignore_regex = [("py:class", ".*")]  # types in docstrings are prose, with shapes

# Markdown, as GitHub has it too.
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3

# The API, from docstrings in numpydoc's form.
default_role = "autolink"
autodoc_default_options = {"members": True}
autodoc_inherit_docstrings = False
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # shapes and units, which types do not have, are in the docstrings
napoleon_google_docstring = False
napoleon_use_param = False
napoleon_use_rtype = False
napoleon_custom_sections = [("Attributes", "params_style")]
autosummary_generate = False

html_theme = "furo"
html_title = f"mvnorth {release}"
html_math_renderer = "mathml"
html_static_path = ["_static"]
html_css_files = ["mvnorth.css"]
html_copy_source = False

# Pages that are files elsewhere; here they only link to them, for who reads them on GitHub.
ELSEWHERE = {"changelog": "CHANGELOG.md", "benchmarks": "validation/benchmarks/README.md"}
_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)#:]+)(#[^)]*)?\)")
_DIGITS = re.compile(r"(\\[dt]?frac)\s*(\d)\s*(\d)|([_^])(\d)(?=\d)")
_MATHML = "http://www.w3.org/1998/Math/MathML"
_ACCENTS = {"'": "\u2032", "\u02c9": "\u00af", "\u02c6": "\u02c6", "~": "~"}  # as they look best
_TAG = re.compile(r"\\tag\{(\w+)\}")


def read_page(app: Sphinx, page: str, source: list[str]) -> None:
    """Take pages from elsewhere; links to what the site does not have become their texts."""
    file = ROOT / ELSEWHERE.get(page, f"docs/{page}.md")
    if page in ELSEWHERE:
        app.env.note_dependency(file)
        source[0] = file.read_text(encoding="utf-8")
    pages = {(ROOT / "docs" / f"{name}.md"): name for name in app.env.found_docs}
    pages |= {ROOT / path: name for name, path in ELSEWHERE.items()}

    def linked(match: re.Match[str]) -> str:
        target = (file.parent / match[2]).resolve()
        if not target.exists():
            return match[0]  # a warning, later
        if target not in pages:
            return match[1]
        return f"[{match[1]}](/{pages[target]}.md{match[3] or ''})"

    source[0] = _LINK.sub(linked, source[0])


def mathml(tex: str, block: bool, node: nodes.Element) -> str:
    """MathML, which browsers show by themselves: no script, and nothing from the net."""
    # In LaTeX \frac13 is a third and x^12 is x^1 2; the converter takes numbers whole. It has no
    # \dots either.
    tex = _DIGITS.sub(lambda m: f"{m[1]}{{{m[2]}}}{{{m[3]}}}" if m[1] else f"{m[4]}{{{m[5]}}}", tex)
    tex = re.sub(r"\\dots(?![a-zA-Z])", r"\\ldots", tex)
    try:
        return repaired(tex2mathml(tex, as_block=block))
    except MathError as error:
        logging.getLogger(__name__).warning("%s in %s", error, tex, location=node)
        return f"<code>{tex}</code>"


def repaired(mathml: str) -> str:
    """Primes that look like primes; the index of an accented letter beside it, not below it."""
    entities = r"&(?!lt;|gt;|amp;)\w+;"  # HTML's, which XML does not know
    root = ElementTree.fromstring(re.sub(entities, lambda m: html.unescape(m[0]), mathml))
    for node in root.iter():
        if node.tag == f"{{{_MATHML}}}mo" and node.text in _ACCENTS:
            node.text = _ACCENTS[node.text]
        elif node.tag == f"{{{_MATHML}}}munderover" and node[2].text in _ACCENTS:
            letter, index, accent = node
            node.tag = f"{{{_MATHML}}}msub"
            node[:] = [ElementTree.Element(f"{{{_MATHML}}}mover", {"accent": "true"}), index]
            node[0].extend([letter, accent])
    return ElementTree.tostring(root, encoding="unicode")


def visit_math(translator, node: nodes.math) -> None:
    translator.body.append(mathml(node.astext(), False, node))
    raise nodes.SkipNode


def visit_math_block(translator, node: nodes.math_block) -> None:
    """An equation; its number is LaTeX's ``\\tag``, which GitHub shows as well."""
    tex = node.astext()
    number = _TAG.search(tex)
    shown = mathml(_TAG.sub("", tex), True, node)
    if number is None:
        translator.body.append(f'<div class="equation"><div>{shown}</div></div>\n')
    else:
        anchor = f"equation-{number[1]}"
        translator.body.append(
            f'<div class="equation" id="{anchor}"><div>{shown}</div>'
            f'<a class="number" href="#{anchor}">({number[1]})</a></div>\n'
        )
    raise nodes.SkipNode


class Help(SphinxDirective):
    """What a command line and its commands answer to ``--help``."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        main = importlib.import_module(f"{self.arguments[0]}.cli").main
        whole = asked(main)
        commands = re.search(r"\{([\w,-]+)\}", whole)
        texts = [whole, *(asked(main, each) for each in commands[1].split(","))] if commands else []
        return [nodes.literal_block(text, text, language="text") for text in texts or [whole]]


def asked(main, *command: str) -> str:
    os.environ |= {"COLUMNS": "80", "NO_COLOR": "1"}
    with contextlib.redirect_stdout(io.StringIO()) as said, contextlib.suppress(SystemExit):
        main([*command, "--help"])
    return said.getvalue()


def setup(app: Sphinx) -> None:
    ElementTree.register_namespace("", _MATHML)
    app.add_directive("help", Help)
    app.connect("source-read", read_page)
    app.add_html_math_renderer("mathml", (visit_math, None), (visit_math_block, None))
