"""Folders of small pictures, and of files that only look like pictures."""

from pathlib import Path

import numpy as np
from PIL import Image


def picture(path: Path, seed: int = 0, size: int = 8) -> Path:
    """One PNG file of noise."""
    path.parent.mkdir(parents=True, exist_ok=True)
    values = np.random.default_rng(seed).integers(0, 256, (size, size, 3), np.uint8)
    Image.fromarray(values).save(path, "PNG")
    return path


def fill(folder: Path, n: int) -> Path:
    """A folder of n pictures: 0000.png, 0001.png, ..."""
    for i in range(n):
        picture(folder / f"{i:04}.png", seed=i)
    return folder


def spoil(folder: Path) -> dict[str, str]:
    """Twenty files that are no images; returns a word of the reason for each."""
    good = (folder / "0000.png").read_bytes()
    bomb = good[:16] + b"\0\1\0\0\0\1\0\0" + good[24:]  # 65,536 x 65,536 pixels
    reasons = {}
    for i in range(3):
        for name, content, reason in [
            (f"cut {i}.png", good[: len(good) // 2], ""),
            (f"zero {i}.png", b"", "empty file"),
            (f"text {i}.jpg", b"words, words", "not an image of a known format"),
            (f"bomb {i}.png", bomb, ""),
            (f"line\nbreak {i}.png", b"\0" * 50, "not an image of a known format"),
        ]:
            (folder / name).write_bytes(content)
            reasons[name] = reason
        (folder / f"x{i}.png").mkdir()
        reasons[f"x{i}.png"] = "a folder, not an image"
    for name in ("link 1.png", "link 2.png"):
        (folder / name).symlink_to(folder / "gone")
        reasons[name] = "link to nowhere"
    return reasons
