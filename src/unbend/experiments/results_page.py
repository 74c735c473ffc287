"""The page of results: all tables, each with the command and commit that made it.

Run as ``python -m unbend.experiments.results_page [RESULTS] [PAGE]``.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

from unbend.disk import atomic_write
from unbend.disk.provenance import without_places
from unbend.experiments import EXPERIMENTS

__all__ = ["main", "write_results_page"]

_HEAD = """# Results

Written by `make results` from what `unbend reproduce` and `unbend benchmark` left; nothing here
is written by hand. Scores are over all samples named in the caption, mean ± sample deviation over
seeds, never the best seed; ACC is by the optimal one-to-one match. True labels are used only for
scoring.
"""


def write_results_page(folder: str | Path, page: str | Path) -> Path:
    """Collect the tables of ``folder`` in the markdown file ``page``.

    Every table needs the ``.json`` file with its command and commit. A picture of the same name is
    copied into the folder ``results`` next to the page.
    """
    folder, page = Path(folder), Path(page)
    tables = sorted(folder.glob("*.md"), key=_order) if folder.is_dir() else []
    if not tables:
        raise ValueError(
            f"no tables in {str(folder)!r}; run `unbend reproduce figure1 -o {folder}` first"
        )
    sections = [_section(table, page.parent) for table in tables]
    page.parent.mkdir(parents=True, exist_ok=True)
    atomic_write(page, "\n".join([_HEAD, *sections]))
    return page


def _order(table: Path) -> tuple[int, str]:
    names, name = list(EXPERIMENTS), _experiment(table.stem)
    return (names.index(name) if name in names else len(names), table.stem)


def _experiment(stem: str) -> str:
    """The experiment of a table; its name may have a suffix, such as ``views-small``."""
    return stem if stem in EXPERIMENTS else stem.partition("-")[0]


def _section(table: Path, docs: Path) -> str:
    origin = _origin(table)
    title = EXPERIMENTS.get(_experiment(table.stem), table.stem)
    lines = [f"## {table.stem}: {title}" if title != table.stem else f"## {title}", ""]
    lines += [table.read_text(encoding="utf-8").strip(), ""]
    picture = table.with_suffix(".png")
    if picture.is_file():
        place = docs / "results" / picture.name
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(picture, place)
        lines += [f"![{title}](results/{picture.name})", ""]
    command = without_places(origin["command"])
    lines.append(f"Command `{command}`, commit `{origin['commit']}`.")
    if origin.get("kept_from"):
        kept = ", ".join(f"`{c}`" for c in origin["kept_from"])
        lines.append(f"Parts of the work were kept from {kept}.")
    return "\n".join([*lines, ""])


def _origin(table: Path) -> dict[str, str]:
    record = table.with_suffix(".json")
    try:
        origin: dict[str, str] = json.loads(record.read_text(encoding="utf-8"))
        return {**origin, "command": origin["command"], "commit": origin["commit"]}
    except (OSError, KeyError, TypeError, json.JSONDecodeError) as error:
        raise ValueError(
            f"{table.name} has no record of the command that made it ({record.name}); "
            "run that command again, or remove the table"
        ) from error


def main(arguments: list[str] | None = None) -> None:
    """Command line of this module."""
    given = sys.argv[1:] if arguments is None else arguments
    folder, page = [*given, *["runs/results", "docs/results.md"][len(given) :]][:2]
    try:
        print(f"written to {write_results_page(folder, page)}")
    except ValueError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
