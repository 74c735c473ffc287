"""Wrong calls on tables, texts, images and lists of them: one line each, nothing left behind."""

import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest
from PIL import Image
from tests.cli.wrong import check, ids


@pytest.fixture
def place(unbend, vectors, trained):
    """Tables, texts and pictures, good and bad."""
    rows = "".join(f"{i},{x[0]},{x[1]},{i % 4},w{i}\n" for i, x in enumerate(vectors))
    Path("good.csv").write_text("id,height,width,label,city\n" + rows)
    Path("good.tsv").write_text("a\tb\n1\t2\n3\t4\n")
    Path("header.csv").write_text("a,b\n")
    Path("empty.csv").write_text("")
    Path("blank.csv").write_text("\n\n\n")
    Path("ragged.csv").write_text("a,b\n1,2\n3\n4,5\n")
    Path("long.csv").write_text("a,b\n1,2\n3,4,5\n")
    Path("twice.csv").write_text("a,a\n1,2\n3,4\n")
    Path("words.csv").write_text("name,body\nx,some words\ny,other words\n")
    Path("ids.csv").write_text("id,label\n" + "".join(f"{i},{i % 2}\n" for i in range(30)))
    Path("holes.csv").write_text(
        "a,b\n" + "".join(f"{i}.5,{'' if i < 8 else 1}\n" for i in range(30))
    )
    Path("noid.csv").write_text("who,a,b\n,1,2\nx,3,4\n")
    Path("wide.csv").write_text(
        ",".join(f"c{i}" for i in range(99)) + "\n" + ",".join("1" * 99) + "\n"
    )
    Path("silent.csv").write_text("body\n" + "   \n" * 9)
    Path("numbers.csv").write_text("body\n" + "".join(f"{i} {i + 1}\n" for i in range(9)))
    Path("other.csv").write_text("a,b\n" + "1,2\n" * 9)
    Path("short.csv").write_text("label\na\nb\n")
    Path("missing.csv").write_text("path\nno.png\n")
    Path("bad.feather").write_text("hello")
    Path("bad.arrow").write_bytes(b"")
    lists = {"v": [[1.0, 2.0]] * 9, "w": [[1.0, 2.0]] * 9}
    pq.write_table(pa.table(lists), "lists.parquet")
    pq.write_table(pa.table({"v": [[1.0, 2.0]] * 8 + [[1.0]]}), "ragged.parquet")
    pq.write_table(pa.table({"v": [["a"]] * 9}), "words.parquet")
    pq.write_table(pa.table({}), "none.parquet")
    feather.write_feather(pa.table({"a": np.zeros(0)}), "rows.feather")
    Path("sheet.xlsx").write_text("hello")
    Path("packed.csv.gz").write_bytes(b"\x1f\x8b")
    Path("notes").mkdir()
    for i in range(6):
        Path(f"notes/{i}.txt").write_text(f"word{i} and more")
    Path("blanks").mkdir()
    for i in range(6):
        Path(f"blanks/{i}.md").write_text(" \n")
    Path("apple").mkdir()
    Path("apple/a.jxl").write_text("x")
    Path("photos").mkdir()
    Image.new("RGB", (9, 9)).save("photos/a.png")
    np.save("blobs.npy", vectors)
    np.savez("arrays.npz", X=vectors, label=np.arange(120) % 4)
    shutil.copytree(trained, "run")
    return unbend


TABLES = [
    (["header.csv"], "'header.csv' has no rows; give at least one"),
    (["empty.csv"], "'empty.csv' is empty; give one sample per line"),
    (["blank.csv"], "'blank.csv' is empty; give one sample per line"),
    (["ragged.csv"], "line 3 of 'ragged.csv' has 1 cells instead of 2; put quotes around"),
    (["long.csv"], "line 3 of 'long.csv' has 3 cells instead of 2"),
    (["twice.csv"], "'twice.csv' has several columns called 'a'; rename them"),
    (["words.csv"], "it holds: name, body; cluster texts with --text body"),
    (["ids.csv"], "name the columns to take, as in --columns label"),
    (["holes.csv"], "8 of 30 rows of 'holes.csv' cannot be used (26.7%, limit 10.0%)"),
    (["holes.csv", "--strict"], "8 of 30 rows of 'holes.csv' cannot be used (26.7%, limit 0.0%)"),
    (["holes.csv", "--strict"], "'0': NaN in b; '1': NaN in b; '2': NaN in b; repair them, or"),
    (["good.tsv"], "n_clusters='auto' of MLC needs at least 5 samples, got n_samples=2"),
    (["sheet.xlsx"], "cannot read 'sheet.xlsx'; save the table as .csv or .parquet, for"),
    (["packed.csv.gz"], "cannot read 'packed.csv.gz', which is packed; unpack it first"),
    (["goood.csv"], "no file, folder or data set 'goood.csv'; did you mean 'good.csv'?"),
    (["far/goood.csv"], "no file, folder or data set 'far/goood.csv'; give a folder of images"),
    (["bad.feather"], "'bad.feather' is damaged or not a valid .feather"),
    (["bad.arrow"], "'bad.arrow' is damaged or not a valid .arrow"),
    (["lists.parquet"], "several columns of lists: v, w; choose one with --columns v"),
    (["lists.parquet:z"], "'lists.parquet' has no column 'z'; it holds: v, w"),
    (["ragged.parquet"], "row 8 of 'v' in 'ragged.parquet' has 1 numbers, others have 2"),
    (["words.parquet"], "'words.parquet' has no columns of numbers; it holds: v"),
    (["none.parquet"], "'none.parquet' has no columns"),
    (["rows.feather"], "'rows.feather' has no rows"),
    (["missing.csv"], "1 of 1 files of 'missing.csv' cannot be read"),
    (["wide.csv", "--id", "x"], "c10, ..., c98 (99 in all)"),
    (["good.csv", "--id", "Id"], "--id: 'good.csv' has no column 'Id'; did you mean 'id'?"),
    (["good.csv", "--id", "zzz"], "no column 'zzz'; it holds: id, height, width, label, city"),
    (["good.csv", "--columns", "hieght"], "did you mean 'height'?"),
    (["good.csv", "--columns", "h*,q*"], "--columns: 'good.csv' has no column 'q*'"),
    (["good.csv", "--columns", "city"], "column 'city' of 'good.csv' holds string, not numbers"),
    (["good.csv", "--columns", ","], "--columns names no column; it holds: id"),
    (["good.csv", "--exclude", "colour"], "--exclude: 'good.csv' has no column 'colour'"),
    (["good.csv", "--exclude", "height,width"], "has no columns of numbers except label"),
    (["good.csv", "--columns", "height", "--exclude", "h*"], "'height' is in --columns and in"),
    (["good.csv", "--labels", "lable"], "has no column 'lable'; did you mean 'label'?"),
    (["good.csv", "--labels", "gone.npy"], "file 'gone.npy' does not exist"),
    (["good.csv", "--labels", "short.csv"], "--labels must be one per sample, got 2 for 120"),
    (["good.csv", "--labels", "folders"], "labels='folders' is for folders of files"),
    (["good.csv", "--text", "bdoy"], "--text: 'good.csv' has no column 'bdoy'"),
    (["good.csv", "--text", "height"], "holds double, not text; cluster texts with --text city"),
    (["noid.csv", "--id", "who", "-k", "2"], "column 'who' of 'noid.csv' is empty in row 0"),
    (["lists.parquet", "--columns", "v,w"], "'v' of 'lists.parquet' holds vectors; name only this"),
    (["good.csv", "--encoder", "tfidf"], "encoder tfidf is for texts, and 'good.csv' holds none"),
    (["good.csv", "--encoder", "lite2"], "an encoder is for images, and 'good.csv' holds vectors"),
    (["blobs.npy", "--id", "x"], "--id is for tables, and 'blobs.npy' is not one; leave it out"),
    (["blobs.npy", "--columns", "x"], "--columns is for tables, and 'blobs.npy' is not one"),
    (["blobs.npy", "--text", "x"], "--text is for tables, and 'blobs.npy' is not one"),
    (["digits", "--exclude", "x"], "--exclude is for tables, and 'digits' is not one"),
    (["photos", "--columns", "x"], "--columns is for tables, and 'photos' is not one"),
    (["photos", "--labels", "foldres"], "got 'foldres'; did you mean 'folders'?"),
    (["arrays.npz", "--labels", "lable"], "'arrays.npz' has no 'lable'; did you mean 'label'?"),
    (["apple"], "'apple' holds no images (1 .jxl skipped: convert it to PNG)"),
    (["notes", "--encoder", "none"], "texts need an encoder; leave --encoder out for tfidf"),
    (["notes", "--encoder", "lite2"], "no text encoder is called 'lite2'; use tfidf, hf:NAME"),
    (["notes", "--encoder", "photos"], "'photos' holds no .safetensors weights"),
    (["notes", "--labels", "folders"], "labels='folders' needs sub-folders"),
    (["blanks"], "6 of 6 files of 'blanks' cannot be read"),
    (["silent.csv", "--text", "body"], "9 of 9 rows of 'silent.csv' cannot be used"),
    (["numbers.csv", "--text", "body"], "the 9 texts share no words to compare"),
    (["words.csv", "--text", "body", "-k", "9"], "-k 9 is more than the 2 samples to train on"),
    (["nothing.csv", "-o", "run"], "no file, folder or data set 'nothing.csv'"),
    (["good.csv", "--columns", "hieght", "-o", "run"], "did you mean 'height'?"),
    (["good.csv", "--labels", "lable", "-o", "run"], "did you mean 'label'?"),
    (["good.csv", "-o", "run"], "'run' holds a run already; name a new directory"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "words"), TABLES, ids=ids)
def test_cluster(place, tmp_path, call, words):
    out = [] if "-o" in call else ["-o", "fresh/run"]
    check(place, ["cluster", *call, *out, "-q"], words, tmp_path)


OTHERS = [
    (["predict", "run", "other.csv"], "cannot label 'other.csv': X has 2 features, but MLC"),
    (["predict", "run", "words.csv"], "'words.csv' has no columns of numbers"),
    (["predict", "run", "notes"], "cannot label 'notes': X holds texts, but the model was fitted"),
    (["predict", "run", "photos", "-q"], "cannot label 'photos': X has 4 dimensions"),
    (["predict", "run", "blobs.npy", "--id", "x"], "--id is for tables"),
    (["predict", "run", "blobs.npy", "--format", "xml"], "'xml' is not one of 'csv'"),
    (["predict", "run", "blobs.npy", "--format", "imagefolder"], "imagefolder is for image files"),
    (["predict", "run", "blobs.npy", "-o", "-", "--json"], "both write to standard output"),
    (["predict", "run", "blobs.npy", "-o", "-", "--format", "parquet"], "-o - writes csv"),
    (["predict", "run", "blobs.npy", "--copy"], "--copy is for --format imagefolder"),
    (["predict", "run", "blobs.npy", "--format", "csv", "-o", "a.parquet"], "-o must end in .csv"),
    (["predict", "run", "photos", "--format", "imagefolder", "-o", "notes"], "already exists"),
    (["predict", "run", "holes.csv", "--strict"], "8 of 30 rows of 'holes.csv'"),
    (["export", "run", "--format", "csv", "-o", "a.parquet"], "-o must end in .csv"),
    (
        ["export", "run", "--format", "imagefolder", "--images", "photos"],
        "sample '0' is not an image",
    ),
    (["export", "run", "--format", "csv", "--copy"], "csv holds no images; leave --copy"),
    (["inspect", "nowhere"], "no file, folder or data set 'nowhere'"),
    (["inspect", "blobs.npy"], "inspect is for image files, and 'blobs.npy' holds vectors"),
    (["inspect", "notes"], "inspect is for image files, and 'notes' holds texts"),
    (["inspect"], "Missing argument 'FOLDER'"),
]


@pytest.mark.parametrize(("call", "words"), OTHERS, ids=ids)
def test_other_commands(place, tmp_path, call, words):
    check(place, call, words, tmp_path)


def test_there_are_sixty_more():
    assert len(TABLES) + len(OTHERS) >= 60
