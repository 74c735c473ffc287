"""What the tests of killed runs share."""

from pathlib import Path

import pytest
import torch


@pytest.fixture(autouse=True)
def one_thread():
    """Threads do not survive a fork, and another number of them rounds differently."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def contents(run: Path) -> dict[str, bytes]:
    """Every file that must not depend on how often the run was interrupted."""
    changing = {"manifest.json", "report.html"}  # they hold seconds
    files = (p for p in run.rglob("*") if p.is_file() and p.name not in changing)
    return {str(p.relative_to(run)): p.read_bytes() for p in files}


def names(run: Path) -> set[str]:
    """All files and folders of a run."""
    return {str(p.relative_to(run)) for p in run.rglob("*")}
