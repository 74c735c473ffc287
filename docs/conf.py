"""The documentation site: `make docs` builds it offline, with warnings as errors."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from unbend import __version__

project = "unbend"
author = "The unbend developers"
copyright = "The unbend developers"
version = release = __version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = "unbend"
html_static_path: list[str] = []
myst_heading_anchors = 3
autodoc_typehints = "none"  # numpydoc sections name the types
autodoc_member_order = "bysource"
autosummary_generate = True
napoleon_google_docstring = False
napoleon_use_rtype = False
nitpicky = False

GENERATED = Path(__file__).parent / "generated"


def write_command_pages(app: object) -> None:
    """Each command's own help is its reference: nothing to keep in step by hand."""
    from unbend.cli.app import main

    parts = ["# Commands\n", "Every command explains itself: these are the pages of `--help`.\n"]
    for name in (None, *main.commands):
        command = ["unbend", *([name] if name else []), "--help"]
        code = "import sys; from unbend.cli import main; main(prog_name='unbend')"
        done = subprocess.run(
            [sys.executable, "-c", code, *command[1:]], capture_output=True, text=True, check=True
        )
        title = f"unbend {name}" if name else "unbend"
        parts.append(f"## {title}\n\n```text\n{done.stdout.strip()}\n```\n")
    GENERATED.mkdir(exist_ok=True)
    (GENERATED / "commands.md").write_text("\n".join(parts))


def escape_mathematics(
    app: object, what: str, name: str, obj: object, options: object, lines: list[str]
) -> None:
    """|Z Zᵀ| and labels_ are mathematics and names here, not substitutions and links."""
    for k, line in enumerate(lines):
        parts = re.split(r"(``.*?``)", line)
        for j in range(0, len(parts), 2):
            parts[j] = re.sub(r"(?<!\\)\|", r"\\|", parts[j].replace("[1]_", "[1]"))
            parts[j] = re.sub(r"(?<=\w)_(?!\w)", r"\\_", parts[j])
        lines[k] = "".join(parts)


def setup(app: object) -> None:
    """Hook the generated page in before the sources are read."""
    app.connect("builder-inited", write_command_pages)  # type: ignore[attr-defined]
    app.connect("autodoc-process-docstring", escape_mathematics)  # type: ignore[attr-defined]
