"""What starting up imports, by the names of modules: times depend on the machine."""

import subprocess
import sys

import pytest

# Each takes as long as torch, or is not needed before training begins.
SLOW = (
    "PIL", "click", "jinja2", "kornia", "lightning_fabric", "matplotlib", "rich", "sklearn.cluster",
    "sklearn.metrics", "sympy", "torch._dynamo", "unbend.baselines", "unbend.experiments",
    "unbend.report", "unbend.sources",
)  # fmt: skip


def loaded_after(code: str) -> set[str]:
    """Names of the modules that a fresh interpreter has loaded after some code."""
    tell = "\nimport sys; print('LOADED', *sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code + tell], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return set(done.stdout.strip().splitlines()[-1].split())


@pytest.fixture(scope="module")
def floor() -> set[str]:
    """What the two libraries load that an estimator cannot do without."""
    return loaded_after("import torch, sklearn.base")


def test_the_estimator_imports_nothing_slow(floor):
    loaded = loaded_after("from unbend import MLC; MLC(n_clusters=3)")
    assert "unbend.estimator" in loaded
    assert sorted(loaded & set(SLOW) - floor) == []


def test_choosing_a_device_does_not_need_fabric():
    loaded = loaded_after("from unbend.devices import pick_device; pick_device('cpu')")
    assert not loaded & {"lightning_fabric", "torch._dynamo"}


FIRST_LINE = """
import sys
import unbend.cli.options as options
from unbend.cli import main

def announce(text, quiet, then=options.announce):
    then(text, quiet)
    print("TORCH", "torch" in sys.modules, text)
    raise SystemExit(0)

options.announce = announce
main(["cluster", "no-such-file.npy"], prog_name="unbend")
"""


def test_the_first_line_comes_before_torch():
    done = subprocess.run(
        [sys.executable, "-c", FIRST_LINE], capture_output=True, text=True, timeout=60
    )
    assert done.stdout.strip() == "TORCH False reading no-such-file.npy"
    assert done.stderr.strip() == "reading no-such-file.npy"
