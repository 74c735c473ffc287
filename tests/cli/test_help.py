"""Help answers at once: it imports nothing heavy."""

import subprocess
import sys

import click
import numpy as np
import pytest

from unbend.cli import main

COMMANDS = list(main.commands)

CODE = """
import sys
from unbend.cli import main
for arguments in {calls!r}:
    try:
        main(arguments, prog_name="unbend")
    except SystemExit as end:
        assert end.code in (0, None), (arguments, end.code)
heavy = ("torch", "sklearn", "scipy", "numpy", "pyarrow", "PIL", "rich", "pandas")
print("HEAVY", [name for name in heavy if name in sys.modules])
"""


def test_no_help_imports_what_computes():
    """By what is loaded, not by the clock, which depends on the machine."""
    calls = [["--help"], ["--version"], [], *([name, "--help"] for name in COMMANDS)]
    done = subprocess.run(
        [sys.executable, "-c", CODE.format(calls=calls)],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().splitlines()[-1] == "HEAVY []"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself(unbend, name):
    text = unbend(name, "--help").stdout
    assert f"unbend {name}" in text.split("Options:")[0]  # the usage and an example
    options = [p for p in main.commands[name].params if isinstance(p, click.Option)]
    assert [option.name for option in options if not option.help] == []


@pytest.mark.parametrize("name", [n for n in COMMANDS if n != "completion"])
def test_every_command_is_a_documented_function(name):
    import unbend.workflows

    function = getattr(unbend.workflows, name)
    assert callable(function)
    assert function.__doc__
    assert f"unbend.workflows.{name}(" in main.commands[name].help


CLUSTER = """
import sys
from unbend.cli import main
try:
    main(["cluster", {input!r}, "-k", "2", "-q", "--no-report", "-o", {out!r}, "--set",
          "pretrain.max_steps=1",
          "--set", "stage2.max_steps=1"], prog_name="unbend")
except SystemExit as end:
    assert end.code in (0, None), end.code
print("EXPERIMENTS", sorted(name for name in sys.modules if "experiments" in name))
"""


def test_cluster_does_not_load_the_experiments(tmp_path):
    np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(40, 3)))
    code = CLUSTER.format(input=str(tmp_path / "x.npy"), out=str(tmp_path / "run"))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().splitlines()[-1] == "EXPERIMENTS []"


def test_help_of_reproduce_lists_every_experiment(unbend):
    from unbend.experiments import EXPERIMENTS

    text = unbend("reproduce", "--help").stdout
    assert [name for name in EXPERIMENTS if f"  {name} " not in text] == []
