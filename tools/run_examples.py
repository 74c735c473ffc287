"""Run the examples and write them, with their output and pictures, as pages: ``make examples``.

``python -m tools.run_examples 2_embeddings`` runs one. A page is a notebook that MyST-NB shows
without running it again.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import jupytext
import nbformat
from nbclient import NotebookClient

ROOT = Path(__file__).parents[1]
PAGES = ROOT / "docs" / "gallery"
_KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}


def main() -> None:
    """Run the named examples, by default all of them."""
    names = sys.argv[1:] or [path.stem for path in examples()]
    for name in names:
        start = time.perf_counter()
        run(ROOT / "examples" / f"{name}.py", PAGES / f"{name}.ipynb")
        print(f"{name}: {time.perf_counter() - start:.0f} s", flush=True)


def examples() -> list[Path]:
    """The examples that become pages."""
    return sorted((ROOT / "examples").glob("[0-9]_*.py"))


def run(source: Path, page: Path) -> None:
    """Run a script cell by cell; raise on the first error."""
    notebook = jupytext.read(source)
    NotebookClient(notebook, timeout=1800, kernel_name="python3").execute(cwd=str(ROOT))
    for number, cell in enumerate(notebook.cells):  # the same page for the same result
        cell["id"] = f"cell-{number}"
        cell.metadata.pop("execution", None)
    notebook.metadata = {"kernelspec": _KERNEL}
    page.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, page)


if __name__ == "__main__":
    main()
