"""What every wrong call must do: exit code 2, one line, nothing left behind."""

from pathlib import Path

__all__ = ["check", "ids", "snapshot"]


def snapshot(folder: Path) -> dict[str, bytes | None]:
    files = (p for p in folder.rglob("*") if ".cache" not in p.parts)
    return {str(p): p.read_bytes() if p.is_file() else None for p in files}


def check(unbend, arguments, words, tmp_path) -> None:
    before = snapshot(tmp_path)
    done = unbend(*arguments)
    assert done.exit_code == 2, (done.exit_code, done.output, done.exception)
    lines = done.stderr.strip().splitlines()
    lines = lines[1:] if lines[0].startswith("reading ") else lines  # said before all checks
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith("unbend: ")
    assert words in lines[0]
    assert done.stdout == ""
    assert snapshot(tmp_path) == before


def ids(value) -> str:
    return " ".join(value) if isinstance(value, list) else ""
