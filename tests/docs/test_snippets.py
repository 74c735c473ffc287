"""Python in the README and the docs runs as it stands."""

import re
from pathlib import Path

import pytest
from tools.new_user import commands

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
SNIPPETS = [
    pytest.param(code, id=f"{page.name}-{number}")
    for page in PAGES
    for number, code in enumerate(re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL))
]


@pytest.mark.parametrize("code", SNIPPETS)
def test_snippet_runs(code, tmp_path, monkeypatch):
    """No error, in an empty directory."""
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "<snippet>", "exec"), {"__name__": "snippet"})


@pytest.mark.parametrize("hook", ["backbone=", "views=", "objective=", "callbacks="])
def test_a_hook_has_an_example_of_under_20_lines(hook):
    """Blank lines aside; test_snippet_runs executes them."""
    page = (ROOT / "docs" / "research.md").read_text()
    examples = [e for e in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if hook in e]
    assert examples
    assert min(sum(bool(line.strip()) for line in e.splitlines()) for e in examples) < 20


def test_readme_names_the_two_commands():
    """The README's commands are targets of the Makefile."""
    makefile = (ROOT / "Makefile").read_text()
    for command in re.findall(r"\$ make (\w+)", (ROOT / "README.md").read_text()):
        assert f"\n{command}:" in makefile


def test_the_readme_installs_what_its_commands_need_and_they_parse():
    """``make new-user`` runs them from an empty environment."""
    from unbend.cli.app import main

    project = (ROOT / "pyproject.toml").read_text()
    first, second, *others = commands((ROOT / "README.md").read_text())
    assert first.startswith("pip install torch --index-url https://")
    extras = set(re.search(r"\[(.*)\]", second)[1].split(","))
    assert extras >= {"encoder", "tables", "onnx", "explore"}
    assert all(re.search(rf"^{extra} = \[", project, re.M) for extra in extras)
    for command in others:
        program, name, *words = command.split()
        assert program == "unbend"
        assert main.commands[name].make_context(name, words)
    used = " ".join(others)
    assert "cluster photos/" in used
    assert "predict runs/photos new.jpg" in used
