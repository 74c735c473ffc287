"""Every form of input, with real files: cluster it, label it again, export it."""

import csv
import json
from pathlib import Path

import datasets
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image
from pillow_heif import register_heif_opener
from safetensors.numpy import save_file

from unbend.sources import open_source
from unbend.workflows import cluster, export, predict

register_heif_opener()  # to write HEIC
QUICK = {
    "pretrain.epochs": 1, "pretrain.head_steps": 1, "stage2.epochs": 1, "views.n_neighbors": 2,
    "views.metric": "euclidean", "stage2.eta": 0.2,
}  # fmt: skip
N = 16
V = np.repeat(np.eye(4) * 9, 4, axis=0) + np.random.default_rng(0).normal(size=(N, 4))
V = V.astype(np.float32)
COLUMNS = {f"x{j}": V[:, j] for j in range(4)}
IDS = [f"case {i:02}" for i in range(N)]
ROWS = [str(i) for i in range(N)]
PIXELS = np.random.default_rng(1).integers(0, 256, (N, 8, 8, 3), np.uint8)
PICTURES = [f"{i:02}.png" for i in range(N)]
WORDS = ["sun moon star sky", "fish boat sea wave", "tree leaf root wood", "coin bank cash loan"]
TEXTS = [f"{WORDS[i // 4]} {WORDS[i // 4].split()[i % 4]} number" for i in range(N)]


def lines(rows, separator=",", header=None) -> str:
    head = [separator.join(header)] if header else []
    return "\n".join([*head, *(separator.join(map(str, row)) for row in rows)]) + "\n"


def write(name: str, text: str, encoding: str = "utf-8") -> str:
    Path(name).write_text(text, encoding=encoding)
    return name


def table(name: str, columns: dict) -> str:
    if name.endswith(".parquet"):
        pq.write_table(pa.table(columns), name)
    elif name.endswith(".csv"):
        pd.DataFrame(columns).to_csv(name, index=False)
    else:
        feather.write_feather(pa.table(columns), name)
    return name


def save(name: str, X) -> str:
    np.save(name, X)
    return name


def archive(**arrays) -> str:
    np.savez("a.npz", **arrays)
    return "a.npz"


def tensors(**arrays) -> str:
    save_file(arrays, "a.safetensors")
    return "a.safetensors"


def indexed_parquet() -> str:
    pd.DataFrame(COLUMNS, index=pd.Index(IDS, name="case")).to_parquet("i.parquet")
    return "i.parquet"


def indexed_csv() -> str:
    pd.DataFrame(COLUMNS).to_csv("i.csv")  # its first column has no name
    return "i.csv"


def folder(kind: str = "png", within=lambda i: "") -> str:
    for i in range(N):
        place = Path("photos") / within(i)
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(PIXELS[i]).resize((32, 32)).save(place / f"{i:02}.{kind}")
    return "photos"


def listing(name: str, extra=None) -> str:
    folder()
    columns = {"path": [f"photos/{p}" for p in PICTURES]} | (extra or {})
    if name.endswith(".parquet"):
        return table(name, columns)
    separator = "\t" if name.endswith(".tsv") else ","
    return write(name, lines(zip(*columns.values(), strict=True), separator, columns))


def texts(kind: str) -> str:
    Path("notes").mkdir()
    for i, text in enumerate(TEXTS):
        (Path("notes") / f"{i:02}.{kind}").write_text(text)
    return "notes"


class Photos(torch.utils.data.Dataset):
    """As many torch data sets are: (image, label)."""

    def __len__(self) -> int:
        return N

    def __getitem__(self, i):
        return Image.fromarray(PIXELS[i]), i % 4


ID, Y = {"id": IDS}, {"label": np.arange(N) % 4}
QUOTED = [[f'"{name}, esq."', *row] for name, row in zip(IDS, V, strict=True)]
HF_IMAGES = {"image": [Image.fromarray(x) for x in PIXELS], "label": [0] * N}

# name: how to make the input, options, names of the samples
VECTORS = {
    "npy": (lambda: save("a.npy", V), {}, ROWS),
    "npy in Fortran order": (lambda: save("a.npy", np.asfortranarray(V)), {}, ROWS),
    "npz": (lambda: archive(whatever=V), {}, ROWS),
    "npz with a key": (lambda: archive(a=V, b=V[:3]) + ":a", {}, ROWS),
    "safetensors": (lambda: tensors(X=V), {}, ROWS),
    "csv": (lambda: write("a.csv", lines(V, header=COLUMNS)), {}, ROWS),
    "csv without a header": (lambda: write("a.csv", lines(V)), {}, ROWS),
    "csv with semicolons": (lambda: write("a.csv", lines(V, ";", COLUMNS)), {}, ROWS),
    "csv with a mark": (lambda: write("a.csv", lines(V, header=COLUMNS), "utf-8-sig"), {}, ROWS),
    "csv in UTF-16": (lambda: write("a.csv", lines(V, header=COLUMNS), "utf-16"), {}, ROWS),
    "csv with ids and labels": (
        lambda: write("a.csv", lines(
            [[i, *row, n % 4] for n, (i, row) in enumerate(zip(IDS, V, strict=True))],
            header=["id", *COLUMNS, "label"])), {}, IDS),
    "csv with quotes": (
        lambda: write("a.csv", lines(QUOTED, header=["name", *COLUMNS])), {"id": "name"},
        [f"{name}, esq." for name in IDS]),
    "csv with chosen columns": (
        lambda: write("a.csv", lines([[*row, 7] for row in V], header=[*COLUMNS, "z"])),
        {"columns": "x*"}, ROWS),
    "csv without a column": (
        lambda: write("a.csv", lines([[*row, n % 3] for n, row in enumerate(V)],
                                     header=[*COLUMNS, "z"])), {"exclude": ["z"]}, ROWS),
    "csv of lists": (lambda: table("a.csv", ID | {"v": V.tolist()}), {}, IDS),
    "csv of arrays": (lambda: table("a.csv", ID | {"v": list(V)}), {}, IDS),
    "csv of an index": (indexed_csv, {}, ROWS),
    "tsv": (lambda: write("a.tsv", lines(V, "\t", COLUMNS)), {}, ROWS),
    "parquet": (lambda: table("a.parquet", COLUMNS), {}, ROWS),
    "parquet of lists": (lambda: table("a.parquet", ID | {"v": list(V)}), {}, IDS),
    "parquet with a key": (
        lambda: table("a.parquet", {"v": list(V), "w": list(V)}) + ":w", {}, ROWS),
    "parquet of fixed lists": (
        lambda: table("a.parquet", {"v": pa.FixedSizeListArray.from_arrays(V.ravel(), 4)}), {},
        ROWS),
    "parquet of pandas": (indexed_parquet, {}, IDS),
    "parquet of paths and vectors": (
        lambda: table("a.parquet", {"path": PICTURES, "v": list(V)}), {}, PICTURES),
    "feather": (lambda: table("a.feather", COLUMNS | Y), {}, ROWS),
    "arrow file": (lambda: table("a.arrow", COLUMNS), {}, ROWS),
    "pandas": (lambda: pd.DataFrame(COLUMNS | Y), {}, ROWS),
    "pandas with an index": (lambda: pd.DataFrame(COLUMNS, index=IDS), {}, IDS),
    "polars": (lambda: pl.DataFrame(ID | COLUMNS), {}, IDS),
    "polars, lazy": (lambda: pl.DataFrame(COLUMNS).lazy(), {}, ROWS),
    "arrow table": (lambda: pa.table(ID | COLUMNS), {}, IDS),
    "arrow batch": (lambda: pa.RecordBatch.from_pydict(COLUMNS), {}, ROWS),
    "Hugging Face vectors": (lambda: datasets.Dataset.from_dict(ID | {"v": V}), {}, IDS),
    "array": (lambda: V, {}, ROWS),
    "tensor": (lambda: torch.from_numpy(V), {}, ROWS),
    "lists": (lambda: V.tolist(), {}, ROWS),
    "list of tensors": (lambda: list(torch.from_numpy(V)), {}, ROWS),
    "torch data set": (
        lambda: torch.utils.data.TensorDataset(torch.from_numpy(V), torch.zeros(N)), {}, ROWS),
    "torch loader": (
        lambda: torch.utils.data.DataLoader(torch.from_numpy(V), batch_size=5), {}, ROWS),
}  # fmt: skip
IMAGES = {
    "folder": (folder, {}, PICTURES),
    "folder of folders": (
        lambda: folder(within=lambda i: f"group{i // 8}"), {"labels": "folders"},
        [f"group{i // 8}/{i:02}.png" for i in range(N)]),
    "folder of AVIF": (lambda: folder("avif"), {}, [f"{i:02}.avif" for i in range(N)]),
    "folder of HEIC": (lambda: folder("heic"), {}, [f"{i:02}.heic" for i in range(N)]),
    "csv list": (lambda: listing("l.csv"), {}, [f"photos/{p}" for p in PICTURES]),
    "csv list with ids": (lambda: listing("l.csv", {"who": IDS}), {"id": "who"}, IDS),
    "tsv list": (lambda: listing("l.tsv", Y), {"labels": "label"},
                 [f"photos/{p}" for p in PICTURES]),
    "parquet list": (lambda: listing("l.parquet"), {}, [f"photos/{p}" for p in PICTURES]),
    "list of paths": (lambda: [str(Path(folder()) / p) for p in PICTURES], {}, ROWS),
    "list of pictures": (lambda: [Image.fromarray(x) for x in PIXELS], {}, ROWS),
    "array, channels first": (lambda: PIXELS.transpose(0, 3, 1, 2), {}, ROWS),
    "array, channels last": (lambda: PIXELS, {}, ROWS),
    "gray npy": (lambda: save("g.npy", PIXELS[..., 0]), {}, ROWS),
    "torch data set of pictures": (Photos, {}, ROWS),
    "Hugging Face images": (lambda: datasets.Dataset.from_dict(
        HF_IMAGES, datasets.Features({"image": datasets.Image(), "label": datasets.Value("int64")})
    ), {}, ROWS),
}  # fmt: skip
BODY = {"body": TEXTS, "stars": list(range(N))}
WRITTEN = {
    "csv of texts": (
        lambda: write("t.csv", lines(zip(IDS, TEXTS, strict=True), header=["id", "body"])),
        {"text": "body"}, IDS),
    "parquet of texts": (lambda: table("t.parquet", BODY), {"text": "body"}, ROWS),
    "pandas texts": (lambda: pd.DataFrame(BODY, index=IDS), {"text": "body"}, IDS),
    "folder of txt": (lambda: texts("txt"), {}, [f"{i:02}.txt" for i in range(N)]),
    "folder of md": (lambda: texts("md"), {}, [f"{i:02}.md" for i in range(N)]),
    "list of texts": (lambda: TEXTS, {}, ROWS),
}  # fmt: skip
FORMS = VECTORS | IMAGES | WRITTEN


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("UNBEND_CACHE", str(tmp_path / ".cache"))


def rows_of(path) -> list[dict[str, str]]:
    with Path(path).open(encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file))


def test_there_are_enough_forms():
    assert len(FORMS) >= 50


@pytest.mark.parametrize("name", VECTORS)
def test_all_forms_are_the_same_vectors(name):
    make, options, names = VECTORS[name]
    source = open_source(make(), **options)
    np.testing.assert_allclose(source.X, V, rtol=1e-6)
    assert list(source.names) == names


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_cluster_predict_and_export(name):
    make, options, names = FORMS[name]
    spec = make()
    more = {"encoder": "none", "image_size": 8} if name in IMAGES else {}
    more |= {"encoder": "tfidf"} if name in WRITTEN else {}
    done = cluster(
        spec, out="run", n_clusters=4, settings=QUICK, report=False, **options, **more
    )  # fmt: skip
    assert done.n_samples == N
    labelled = rows_of("run/labels.csv")
    assert [row["sample"] for row in labelled] == names
    said = predict("run", spec, out="new.csv")
    assert (said.n_samples, said.n_broken) == (N, 0)
    again = rows_of("new.csv")
    assert [row["sample"] for row in again] == names
    agree = [a["cluster"] == b["cluster"] for a, b in zip(labelled, again, strict=True)]
    assert sum(agree) >= N - 1  # at most a tie
    assert rows_of(export("run", "csv", out="out.csv")) == labelled
    if name in IMAGES and isinstance(spec, str) and not spec.endswith(".npy"):
        out = export("run", "imagefolder", out="sorted")
        assert sum(path.is_file() for path in out.rglob("*")) == N
        notes = json.loads((export("run", "coco", out="coco") / "labels.json").read_text())
        assert [image["width"] for image in notes["images"]] == [32] * N
