"""The gallery of reports: pages as the commands wrote them, and a page that leads to each."""

import re
from pathlib import Path

import numpy as np
import pytest
from tools.report_gallery import COMMANDS, REPORTS, write_input

from unbend.cli.app import main

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "gallery" / "reports.md").read_text(encoding="utf-8")


def test_the_page_shows_every_report_with_its_command():
    assert {path.stem for path in REPORTS.glob("*.html")} == set(COMMANDS)
    for name, command in COMMANDS.items():
        part = next(
            part for part in PAGE.split("\n## ") if f":target: ../reports/{name}.html" in part
        )
        assert f"$ {command}\n" in part
        assert f"{{image}} ../extra/reports/{name}.png\n" in part
        assert (REPORTS / f"{name}.png").is_file()


@pytest.mark.parametrize("name", COMMANDS)
def test_a_report_is_whole_and_names_no_place_of_its_making(name):
    text = (REPORTS / f"{name}.html").read_text(encoding="utf-8")
    assert re.search(f"<h1[^>]*>\\s*{name}", text)
    assert not re.search(r"""["'\s>](/tmp|/home|/root|/Users)/""", text)
    assert not re.search(r"""(src|href)=["']?https?://""", text)


@pytest.mark.parametrize("command", COMMANDS.values())
def test_a_command_of_the_gallery_is_one_of_the_command_line(command):
    _, name, *words = command.split()
    assert main.commands[name].make_context(name, words).params["input"]


def test_the_inputs_of_the_gallery_are_the_same_each_time(tmp_path):
    for copy in ("a", "b"):
        (tmp_path / copy).mkdir()
        for name in ("faces", "wine"):
            write_input(name, tmp_path / copy)
    for name in ("faces.npy", "wine.csv"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    assert np.load(tmp_path / "a" / "faces.npy").shape == (410, 100)
    rows = (tmp_path / "a" / "wine.csv").read_text().splitlines()
    assert len(rows) == 179
    assert rows[0].endswith(",cultivar")
