"""The reference pages name everything that is public, and every option of the command line."""

import inspect
import re
import runpy
from importlib import import_module
from pathlib import Path

import pytest

from unbend import MLC
from unbend.cli.app import main

DOCS = Path(__file__).parents[2] / "docs"
ROOMS = (
    "unbend", "unbend.functional", "unbend.metrics", "unbend.baselines", "unbend.workflows",
    "unbend.loggers", "unbend.deploy", "unbend.hub", "unbend.report.plots",
)  # fmt: skip


def documented():
    """Names of the API page; `module.*` where all members of a module are shown."""
    page = (DOCS / "api.md").read_text(encoding="utf-8")
    found = set()
    for kind, name, options in re.findall(
        r"^\.\. auto(module|class|function):: (\S+)\n((?: {3,}\S.*\n)*)", page, re.M
    ):
        found.add(name)
        members = re.search(r":members:([^:]*)", options)
        if members:
            listed = re.findall(r"\w+", members[1])
            found |= {f"{name}.{member}" for member in listed or ["*"]}
        assert kind != "module" or members or ":no-members:" in options, name
    return found


@pytest.mark.parametrize("room", ROOMS)
def test_every_public_name_is_on_the_api_page(room):
    found = documented()
    module = import_module(room)
    public = set(getattr(module, "__all__", ())) - {"__version__"}
    if room == "unbend.baselines":  # each peer registers itself
        public = {method.cls.__name__ for method in module.METHODS.values()}
    homes = (room, "unbend") if room == "unbend.report.plots" else (room,)
    missing = [n for n in public if not {f"{home}.{n}" for home in homes} & found]
    assert missing == [] or f"{room}.*" in found


def test_every_method_of_the_estimator_is_on_the_api_page():
    classes = [c for c in MLC.__mro__ if c.__module__.startswith("unbend")]
    things = {name: thing for c in classes for name, thing in vars(c).items()}
    own = {n for n, v in things.items() if inspect.isfunction(v) or isinstance(v, property)}
    public = {f"unbend.MLC.{name}" for name in own if not name.startswith("_")}
    public -= {"unbend.MLC.set_fit_request"}  # scikit-learn's own
    assert public - documented() == set()


def test_every_name_on_the_api_page_exists():
    for name in documented():
        if name.endswith(".*"):
            continue
        parts = name.split(".")
        for cut in range(len(parts), 0, -1):
            try:
                thing = import_module(".".join(parts[:cut]))
            except ModuleNotFoundError:
                continue
            break
        for part in parts[cut:]:
            known = part in getattr(thing, "__annotations__", {}) or hasattr(thing, part)
            assert known, name
            thing = getattr(thing, part, None)


def test_the_page_of_commands_has_every_option(tmp_path):
    space = runpy.run_path(str(DOCS / "conf.py"))
    space["write_command_pages"].__globals__["GENERATED"] = tmp_path
    space["write_command_pages"](None)
    page = (tmp_path / "commands.md").read_text(encoding="utf-8")
    for name, command in main.commands.items():
        section = page.split(f"## unbend {name}\n")[1].split("\n## ")[0]
        for parameter in command.params:
            for option in parameter.opts if parameter.param_type_name == "option" else []:
                assert option in section or getattr(parameter, "hidden", False), (name, option)
