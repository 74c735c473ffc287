"""What new users stumbled over, one test each."""

import csv
import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from PIL import Image, ImageFilter
from sklearn.datasets import load_sample_images

from unbend import MLC, load
from unbend.cli import main
from unbend.exceptions import UnbendWarning
from unbend.sources import open_source
from unbend.workflows import cluster, inspect, predict

QUICK = {
    "pretrain.epochs": 1, "pretrain.head_steps": 1, "stage2.epochs": 1, "views.n_neighbors": 2,
    "views.metric": "euclidean", "stage2.eta": 0.2,
}  # fmt: skip
FAST = [flag for name, value in QUICK.items() for flag in ("--set", f"{name}={value}")]
N = 40
X = np.repeat(np.eye(4) * 9, 10, axis=0) + np.random.default_rng(0).normal(size=(N, 4))
Y = np.repeat(np.arange(4), 10)


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("UNBEND_CACHE", str(tmp_path / ".cache"))


def frame() -> pd.DataFrame:
    found = pd.DataFrame(X, columns=list("abcd"))
    found.insert(0, "customer_id", 7919 * np.random.default_rng(1).permutation(N) + 100_000)
    found["target"] = Y
    return found


def call(*arguments):
    return CliRunner().invoke(main, [str(a) for a in arguments], prog_name="unbend")


def rows_of(path) -> list[dict[str, str]]:
    with Path(path).open(encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file))


def test_1_ids_and_labels_are_no_features():
    frame().to_csv("a.csv", index=False)
    source = open_source("a.csv")
    np.testing.assert_allclose(source.X, X)
    assert "ids from 'customer_id'" in source.note
    assert "left out: target (looks like labels)" in source.note
    named = open_source("a.csv", columns=["a", "target"])  # unless they are named
    np.testing.assert_allclose(named.X[:, 1], Y)
    unnamed = frame().rename(columns={"customer_id": "number"})  # unique whole numbers
    assert "number (looks like ids)" in open_source(unnamed).note


def test_2_a_csv_of_vectors_is_no_list_of_images():
    np.savetxt("v.csv", X, delimiter=",")
    source = open_source("v.csv")
    assert source.kind == "vectors"
    np.testing.assert_allclose(source.X, X)
    assert source.note == "4 columns (0, 1, 2, 3)"


def test_3_ids_go_into_labels_report_and_predictions():
    frame().to_parquet("a.parquet")
    cluster("a.parquet", out="run", n_clusters=4, settings=QUICK)
    ids = [str(i) for i in frame()["customer_id"]]
    assert [row["sample"] for row in rows_of("run/labels.csv")] == ids
    assert pq.read_table("run/labels.parquet")["sample"].to_pylist() == ids
    assert ids[7] in Path("run/report.html").read_text()
    shuffled = frame()[["d", "customer_id", "b", "c", "a"]].iloc[::-1]  # by name, not by place
    shuffled.to_csv("new.csv", index=False)
    predict("run", "new.csv", out="p.csv")
    old = {row["sample"]: row["cluster"] for row in rows_of("run/labels.csv")}
    assert {row["sample"]: row["cluster"] for row in rows_of("p.csv")} == old
    frame().rename(columns={"b": "bb"}).to_csv("other.csv", index=False)
    with pytest.raises(
        ValueError, match=r"fitted on column 'b', which 'other.csv' does not have; did"
    ):
        predict("run", "other.csv", out="q.csv")


def test_4_leading_zeros_of_ids_are_kept():
    lines = [f"{i:05},{x[0]},{x[1]}" for i, x in enumerate(X)]
    Path("z.csv").write_text("id,a,b\n" + "\n".join(lines) + "\n")
    assert open_source("z.csv").names[:2] == ["00000", "00001"]


def test_5_rows_with_nan_are_skipped_counted_and_listed():
    bad = frame()
    bad.loc[[3, 8, 20], "b"] = [np.nan, np.inf, np.nan]
    bad.to_parquet("a.parquet")
    done = cluster("a.parquet", out="run", n_clusters=4, labels="target", settings=QUICK)
    assert (done.n_samples, done.n_broken, done.scores["n"]) == (37, 3, 37)
    assert "3 broken rows left out, see broken.csv" in done.summary()
    ids = bad["customer_id"].astype(str)
    reasons = ["NaN in b", "infinity in b", "NaN in b"]
    found = [(row["sample"], row["reason"]) for row in rows_of("run/broken.csv")]
    assert found == list(zip(ids[[3, 8, 20]], reasons, strict=True))
    with pytest.raises(ValueError, match="3 of 40 rows"):
        open_source("a.parquet", strict=True)
    assert predict("run", "a.parquet", out="p.csv").n_broken == 3
    assert [row["sample"] for row in rows_of("p.broken.csv")] == list(ids[[3, 8, 20]])


def test_6_scores_are_printed_with_labels():
    frame().to_csv("a.csv", index=False)
    done = call("cluster", "a.csv", "-k", 4, "--labels", "target", "--no-report", "-q", *FAST)
    assert done.exit_code == 0, done.output
    scores = json.loads(Path("runs/a/metrics.json").read_text())["MLC"]
    assert f"scores on 40 true labels: ACC {scores['acc']:.3f}, NMI" in done.stdout


def test_7_two_lines_say_what_was_read_and_chosen():
    frame().to_csv("a.csv", index=False)
    done = call("cluster", "a.csv", "-k", 1, "--no-report", "-q", *FAST)
    assert done.exit_code == 0, done.output
    read, chosen, found = done.stdout.splitlines()
    assert read.startswith("read 40 vectors of 4 from a (4 columns (a, b, c, d); ids from")
    assert chosen.startswith("preset vectors (made for vectors of any kind), no encoder; neigh")
    assert found.startswith("40 samples in 1 cluster, ")


def test_8_arguments_are_judged_before_the_place():
    np.save("a.npy", X)
    assert call("cluster", "a.npy", "-k", 4, "-o", "run", "--no-report", "-q", *FAST).exit_code == 0
    wrong = call("cluster", "gone.npy", "-o", "run", "-q")
    assert "no file, folder or data set 'gone.npy'" in wrong.stderr
    many = call("cluster", "a.npy", "-o", "run", "-q", "-k", 41)
    assert "-k 41 is more than the 40 samples to train on; take fewer clusters" in many.stderr
    right = call("cluster", "a.npy", "-o", "run", "-q")
    assert "holds a run already" in right.stderr


def test_9_the_mark_is_the_same_in_all_tables():
    names = [f"Zoë {i}" for i in range(N)]
    pd.DataFrame(X, index=pd.Index(names, name="who")).rename(columns=str).to_parquet("a.parquet")
    cluster("a.parquet", out="run", n_clusters=4, settings=QUICK, report=False)
    predict("run", "a.parquet", out="p.csv")
    assert call("export", "run", "--format", "csv", "-o", "e.csv").exit_code == 0
    for path in ("run/labels.csv", "p.csv", "e.csv"):
        assert Path(path).read_bytes().startswith(b"\xef\xbb\xbf"), path
        assert [row["sample"] for row in rows_of(path)] == names
    out = call("predict", "run", "a.parquet", "-o", "-", "-q").stdout
    assert out.splitlines()[1].startswith("Zoë 0,")  # a pipe needs no mark


def test_10_a_run_loads_as_it_is_and_sums_itself_up(capsys):
    cluster(X, out="run", n_clusters=4, settings=QUICK, report=False)
    model = load("run")
    assert (model.predict(X) == load("run/model").predict(X)).all()
    model.summary()
    out = capsys.readouterr().out.splitlines()
    assert out[0].startswith("40 vectors; preset vectors")
    assert out[2] == "40 samples in 4 clusters"
    assert out[3].startswith("sizes: ")


# ---------------------------------------------------------------- and some more


def test_fit_leaves_ids_and_labels_of_a_table_out_with_a_warning():
    model = MLC(4, settings=QUICK, random_state=0)
    with pytest.warns(UnbendWarning, match="target .*customer_id"):
        model.fit(frame())
    assert model.feature_names_in_.tolist() == list("abcd")
    expected = model.predict(frame()[list("abcd")])
    assert (model.predict(frame()) == expected).all()
    model.set_output(transform="pandas")
    assert model.transform(frame().set_index("customer_id")).index.tolist() == list(
        frame()["customer_id"]
    )


def test_a_single_picture_and_folders_of_predictions(tmp_path):
    for i in range(12):
        Path("photos").mkdir(exist_ok=True)
        pixels = np.random.default_rng(i).integers(0, 256, (16, 16, 3), np.uint8)
        Image.fromarray(pixels).save(f"photos/{i:02}.png")
    cluster("photos", out="run", n_clusters=3, encoder="none", image_size=16, settings=QUICK)
    Path("photos/broken.png").write_text("no image")
    done = call("predict", "run", "photos/03.png", "-o", "-", "-q")
    assert done.exit_code == 0, done.output
    label = rows_of("run/labels.csv")[3]["cluster"]
    assert done.stdout.splitlines()[1].split(",")[:2] == ["03.png", label]
    model = load("run")
    assert model.predict(Image.open("photos/03.png")).tolist() == [int(label)]
    assert call("predict", "run", "photos", "--format", "imagefolder", "-o", "s").exit_code == 0
    assert len(list(Path("s").rglob("*.png"))) == 12
    assert rows_of("s.broken.csv")[0]["path"] == "broken.png"


def test_inspect_finds_duplicates_and_poor_images():
    Path("p").mkdir()
    for k, photo in enumerate(load_sample_images().images):
        for j in range(4):
            part = photo[90 * j : 90 * j + 150, 120 * j : 120 * j + 150]
            Image.fromarray(part).save(f"p/{k}{j}.png")
    one = Image.open("p/00.png")
    one.save("p/copy.png")
    one.resize((90, 90)).save("p/small.jpg", quality=70)
    Image.open("p/12.png").filter(ImageFilter.GaussianBlur(8)).save("p/soft.png")
    one.point(lambda v: v // 16).save("p/night.png")
    Image.open("p/03.png").resize((20, 20)).save("p/tiny.png")
    Image.new("RGB", (60, 60), "red").save("p/red.png")
    Image.new("RGB", (60, 60), "blue").save("p/blue.png")
    found = inspect("p", out="seen", encoder="none")
    groups: dict[str, set[str]] = {}
    for row in rows_of("seen/duplicates.csv"):
        groups.setdefault(row["group"], set()).add(row["sample"])
    assert {"00.png", "copy.png", "small.jpg"} in groups.values()
    assert not any({"red.png", "blue.png"} <= group for group in groups.values())
    poor = {(row["path"], row["problem"]) for row in rows_of("seen/quality.csv")}
    assert {("soft.png", "blurred"), ("night.png", "dark"), ("tiny.png", "tiny")} <= poor
    assert {("red.png", "flat"), ("blue.png", "flat")} <= poor
    assert not {name for name, _ in poor} & {f"{k}{j}.png" for k in "01" for j in "0123"}
    kinds = {row["sample"]: row["kind"] for row in rows_of("seen/duplicates.csv")}
    assert [kinds[name] for name in ("00.png", "copy.png", "small.jpg")] == ["exact"] * 2 + ["near"]
    assert found.n_exact == 1
    page = found.page.read_text()
    assert page.count("<img ") == len(kinds) + len(poor)
    assert "2 images, identical" not in page  # the copy is in a group with the small one
    assert not re.search(r"(src|href)=.https?:|<script", page)  # opens offline


def test_names_of_inspected_files_are_escaped():
    Path("p").mkdir()
    for name in ("<b>1.png", "<b>2.png"):
        Image.new("RGB", (40, 40), "red").save(f"p/{name}")
    Path("p/<i>.png").write_text("no image")
    page = inspect("p", out="seen", encoder="none").page.read_text()
    assert "2 images, identical files" in page
    assert "&lt;b&gt;1.png" in page
    assert "<b>1" not in page
    assert "<i>" not in page


def test_duplicates_are_dropped_from_training_only():
    twice = np.concatenate([X, X[:5]])
    done = cluster(
        twice, out="run", n_clusters=4, settings=QUICK, drop_duplicates=True, report=False
    )
    assert (done.n_samples, done.n_trained) == (45, 40)
    kept = [row["kept"] for row in rows_of("run/duplicates.csv")]
    assert kept == ["yes", "no"] * 5


def test_texts_have_words_passages_and_predictions():
    themes = ["sun moon star sky comet", "fish boat sea wave harbour", "coin bank cash loan rent"]
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(themes[i % 3].split(), 12)) for i in range(30)]
    with open("t.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["key", "body"])
        writer.writerows([f"t{i}", text] for i, text in enumerate(texts))
    call_ = ["cluster", "t.csv", "--text", "body", "--encoder", "tfidf", "-k", 3, "-q"]
    done = call(*call_, "-o", "run")
    assert done.exit_code == 0, done.output
    labels = [int(row["cluster"]) for row in rows_of("run/labels.csv")]
    assert len({(q, i % 3) for i, q in enumerate(labels)}) == 3  # a cluster for each theme
    found = json.loads(Path("run/passages.json").read_text())
    for q in range(3):
        theme = next(i % 3 for i in range(30) if labels[i] == q)
        assert set(found["words"][q]) <= set(themes[theme].split())
    page = Path("run/report.html").read_text()
    assert 'class="words"' in page
    for q in range(3):  # eight typical passages of each cluster
        assert sum(text in page for text, own in zip(texts, labels, strict=True) if own == q) >= 8
    Path("new").mkdir()
    Path("new/a.txt").write_text("the comet and the star in the sky")
    assert call("predict", "run", "new", "-o", "p.csv", "-q").exit_code == 0
    assert int(rows_of("p.csv")[0]["cluster"]) == labels[0]
    model = load("run")
    assert model.predict(["boat at sea", "cash in the bank"]).tolist() == labels[1:3]
    with pytest.raises(ValueError, match="X holds no texts, but the model was fitted on texts"):
        model.predict(X)
