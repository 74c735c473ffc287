"""Folders of images: what is listed, what is decoded, and what is left out."""

import multiprocessing
import os
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests.generators.folders import fill, picture, spoil

from unbend.exceptions import UnbendWarning
from unbend.pixels import pixel_cache as pixels
from unbend.pixels import workers
from unbend.pixels.decode import Decoded, read_image
from unbend.pixels.folders import Broken, list_images
from unbend.sources import open_source


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "cache"


# ---------------------------------------------------------------- listing


def test_recursive_sorted_by_bytes_hidden_skipped(tmp_path):
    wanted = ["B.PNG", "a/10.jpg", "a/9.jpeg", "a.png", "é.webp", "z,\n.tif", "b/c/d.GIF"]
    for name in [*wanted, ".hidden.png", ".git/x.png", "a/.cache/y.png", "notes.txt", "png"]:
        picture(tmp_path / name)
    listing = list_images(tmp_path)
    assert listing.names == sorted(wanted, key=os.fsencode)
    assert listing.names[:2] == ["B.PNG", "a.png"]
    assert listing.broken == []


def test_names_that_are_not_unicode(tmp_path, cache):
    raw = os.fsencode(tmp_path) + b"/caf\xe9.png"
    picture(tmp_path / "x.png")
    os.rename(tmp_path / "x.png", raw)
    for _ in range(2):
        source = open_source(tmp_path, cache_dir=cache)
        assert [os.fsencode(name) for name in source.names] == [b"caf\xe9.png"]
        assert os.fsencode(source.paths[0]) == raw
    assert source.decoded == 0


def test_links_and_loops(tmp_path):
    picture(tmp_path / "a" / "1.png")
    (tmp_path / "a" / "loop").symlink_to(tmp_path)
    (tmp_path / "b").symlink_to(tmp_path / "a")
    (tmp_path / "c.png").symlink_to(tmp_path / "a" / "1.png")
    (tmp_path / "d.png").symlink_to(tmp_path / "nothing")
    (tmp_path / "e.png").symlink_to(tmp_path / "e.png")
    listing = list_images(tmp_path)
    assert listing.names == ["a/1.png", "c.png"]
    assert [b.path for b in listing.broken] == ["d.png", "e.png"]
    assert listing.broken[0].reason == "link to nowhere"


def test_folders_and_pipes_are_not_images(tmp_path):
    (tmp_path / "x.png").mkdir()
    picture(tmp_path / "x.png" / "inside.png")
    os.mkfifo(tmp_path / "pipe.jpg")
    listing = list_images(tmp_path)
    assert listing.names == []
    assert listing.broken == [
        Broken("pipe.jpg", "not a regular file"),
        Broken("x.png", "a folder, not an image"),
    ]


# ---------------------------------------------------------------- the source


def test_a_folder_as_a_source(tmp_path, cache):
    photos = tmp_path / "my photos"
    for i, name in enumerate(["cats/1.png", "cats/old/2.png", "dogs/1.png"]):
        picture(photos / name, seed=i)
    source = open_source(str(photos), image_size=8, cache_dir=cache, labels="folders")
    assert (source.kind, source.name, source.split, len(source)) == (
        "images",
        "my-photos",
        "all",
        3,
    )
    assert source.names == ["cats/1.png", "cats/old/2.png", "dogs/1.png"]
    assert list(source.paths) == [photos / name for name in source.names]
    assert list(source.paths[1:]) == [photos / name for name in source.names[1:]]
    assert (source.y.tolist(), source.classes) == ([0, 0, 1], ["cats", "dogs"])
    for i, path in enumerate(source.paths):
        with Image.open(path) as image:
            np.testing.assert_array_equal(source.X[i], np.asarray(image).transpose(2, 0, 1))
    assert isinstance(source.X, np.memmap)
    assert (source.X.dtype, source.broken) == (np.uint8, [])
    assert len(set(source.hashes)) == 3
    # The same pixels as an array, a second file or under another name have the same hash
    array = open_source(np.array(source.X))
    assert list(array.hashes) == list(source.hashes)
    assert open_source(photos, image_size=16, cache_dir=cache).hashes[0] != source.hashes[0]


def test_default_size_and_cache_place(tmp_path, monkeypatch):
    monkeypatch.setenv("UNBEND_CACHE", str(tmp_path / "elsewhere"))
    fill(tmp_path / "photos", 2)
    assert open_source(tmp_path / "photos").X.shape == (2, 3, 64, 64)
    assert list((tmp_path / "elsewhere" / "pixels").iterdir())


def test_labels_of_files_follow_them_when_some_are_broken(tmp_path, cache):
    fill(tmp_path / "photos", 6)
    (tmp_path / "photos" / "0002.png").write_bytes(b"")
    np.save(tmp_path / "y.npy", np.arange(6) * 10)
    rows = "".join(f"{i:04}.png,c{i}\n" for i in reversed(range(6)))
    (tmp_path / "y.csv").write_text("path,label\n" + rows)
    options = {"cache_dir": cache, "max_broken": 0.5}
    by_row = open_source(tmp_path / "photos", labels=tmp_path / "y.npy", **options)
    assert by_row.classes == ["0", "10", "30", "40", "50"]
    by_name = open_source(tmp_path / "photos", labels=str(tmp_path / "y.csv"), **options)
    assert by_name.classes == ["c0", "c1", "c3", "c4", "c5"]
    assert by_name.y.tolist() == [0, 1, 2, 3, 4]
    with pytest.raises(ValueError, match="one per image file, got 3 for 6"):
        open_source(tmp_path / "photos", labels=[1, 2, 3], **options)
    with pytest.raises(ValueError, match="labels='folders' needs sub-folders"):
        open_source(tmp_path / "photos", labels="folders", **options)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda p: p.mkdir(), "holds no images; give a folder with files of these kinds: .jpg"),
        (lambda p: picture(p / "a.dat"), "holds no images"),
        (lambda p: (p / "x.png").mkdir(parents=True), "holds only unreadable images"),
        (lambda p: picture(p / "a.png").write_bytes(b""), r"1 of 1 files .* 'a.png': empty file"),
    ],
)
def test_folders_without_images(tmp_path, cache, make, words):
    make(tmp_path / "photos")
    with pytest.raises(ValueError, match=words) as caught:
        open_source(tmp_path / "photos", cache_dir=cache, max_broken=1)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"image_size": 3}, "`image_size` must be a whole number from 4 to 4096, got 3"),
        ({"image_size": 64.5}, "`image_size`"),
        ({"image_size": True}, "`image_size`"),
        ({"max_broken": 1.5}, "`max_broken` must be a share from 0 to 1, got 1.5"),
        ({"max_broken": float("nan")}, "`max_broken`"),
        ({"workers": -1}, "`workers` must be a whole number >= 0 or None, got -1"),
        ({"workers": 1.5}, "`workers`"),
    ],
)
def test_invalid_options_raise(tmp_path, cache, options, words):
    fill(tmp_path / "photos", 1)
    with pytest.raises(ValueError, match=words):
        open_source(tmp_path / "photos", cache_dir=cache, **options)


def test_a_cache_that_cannot_be_written(tmp_path):
    fill(tmp_path / "photos", 1)
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match=r"cannot cache decoded images in .*or set UNBEND_CACHE"):
        open_source(tmp_path / "photos", cache_dir=tmp_path / "file")


# ---------------------------------------------------------------- broken files


@pytest.mark.parametrize("n", [200, pytest.param(2000, marks=pytest.mark.slow)])
def test_broken_files_change_nothing_else(tmp_path, cache, n):
    folder = fill(tmp_path / "photos", n)
    before = open_source(folder, image_size=8, cache_dir=cache, workers=0)
    reasons = spoil(folder)
    assert len(reasons) == 20
    options = {"image_size": 8, "cache_dir": tmp_path / "other", "workers": 0}
    after = open_source(folder, **options, max_broken=20 / n)
    assert {b.path for b in after.broken} == set(reasons)
    for path, reason in after.broken:
        assert reason
        assert reasons[path] in reason
        assert "\n" not in reason
    assert after.names == before.names
    np.testing.assert_array_equal(after.X, before.X)
    assert after.hashes == before.hashes
    again = open_source(folder, **options, max_broken=20 / n)
    assert (again.decoded, again.broken) == (0, after.broken)
    share = f"{20 / (n + 20):.1%}"
    with pytest.raises(
        ValueError, match=rf"20 of {n + 20} files .*{share}, limit 0\.5%.*max_broken"
    ):
        open_source(folder, **options, max_broken=0.005)


def test_temporary_failures_are_retried(tmp_path, cache, monkeypatch):
    folder = fill(tmp_path / "photos", 3)

    def failing(path: str, size: int) -> Decoded:
        if path.endswith("0001.png"):
            return Decoded(b"", None, "Input/output error", lasting=False)
        return read_image(path, size)

    monkeypatch.setattr(workers, "read_image", failing)
    source = open_source(folder, cache_dir=cache, max_broken=0.5)
    assert source.broken == [Broken("0001.png", "Input/output error")]
    monkeypatch.undo()
    source = open_source(folder, cache_dir=cache)
    assert (len(source), source.decoded, source.broken) == (3, 1, [])


# ---------------------------------------------------------------- workers


def test_the_number_of_workers_changes_nothing(tmp_path):
    folder = fill(tmp_path / "photos", 150)
    (folder / "0070.png").write_bytes(b"no")
    found = [
        open_source(folder, image_size=16, workers=n, cache_dir=tmp_path / str(n))
        for n in (0, 1, 3)
    ]
    for other in found[1:]:
        assert other.names == found[0].names
        assert other.broken == found[0].broken
        assert other.hashes == found[0].hashes
        np.testing.assert_array_equal(other.X, found[0].X)


def test_ticks_count_images_and_their_rate(tmp_path, cache):
    folder = fill(tmp_path / "photos", 40)
    ticks = []
    open_source(folder, cache_dir=cache, progress=ticks.append)
    assert {tick.stage for tick in ticks} == {"decode"}
    assert (ticks[-1].done, ticks[-1].total) == (40, 40)
    assert ticks[-1].values["images/s"] > 0
    ticks.clear()
    open_source(folder, cache_dir=cache, progress=ticks.append)
    assert ticks == []


def test_workers_do_not_run_the_script_again_nor_import_its_neighbours(tmp_path):
    """The script has no ``if __name__ == "__main__"``, and a bad module beside it."""
    folder = fill(tmp_path / "photos", 40)
    (tmp_path / "struct.py").write_text("raise SystemExit('shadowed')")
    home = Path(workers.__file__).parent
    script = tmp_path / "script.py"
    script.write_text(
        "import sys, types; sys.path.pop(0)\n"
        "for name in ('unbend', 'unbend.pixels'):  # the packages without what they import\n"
        "    sys.modules[name] = types.ModuleType(name)\n"
        f"sys.modules['unbend.pixels'].__path__ = [{str(home)!r}]\n"
        "from unbend.pixels.workers import decode_all\n"
        f"paths = [{str(folder)!r} + f'/{{i:04}}.png' for i in range(40)]\n"
        "found = list(decode_all(paths, 8, workers=2))\n"
        "print('found', sum(f.pixels is not None for f in found), 'torch' in sys.modules)\n"
    )
    run = subprocess.run(
        [sys.executable, str(script)], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert run.stdout == "found 40 False\n", run.stderr


def test_a_file_that_kills_its_worker_is_reported_and_the_others_continue(tmp_path, monkeypatch):
    folder = fill(tmp_path / "photos", 40)
    source = Path(workers.decode.__file__).read_text()
    deadly = source.replace(
        '    content = b""\n',
        '    os.kill(os.getpid(), 9) if "0017" in path else None\n    content = b""\n',
    )
    assert deadly != source
    (tmp_path / "deadly.py").write_text(deadly)
    monkeypatch.setattr(workers.decode, "__file__", str(tmp_path / "deadly.py"))
    paths = [str(folder / f"{i:04}.png") for i in range(40)]
    found = list(workers.decode_all(paths, 8, workers=2))
    assert [i for i, each in enumerate(found) if each.pixels is None] == [17]
    assert found[17].reason == "the decoder crashed (exit code -9)"
    assert not found[17].lasting
    assert found[18] == read_image(paths[18], 8)


def test_workers_end_when_the_reader_stops_early(tmp_path):
    folder = fill(tmp_path / "photos", 100)
    started = []
    start = workers._start
    workers._start = lambda size: started.append(start(size)) or started[-1]
    try:
        results = workers.decode_all([str(p) for p in sorted(folder.iterdir())], 8, workers=2)
        next(results)
        results.close()
    finally:
        workers._start = start
    assert started
    assert all(process.poll() is not None for process in started)


# ---------------------------------------------------------------- the cache


@pytest.fixture
def decodes(monkeypatch):
    """The paths that were decoded, in order."""
    seen: list[str] = []

    def counting(path: str, size: int) -> Decoded:
        seen.append(os.path.basename(path))
        return read_image(path, size)

    monkeypatch.setattr(workers, "read_image", counting)
    return seen


def test_only_new_images_are_decoded(tmp_path, cache, decodes):
    folder = fill(tmp_path / "photos", 5)

    def reopen() -> tuple[list[str], np.ndarray]:
        decodes.clear()
        source = open_source(folder, image_size=8, cache_dir=cache, max_broken=0.5)
        for path, x in zip(source.paths, source.X, strict=True):
            expected = read_image(str(path), 8).pixels
            assert x.tobytes() == expected
        assert source.decoded == len(decodes)
        return list(decodes), source.X

    assert reopen()[0] == [f"{i:04}.png" for i in range(5)]
    held = reopen()
    assert held[0] == []
    kept = np.array(held[1])
    picture(folder / "0002.png", seed=77)  # changed
    assert reopen()[0] == ["0002.png"]
    np.testing.assert_array_equal(held[1], kept)  # who still holds the old state keeps it
    picture(folder / "0001b.png", seed=78)  # added
    assert reopen()[0] == ["0001b.png"]
    (folder / "0003.png").unlink()  # removed
    assert reopen()[0] == []
    os.utime(folder / "0000.png", (1, 1))  # touched
    assert reopen()[0] == []
    (folder / "0004.png").rename(folder / "zzz.png")  # renamed
    assert reopen()[0] == []
    (folder / "0000.png").write_bytes(b"")  # broken, then repaired
    assert reopen()[0] == ["0000.png"]
    assert reopen()[0] == []
    picture(folder / "0000.png", seed=0)
    assert reopen()[0] == ["0000.png"]


def test_a_file_replaced_by_one_of_the_same_size_and_age_is_noticed(tmp_path, cache, decodes):
    folder = tmp_path / "photos"
    folder.mkdir()
    for i, name in enumerate(["a.bmp", "b.bmp"]):
        values = np.random.default_rng(i).integers(0, 256, (8, 8, 3), np.uint8)
        Image.fromarray(values).save(folder / name)
        os.utime(folder / name, (1, 1))
    before = np.array(open_source(folder, image_size=8, cache_dir=cache).X)
    (folder / "a.bmp").rename(folder / "c")
    (folder / "b.bmp").rename(folder / "a.bmp")
    (folder / "c").rename(folder / "b.bmp")
    after = open_source(folder, image_size=8, cache_dir=cache).X
    np.testing.assert_array_equal(after, before[::-1])
    assert len(decodes) == 2  # both contents were known


@pytest.mark.parametrize(
    ("damage", "decoded"), [("index", 4), ("cut", 1), ("zeroed", 1), ("gone", 4), ("touched", 0)]
)
def test_damaged_cache_is_recomputed(tmp_path, cache, damage, decoded):
    folder = fill(tmp_path / "photos", 4)
    before = np.array(open_source(folder, cache_dir=cache).X)
    (home,) = (cache / "pixels").iterdir()
    (file,) = home.glob("pixels-*.bin")
    (index,) = home.glob("index*")
    content = file.read_bytes()
    if damage == "index":
        index.write_bytes(index.read_bytes()[:100])
    elif damage == "gone":
        file.unlink()
    else:
        zeroed = bytes(100) + content[100:]
        changed = {"cut": content[:-1], "zeroed": zeroed, "touched": content}
        file.write_bytes(changed[damage])
    for expected in (decoded, 0):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnbendWarning)
            source = open_source(folder, cache_dir=cache)
        assert source.decoded == expected
        np.testing.assert_array_equal(source.X, before)


def test_the_folders_used_last_are_kept(tmp_path, cache, monkeypatch):
    monkeypatch.setattr(pixels, "_MAX_CACHES", 2)
    folders = [fill(tmp_path / name, 2) for name in "abc"]
    for folder in folders:
        open_source(folder, image_size=8, cache_dir=cache)
        for home in (cache / "pixels").iterdir():
            os.utime(home, (home.stat().st_mtime - 10,) * 2)
    assert len(list((cache / "pixels").iterdir())) == 2
    assert open_source(folders[2], image_size=8, cache_dir=cache).decoded == 0
    assert open_source(folders[0], image_size=8, cache_dir=cache).decoded == 2


def test_leftovers_are_swept(tmp_path, cache):
    folder = fill(tmp_path / "photos", 3)
    open_source(folder, cache_dir=cache)
    (home,) = (cache / "pixels").iterdir()
    (home / "pixels-dead.bin").write_bytes(b"half")
    (home / ".index.x.tmp").write_bytes(b"half")
    picture(folder / "new.png", seed=5)
    open_source(folder, cache_dir=cache)
    assert sorted(p.name.split("-")[0] for p in home.iterdir()) == [
        "index.v2.safetensors",
        "lock",
        "pixels",
    ]


def test_decoded_images_survive_an_interrupt(tmp_path, cache, monkeypatch):
    folder = fill(tmp_path / "photos", 30)
    monkeypatch.setattr(pixels, "CHECKPOINT_SECONDS", 0.0)

    def interrupted(path: str, size: int) -> Decoded:
        if path.endswith("0020.png"):
            raise KeyboardInterrupt
        return read_image(path, size)

    monkeypatch.setattr(workers, "read_image", interrupted)
    with pytest.raises(KeyboardInterrupt):
        open_source(folder, image_size=8, cache_dir=cache)
    monkeypatch.undo()
    source = open_source(folder, image_size=8, cache_dir=cache)
    assert source.decoded == 10
    for path, x in zip(source.paths, source.X, strict=True):
        assert x.tobytes() == read_image(str(path), 8).pixels


def build(folder: Path, cache: Path, answer: multiprocessing.Queue) -> None:
    names = list_images(folder).names
    answer.put("go")
    answer.put(pixels.open_pixels(folder, names, 64, cache, workers=0).decoded)


def start(folder: Path, cache: Path) -> tuple[multiprocessing.Process, multiprocessing.Queue]:
    fork = multiprocessing.get_context("fork")
    answer = fork.Queue()
    process = fork.Process(target=build, args=(folder, cache, answer))
    process.start()
    assert answer.get(timeout=60) == "go"
    return process, answer


def test_kill_at_any_moment_leaves_a_good_cache(tmp_path, cache, monkeypatch):
    monkeypatch.setattr(pixels, "CHECKPOINT_SECONDS", 0.02)
    folder = fill(tmp_path / "photos", 300)
    for wait in (0.0, 0.03, 0.1):
        process, _ = start(folder, cache)
        time.sleep(wait)
        process.kill()
        process.join()
    monkeypatch.undo()
    source = open_source(folder, cache_dir=cache, workers=0)
    assert len(source) == 300
    for path, x in zip(source.paths, source.X, strict=True):
        assert x.tobytes() == read_image(str(path), 64).pixels


def test_two_processes_at_once_decode_once(tmp_path, cache):
    folder = fill(tmp_path / "photos", 300)
    both = [start(folder, cache) for _ in range(2)]
    assert sorted(answer.get(timeout=60) for _, answer in both) == [0, 300]
    for process, _ in both:
        process.join()
