"""Draw which room imports which: ``python -m tools.draw_architecture``.

A room is a package or module directly below ``unbend``. Their order is that of the layers in
``pyproject.toml``, their description the first line of their docstring, and the imports come from
grimp, which import-linter uses too. The script rewrites the picture and the table of rooms in
``docs/architecture.md`` and prints the files and lines of every room. With ``--before CHECKOUT``
it also rewrites picture and sizes of ``docs/architecture-before.md``.
"""

from __future__ import annotations

import argparse
import ast
import sys
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["Room", "draw", "main", "read_imports", "read_rooms", "room_table"]

ROOT = Path(__file__).resolve().parents[1]
PAGE, PICTURE = "docs/architecture.md", "docs/images/architecture.svg"
OLD_PAGE, OLD_PICTURE = "docs/architecture-before.md", "docs/images/architecture-before.svg"
BEGIN, END = "<!-- rooms: written by make architecture -->", "<!-- end of rooms -->"

_CELL, _TOP, _MARGIN = 22, 96, 12
_NAME_WIDTH, _TEXT_WIDTH, _RIGHT = 104, 570, 56
_INK, _MUTED, _BAND, _MARK, _TRUTH = "#1a202c", "#4a5568", "#f1f5f9", "#2b6cb0", "#c05621"


@dataclass(frozen=True)
class Room:
    """A package or module directly below ``unbend``."""

    name: str
    layer: int  # 0 is the top: rooms import only what lies below
    summary: str
    files: int
    lines: int
    sees_truth: bool  # training rooms may not import it


def read_rooms(root: Path = ROOT) -> list[Room]:
    """All rooms of a checkout from the top layer to the bottom one."""
    contracts = _contracts(root)
    layers = next(c["layers"] for c in contracts if c["type"] == "layers")
    truth = _truth_rooms(contracts)
    rooms = []
    for number, layer in enumerate(layers):
        for name in map(str.strip, layer.split("|")):
            if name != "__main__":
                rooms.append(_room(root, name, number, name in truth))
    return rooms


def _contracts(root: Path) -> list[dict[str, list[str]]]:
    tree = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    found: list[dict[str, list[str]]] = tree["tool"]["importlinter"]["contracts"]
    return found


def _truth_rooms(contracts: list[dict[str, list[str]]]) -> set[str]:
    """What the contract about true labels forbids to training rooms."""
    forbidden = [c["forbidden_modules"] for c in contracts if "true label" in c["name"]]
    return {name.removeprefix("unbend.") for names in forbidden for name in names}


def _room(root: Path, name: str, layer: int, sees_truth: bool) -> Room:
    place = root / "src" / "unbend" / name
    files = sorted(place.rglob("*.py")) if place.is_dir() else [place.with_suffix(".py")]
    front = place / "__init__.py" if place.is_dir() else files[0]
    summary = (ast.get_docstring(ast.parse(front.read_text(encoding="utf-8"))) or "").split("\n")[0]
    lines = sum(len(file.read_text(encoding="utf-8").splitlines()) for file in files)
    return Room(name, layer, summary, len(files), lines, sees_truth)


def read_imports(root: Path = ROOT) -> set[tuple[str, str]]:
    """Pairs (importer, imported) of different rooms, without those that the contract ignores."""
    import grimp

    ignored = {
        tuple(line.split(" -> "))
        for contract in _contracts(root)
        if contract["type"] == "layers"
        for line in contract.get("ignore_imports", [])
    }

    sys.path.insert(0, str(root / "src"))
    try:
        graph = grimp.build_graph("unbend", cache_dir=None)
    finally:
        sys.path.remove(str(root / "src"))
    pairs = set()
    for module in graph.modules:
        for other in graph.find_modules_directly_imported_by(module):
            if (module, other) in ignored:
                continue
            importer, imported = (f"{name}.".split(".")[1] for name in (module, other))
            if importer and imported and importer != imported:
                pairs.add((importer, imported))
    return pairs


def draw(rooms: list[Room], imports: set[tuple[str, str]]) -> str:
    """The imports as a matrix in SVG: a row per importer, a column per imported room.

    All imports point down when every mark lies right of the diagonal; others are drawn red.
    """
    left = _MARGIN + _NAME_WIDTH + _TEXT_WIDTH
    side = _CELL * len(rooms)
    width, height = left + side + _RIGHT, _TOP + side + _MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" font-family="system-ui, sans-serif" font-size="13">',
        "<title>Which room imports which</title>",
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        f'<text x="{_MARGIN}" y="{_TOP - 12}" fill="{_MUTED}">a row imports its marked columns; '
        f'<tspan fill="{_TRUTH}">training may not import these rooms</tspan></text>',
    ]
    for i, room in enumerate(rooms):
        parts += _row(room, _TOP + i * _CELL, width)
        parts.append(_heading(room, left + i * _CELL))
    for i, room in enumerate(rooms):
        for j, other in enumerate(rooms):
            x, y = left + j * _CELL, _TOP + i * _CELL
            if i == j:
                parts.append(_square(x, y, "#cbd5e0"))
            elif (room.name, other.name) in imports:
                wrong = j < i
                colour = "#e53e3e" if wrong else _TRUTH if other.sees_truth else _MARK
                parts.append(_square(x, y, colour, f"{room.name} imports {other.name}"))
    return "\n".join([*parts, "</svg>", ""])


def _row(room: Room, y: int, width: int) -> list[str]:
    middle = y + _CELL / 2 + 4.5
    colour = _TRUTH if room.sees_truth else _INK
    name, text = escape(room.name), escape(room.summary.replace("`", ""))
    band = f'<rect y="{y}" width="{width}" height="{_CELL}" fill="{_BAND}"/>'
    return [
        *([band] if room.layer % 2 == 0 else []),
        f'<text x="{_MARGIN}" y="{middle}" font-weight="600" fill="{colour}">{name}</text>',
        f'<text x="{_MARGIN + _NAME_WIDTH}" y="{middle}" font-size="11.5" fill="{_MUTED}">'
        f"{text}</text>",
    ]


def _heading(room: Room, x: float) -> str:
    colour = _TRUTH if room.sees_truth else _INK
    x, y = x + _CELL / 2 + 4, _TOP - 6
    return (
        f'<text transform="translate({x} {y}) rotate(-60)" fill="{colour}">'
        f"{escape(room.name)}</text>"
    )


def _square(x: float, y: float, colour: str, title: str = "") -> str:
    tooltip = f"<title>{escape(title)}</title>" if title else ""
    size = _CELL - 6
    return (
        f'<rect x="{x + 3}" y="{y + 3}" width="{size}" height="{size}" rx="3" fill="{colour}">'
        f"{tooltip}</rect>"
    )


def room_table(rooms: list[Room]) -> str:
    """The table of rooms in markdown, a layer per row."""
    lines = ["| room | what happens there |", "|---|---|"]
    lines += [f"| `{room.name}` | {room.summary.replace('``', '`')} |" for room in rooms]
    return "\n".join(lines)


def size_table(before: list[Room], now: list[Room]) -> str:
    """Files and lines of every room in two checkouts, in markdown."""
    old, new = ({room.name: room for room in rooms} for rooms in (before, now))
    names = list(dict.fromkeys([*new, *old]))
    lines = [
        "| room | files before | lines before | files now | lines now |",
        "|---|---|---|---|---|",
    ]
    for name in names:
        cells = [_size(rooms.get(name)) for rooms in (old, new)]
        lines.append(f"| `{name}` | {' | '.join(cells)} |")
    totals = " | ".join(
        f"{sum(r.files for r in x)} | {sum(r.lines for r in x):,}" for x in (before, now)
    )
    return "\n".join([*lines, f"| all | {totals} |"])


def _size(room: Room | None) -> str:
    return "– | –" if room is None else f"{room.files} | {room.lines:,}"


def updated_page(text: str, table: str) -> str:
    """A page with the table between its two markers replaced."""
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        raise ValueError(f"the page must have one {BEGIN!r} and one {END!r}")
    head, rest = text.split(BEGIN)
    return f"{head}{BEGIN}\n\n{table}\n\n{END}{rest.split(END)[1]}"


def main(arguments: list[str] | None = None) -> None:
    """Write pictures and tables, print files and lines."""
    parser = argparse.ArgumentParser(prog="draw_architecture", description=__doc__)
    parser.add_argument("--before", type=Path, metavar="CHECKOUT", help="an older checkout")
    given = parser.parse_args(arguments)
    rooms, imports = read_rooms(), read_imports()
    _write(PAGE, PICTURE, room_table(rooms), draw(rooms, imports))
    for room in rooms:
        print(f"{room.name:<12} {room.files:>3} files {room.lines:>6} lines")
    files, lines = sum(room.files for room in rooms), sum(room.lines for room in rooms)
    print(f"{'all':<12} {files:>3} files {lines:>6} lines, {len(imports)} imports between rooms")
    if given.before is not None:
        old = read_rooms(given.before)
        picture = draw(old, read_imports(given.before))
        _write(OLD_PAGE, OLD_PICTURE, size_table(old, rooms), picture)


def _write(page: str, picture: str, table: str, svg: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    (ROOT / page).write_text(updated_page(text, table), encoding="utf-8")
    (ROOT / picture).write_text(svg, encoding="utf-8")


if __name__ == "__main__":
    main()
