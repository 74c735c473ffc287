import io
import re
import sys

import pytest

from unbend import progress
from unbend.progress import Tick, console_progress


def test_plain_lines_tell_the_time_left(monkeypatch, capsys):
    now = [50.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    with console_progress() as tell:
        for done in (41, 42, 71, 100):  # a resumed stage: it starts at 41 of 100
            tell(Tick("stage 1", done, 100, {"R": 5.25, "rank": 7, "images/s": 1234.5}))
            now[0] += 2.0 * (29 if done == 42 else 1)
    assert capsys.readouterr().err.splitlines() == [
        "stage 1  41/100  R 5.2  rank 7  images/s 1234",
        "stage 1  71/100  0:58 left  R 5.2  rank 7  images/s 1234",
        "stage 1  100/100  R 5.2  rank 7  images/s 1234",
    ]


def test_a_stage_that_is_repeated_is_said_once(capsys):
    with console_progress() as tell:
        tell(Tick("labels", 0, 300))
        for _ in range(5):  # once for each labelling that is compared
            tell(Tick("labels", 300, 300))
        tell(Tick("labels", 400, 400))
    assert capsys.readouterr().err.splitlines() == ["labels  300/300", "labels  400/400"]


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("width", [80, 160])
def test_bars_fit_into_a_terminal(monkeypatch, width):
    terminal = _Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    for name, value in {"COLUMNS": str(width), "TERM": "xterm", "NO_COLOR": "1"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("JUPYTER_COLUMNS", raising=False)
    values = {"R": 38.2, "R_c": 18.0, "delta_R": 20.1, "rank": 15, "samples/s": 25834}
    with console_progress() as tell:
        tell(Tick("number of clusters", 1, 1, text="what was read"))
        tell(Tick("choosing neighbours", 11, 11))
        tell(Tick("stage 2", 30, 40, values, left=61.0))
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", terminal.getvalue())
    lines = plain.replace("\r", "\n").splitlines()
    assert max(map(len, lines)) <= width
    assert any(line.strip() == "what was read" for line in lines)
    last = next(line for line in reversed(lines) if line.startswith("stage 2"))
    assert re.search(r"stage 2 +[━╸╺ ]{16,} +30/40 +0:00:0\d +1:01 left in all", last)
    assert ("delta_R 20.1" in last) == (width == 160)
    assert any(re.match(r"choosing neighbours +━{16}", line) for line in lines)


def test_a_notebook_shows_bars_and_messages(monkeypatch):
    display = pytest.importorskip("IPython.display")
    shown = []

    class Handle:
        def update(self, html):
            shown.append(html.data)

    monkeypatch.setattr(progress, "_in_notebook", lambda: True)
    monkeypatch.setattr(display, "display", lambda html, display_id: Handle())
    with console_progress() as tell:
        tell(Tick("plan", 1, 1, text="5 < 6 steps"))
        tell(Tick("stage 1", 2, 2))
    assert "5 &lt; 6 steps" in shown[-1]
    assert '<progress max="2" value="2"></progress> stage 1 2/2' in shown[-1]
    assert "plan 1/1" not in shown[-1]
