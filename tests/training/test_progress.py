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
