"""The documentation site: `make docs` builds it offline, with warnings as errors."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

from unbend import __version__

project = "unbend"
author = "The unbend developers"
copyright = "The unbend developers"
version = release = __version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
]
source_suffix = {".md": "myst-nb", ".ipynb": "myst-nb", ".rst": "restructuredtext"}
nb_execution_mode = "off"  # `make examples` runs them
exclude_patterns = ["_build", "extra"]
html_theme = "furo"
html_title = "unbend"
html_static_path: list[str] = []
html_extra_path = ["extra"]  # the reports of the gallery, as they are
myst_heading_anchors = 3
autodoc_typehints = "none"  # numpydoc sections name the types
autodoc_member_order = "bysource"
autosummary_generate = True
napoleon_google_docstring = False
napoleon_use_rtype = False
nitpicky = False
html_math_renderer = "mathml"

GENERATED = Path(__file__).parent / "generated"


def write_command_pages(app: object) -> None:
    """The reference of the command line, from the code: nothing to keep in step by hand."""
    import click

    from unbend.cli.app import main

    parts = ["# Commands\n", "Every option of every command, written from the code.\n"]
    for name, command in main.commands.items():
        context = click.Context(command, info_name=f"unbend {name}")
        usage = " ".join(command.collect_usage_pieces(context))
        parts.append(f"## unbend {name}\n\n```text\nunbend {name} {usage}\n```\n")
        parts.append(_prose(command.help or ""))
        rows = [p.get_help_record(context) for p in command.params]
        table = [f"| {_code(r[0])} | {_cell(r[1])} |" for r in rows if r is not None]
        parts.append("\n".join(["| option | |", "|---|---|", *table]) + "\n")
    GENERATED.mkdir(exist_ok=True)
    (GENERATED / "commands.md").write_text("\n".join(parts), encoding="utf-8")


def _prose(text: str) -> str:
    """A command's help as Markdown: paragraphs that click keeps as they are become code."""
    parts = []
    for part in inspect.cleandoc(text).split("\n\n"):
        kept = part.strip().removeprefix("\b\n")
        parts.append(f"```text\n{kept}\n```" if kept != part.strip() else _cell(part))
    return "\n\n".join(parts) + "\n"


def _code(text: str) -> str:
    return "`" + text.replace("|", "\\|") + "`"


def _cell(text: str) -> str:
    """Text of a table in which nothing is markup."""
    return re.sub(r"([\\`*_\[\]<>|{}])", r"\\\1", " ".join(text.split()))


def escape_mathematics(
    app: object, what: str, name: str, obj: object, options: object, lines: list[str]
) -> None:
    """|Z Zᵀ| and labels_ are mathematics and names here, not substitutions and links.

    References become plain text: several classes of one page each have their own [1]. Code and
    formulas stay as they are.
    """
    cited = False
    for k, line in enumerate(lines):
        starts = line.startswith(".. [")
        cited = starts or (cited and line.startswith("   "))
        if cited:
            lines[k] = line[3:]  # the dots, or the indentation of a continued line
    margin = -1  # that of a block of formulas, while inside it
    for k, line in enumerate(lines):
        indent = len(line) - len(line.lstrip())
        if line.lstrip().startswith(".. math::"):
            margin = indent
            continue
        if margin >= 0 and (not line.strip() or indent > margin):
            continue
        margin = -1
        parts = re.split(r"(``.*?``|:math:`.*?`)", line)
        for j in range(0, len(parts), 2):
            parts[j] = re.sub(r"(?<!\\)\|", r"\\|", parts[j].replace("[1]_", "[1]"))
            parts[j] = re.sub(r"(?<=\w)_(?!\w)", r"\\_", parts[j])
        lines[k] = "".join(parts)


# What our formulas use and docutils does not know
_UNKNOWN = {"⊤": r"\top ", "‖": r"\| ", "≤": r"\le ", r"\Big(": r"\Bigl(", r"\Big)": r"\Bigr)"}


def write_formula(translator: object, node: object) -> None:
    """A formula as MathML, which browsers show by themselves; MathJax would come from a network."""
    from docutils.nodes import SkipNode, math_block
    from docutils.utils.math.latex2mathml import tex2mathml

    block = isinstance(node, math_block)
    text = node.astext()  # type: ignore[attr-defined]
    for sign, command in _UNKNOWN.items():
        text = text.replace(sign, command)
    formula = tex2mathml(text, as_block=block)
    translator.body.append(f"<p>{formula}</p>" if block else formula)  # type: ignore[attr-defined]
    raise SkipNode


def setup(app: object) -> None:
    """Hook the generated page in before the sources are read, and formulas that need no network."""
    app.add_html_math_renderer("mathml", (write_formula, None), (write_formula, None))  # type: ignore[attr-defined]
    app.connect("builder-inited", write_command_pages)  # type: ignore[attr-defined]
    app.connect("autodoc-process-docstring", escape_mathematics)  # type: ignore[attr-defined]
