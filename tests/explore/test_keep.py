"""Keep the result: tables, exports, prediction for new data, the report."""

import csv
import json
import os
import re
import subprocess
import sys

import numpy as np
import pyarrow.parquet as pq
import pytest
from PIL import Image, ImageOps
from sklearn.datasets import load_sample_image
from tests.explore.conftest import write_run

from unbend import MLC
from unbend.explore import Curation, Journal, read_act, read_curation
from unbend.explore.acts import Split
from unbend.explore.keep import CuratedModel
from unbend.explore.material import _own_texts
from unbend.explore.temporary import write_model_run
from unbend.report import facts_of_run
from unbend.workflows import export, predict, report


def correct(run, labels, *acts):
    journal = Journal(run / "curation.jsonl", labels)
    for act in acts:
        journal.record(read_act(act, len(labels)))
    journal.close()
    return journal.curation


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """Four blobs of vectors, of which the model knows three: the last two are one cluster."""
    rng = np.random.default_rng(0)
    centres = np.array([[9.0, 0, 0, 0], [0, 9, 0, 0], [0, 0, 9, 0], [0, 0, 9, 3.5]])
    blob = np.repeat(np.arange(4), 40)
    X = (centres[blob] + 0.3 * rng.standard_normal((160, 4))).astype(np.float32)
    model = MLC(n_clusters=3, random_state=0, pretrain_epochs=2, epochs=2).fit(X)
    run = tmp_path_factory.mktemp("fitted") / "run"
    write_model_run(run, model, X)
    new = (centres[blob] + 0.3 * rng.standard_normal((160, 4))).astype(np.float32)
    return run, model, X, new, blob


@pytest.fixture
def run_copy(fitted, tmp_path):
    import shutil

    shutil.copytree(fitted[0], tmp_path / "run")
    return tmp_path / "run"


def read_csv(path):
    with path.open(encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file))


def test_new_data_follows_the_corrections(fitted, run_copy, tmp_path):
    _, model, X, new, _ = fitted
    labels = model.labels_
    both = [int(q) for q in np.unique(labels)][:2]
    third = int(np.setdiff1d(np.unique(labels), both)[0])
    members = np.flatnonzero(labels == third)
    rng = np.random.default_rng(1)
    part = np.sort(rng.choice(members, len(members) // 2, replace=False)).tolist()
    curation = correct(
        run_copy,
        labels,
        {"act": "merge", "groups": both, "into": both[0]},
        {"act": "rename", "group": both[0], "name": "both"},
        {"act": "split", "group": third, "parts": [part]},
        {"act": "move", "rows": [int(members[0])], "to": -1},
    )
    np.save(tmp_path / "old.npy", X)
    out = tmp_path / "old.csv"
    predict(run_copy, tmp_path / "old.npy", out=out, curated=True, probabilities=True)
    rows = read_csv(out)
    # the samples of the run themselves get exactly the corrected clusters and names
    assert [int(r["cluster"]) for r in rows] == curation.labels().tolist()
    assert [r["name"] for r in rows] == [curation.name(g) for g in curation.labels()]
    columns = [c for c in rows[0] if c.startswith("p") and c != "probability"]
    assert set(columns) == {f"p{both[0]}", f"p{third}", "p3", "p_noise"}
    total = np.array([[float(r[c]) for c in columns] for r in rows]).sum(1)
    np.testing.assert_allclose(total, 1, atol=1e-5)
    # a new sample goes where its nearest sample of the same cluster went: a slow loop
    np.save(tmp_path / "new.npy", new)
    predict(run_copy, tmp_path / "new.npy", out=tmp_path / "new.csv", curated=True)
    Z, Z_new, said = model.transform(X), model.transform(new), model.predict(new)
    final = curation.labels()
    for i, row in enumerate(read_csv(tmp_path / "new.csv")):
        same = np.flatnonzero(labels == said[i])
        nearest = same[np.argmax([float(Z_new[i] @ Z[j]) ** 2 for j in same])]
        assert int(row["cluster"]) == final[nearest]


def test_prediction_without_corrections_is_refused(run_copy, fitted, tmp_path):
    np.save(tmp_path / "new.npy", fitted[3])
    with pytest.raises(ValueError, match="has no corrections"):
        predict(run_copy, tmp_path / "new.npy", out=tmp_path / "x.csv", curated=True)
    assert not (tmp_path / "x.csv").exists()


def test_an_empty_cluster_predicts_noise_only_by_itself():
    curation = Curation(np.array([0, 0, 2, 2]))
    model = CuratedModel(curation, None)
    labels, shares = model.assign(np.array([0, 2]), np.eye(3)[[0, 2]], np.zeros((2, 1)))
    assert labels.tolist() == [0, 2]
    assert shares.sum(1).tolist() == [1, 1]


@pytest.fixture
def photos(tmp_path):
    """A folder of pictures and a run over it."""
    rng = np.random.default_rng(0)
    names, folder = [], tmp_path / "photos"
    for i in range(12):
        name = f"{'cats' if i % 2 else 'dogs'}/img_{i:02d}.png"
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 255, (20, 30, 3), dtype=np.uint8)).save(folder / name)
        names.append(name)
    labels = np.arange(12) % 3
    Z = np.eye(4, dtype=np.float32)[labels]
    run = write_run(tmp_path / "run", labels, Z, names=names, spec=str(folder))
    (run / "manifest.json").write_text(json.dumps({"data": {"name": "photos", "kind": "images"}}))
    return run, folder, labels, names


def test_exports_use_the_corrected_names(photos, tmp_path):
    run, _, labels, _ = photos
    correct(
        run,
        labels,
        {"act": "rename", "group": 0, "name": "../../etc: cats?"},
        {"act": "rename", "group": 1, "name": "CON"},
        {"act": "move", "rows": [2], "to": -1},
    )
    out = export(run, "imagefolder", curated=True, out=tmp_path / "sorted")
    folders = {p.name: sorted(f.name for f in p.iterdir()) for p in out.iterdir()}
    assert set(folders) == {"etc- cats", "cluster_1", "cluster_2", "noise"}
    assert folders["etc- cats"] == [f"img_{i:02d}.png" for i in (0, 3, 6, 9)]
    assert folders["noise"] == ["img_02.png"]
    rows = read_csv(export(run, "csv", curated=True, out=tmp_path / "c.csv"))
    assert rows[2]["name"] == "Noise"
    assert rows[2]["cluster_before"] == "2"
    table = pq.read_table(export(run, "parquet", curated=True, out=tmp_path / "c.parquet"))
    assert table.column("name").to_pylist()[0] == "../../etc: cats?"
    coco = json.loads(
        (export(run, "coco", curated=True, out=tmp_path / "coco") / "labels.json").read_text()
    )
    category = {c["id"]: c["name"] for c in coco["categories"]}
    assert category[coco["annotations"][0]["category_id"]] == "../../etc: cats?"
    assert coco["annotations"][0]["bbox"] == [0, 0, 30, 20]
    assert all((tmp_path / "coco" / "data" / i["file_name"]).is_file() for i in coco["images"])
    fifty = export(run, "fiftyone", curated=True, out=tmp_path / "fifty") / "labels.json"
    assert len({v["label"] for v in json.loads(fifty.read_text())["labels"].values()}) == 4
    plain = read_csv(export(run, "csv", out=tmp_path / "plain.csv"))
    assert [int(r["cluster"]) for r in plain] == labels.tolist()


def test_pictures_come_from_the_files(photos, serve):
    run, _, _, _ = photos
    _, ask = serve(run)
    assert ask("run")["kind"] == "pictures"
    assert len(ask("tiles", {"rows": [0, 1], "side": 320})) > 1000
    words = ask("suggest?group=0")["words"]
    assert set(words) <= {"cats", "dogs"}


def test_noise_of_the_run_stays_and_can_be_moved(serve, run, digits, tmp_path):
    """`unbend cluster --noise` labels some samples -1; they are a group like any other noise."""
    _, _, labels, Z = digits
    labels = np.where(np.arange(len(labels)) % 50 == 0, -1, labels)
    run = write_run(tmp_path / "noisy", labels, Z)
    _, ask = serve(run)
    assert ask("run")["n"] == 600
    assert ask("state")["noise"] == 12
    ask("act", {"act": "move", "rows": [0, 50], "to": 3})
    rows = read_csv(export(run, "csv", curated=True, out=tmp_path / "noisy.csv"))
    expected = labels.copy()
    expected[[0, 50]] = 3
    assert [int(r["cluster"]) for r in rows] == expected.tolist()
    assert rows[0]["cluster_before"] == "-1"
    assert rows[100]["name"] == "Noise"


def test_the_report_shows_the_corrected_clusters(run, digits):
    _, _, labels, _ = digits
    correct(
        run,
        labels,
        {"act": "merge", "groups": [3, 8], "into": 3},
        {"act": "rename", "group": 3, "name": "<b>round</b> ones"},
        {"act": "move", "rows": [5], "to": -1},
    )
    page = report(run, curated=True)
    text = page.read_text(encoding="utf-8")
    assert page.name == "curated-report.html"
    assert "&lt;b&gt;round&lt;/b&gt; ones" in text
    assert "<b>round</b>" not in text
    assert text.count("data-card=") == 10  # nine clusters and noise
    assert "<title>" in text
    assert "· 9 clusters</title>" in text
    assert "Largest first" not in text  # they are in the order of their numbers
    legend = re.findall(r'data-legend="(\d+)"[^>]*><i class="chip"></i>(-?\d+)<', text)
    shown = [0, 1, 2, 3, 4, 5, 6, 7, 9, -1]  # with the gap that merging left
    assert legend == [(str(place), str(number)) for place, number in enumerate(shown)]
    assert all(f'"tag":{number}' in text.replace(": ", ":") for number in shown)


def test_names_come_from_dates_of_photographs(tmp_path, serve):
    folder, labels = tmp_path / "holiday", np.repeat([0, 1], 6)
    folder.mkdir()
    names = [f"IMG_{i:04d}.jpg" for i in range(12)]
    for i, name in enumerate(names):
        exif = Image.Exif()
        exif[0x0132] = f"2019:0{5 + labels[i]}:{i + 1:02d} 12:00:00"
        Image.new("RGB", (16, 16), (20 * i, 0, 0)).save(folder / name, exif=exif)
    run = write_run(
        tmp_path / "run", labels, np.eye(2, dtype=np.float32)[labels], names=names, spec=str(folder)
    )
    (run / "manifest.json").write_text(json.dumps({"data": {"name": "photos", "kind": "images"}}))
    _, ask = serve(run)
    found = [ask(f"suggest?group={q}")["names"] for q in (0, 1)]
    assert [[entry["name"] for entry in names] for names in found] == [["May 2019"], ["June 2019"]]


def test_names_of_photographs_are_what_the_whole_network_says():
    """The words of the classifier on our features against the package's own forward pass."""
    library = pytest.importorskip("efficientnet_lite_pytorch")
    import torch

    from unbend.explore.classes import Classes
    from unbend.explore.pictures import Pictures
    from unbend.networks.encoders.lite import LITE, _weights, imagenet_words

    side = LITE["lite0"]
    photos = [Image.fromarray(load_sample_image(f"{name}.jpg")) for name in ("flower", "china")]
    tiles = np.stack([ImageOps.fit(photo, (side, side)) for photo in photos])
    classes = Classes("lite0", Pictures(lambda row, size: tiles[row], np.ones(2, bool)))
    network = library.EfficientNet.from_name("efficientnet-lite0", image_size=side).eval()
    network.load_state_dict(torch.load(_weights("lite0"), weights_only=True))
    pixels = (torch.from_numpy(tiles).permute(0, 3, 1, 2).float() - 127) / 128
    with torch.no_grad():
        p = network(pixels).softmax(1)
    words = imagenet_words()
    for row in range(2):
        best = [words[i] for i in p[row].argsort(descending=True)[:3] if p[row, i] >= 0.04]
        assert best
        assert classes.words(np.array([row])) == best
    assert {"palace", "monastery"} & set(classes.words(np.array([1])))  # a Chinese palace


def test_a_run_of_texts_shows_them(tmp_path, serve):
    table, labels = tmp_path / "reviews.csv", np.repeat([0, 1], 10)
    says = ("a cat that purrs", "a dog that barks")
    texts = [f"{says[q]}, {i}" for i, q in enumerate(labels)]
    table.write_text("body,stars\n" + "".join(f'"{text}",5\n' for text in texts))
    run = write_run(
        tmp_path / "run", labels, np.eye(2, dtype=np.float32)[labels],
        names=[str(i) for i in range(20)], spec=str(table),
    )  # fmt: skip
    (run / "manifest.json").write_text(json.dumps({"data": {"name": "reviews", "kind": "texts"}}))
    facts = facts_of_run(run)
    assert _own_texts(run, facts, {"reading": {"text": "body", "id": None}}) == texts
    passages = {"words": [[], []], "indices": [3], "passages": [texts[3]]}
    (run / "passages.json").write_text(json.dumps(passages))
    table.unlink()  # the passages of the run are left, and the names
    _, ask = serve(run, read_only=True)
    assert ask("run")["kind"] == "texts"
    assert [s["text"] for s in ask("samples", {"rows": [3, 4]})] == [texts[3], "4"]


def test_a_run_with_corrections_is_not_overwritten(run, digits):
    from unbend.runs import RunDirectory

    _, _, labels, _ = digits
    manifest = {"program": "unbend"}
    manifest |= {"files": {p.name: "" for p in run.iterdir() if p.name != "manifest.json"}}
    (run / "manifest.json").write_text(json.dumps(manifest))
    correct(run, labels, {"act": "rename", "group": 0, "name": "cats"})
    with pytest.raises(ValueError, match="holds corrections"):
        RunDirectory(run, overwrite=True)
    RunDirectory(run, resume=True)


def test_the_command_serves_until_it_is_interrupted(run):
    import signal
    import urllib.request

    command = [sys.executable, "-m", "unbend", "explore", str(run), "--no-browser", "--port", "0"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ
    ) as process:
        for line in process.stderr:
            if line.startswith("explore: "):
                break
        base = line.removeprefix("explore: ").split("/#")[0]
        assert b"unbend explore" in urllib.request.urlopen(base).read()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert out.strip() == "stopped; no corrections"
    assert "Traceback" not in err


def test_a_model_explores_its_own_run(fitted, tmp_path):
    _, model, X, _, _ = fitted
    served = []

    def started(server):
        served.append(server.session.about()["n"])
        server.session.act({"act": "rename", "group": 0, "name": "mine"})
        server.stop()

    path = model.explore(X, path=tmp_path / "mine", open_browser=False, port=0, started=started)
    assert served == [160]
    assert read_curation(path, model.labels_).name(0) == "mine"
    model.explore(X, path=path, open_browser=False, port=0, started=lambda s: s.stop())


def test_clusters_of_an_update_are_groups_of_their_own():
    """A split has taken number 3 for its second half; the cluster of the update was 3 as well."""
    curation = Curation(np.array([0, 0, 1, 1, 2, 2]))
    curation.apply(Split(2, (np.array([5]),)))
    Z = np.array([[1, 0], [1, 0], [1, 0], [1, 0], [1, 0], [0, 1]], dtype=np.float32)
    model = CuratedModel(curation, Z, n_clusters=4)
    labels, shares = model.assign(np.array([0, 2, 3]), np.eye(4)[[0, 2, 3]], Z[[0, 5, 0]])
    assert curation.labels().tolist() == [0, 0, 1, 1, 2, 3]
    assert labels.tolist() == [0, 3, 4]
    assert model.name(4) == "Cluster 3 of an update"
    assert model.groups == [0, 1, 2, 3, 4, -1]
    assert shares.sum(1).tolist() == [1, 1, 1]
    # A cluster of the fit without a row, as all its samples are noise, is not of an update.
    few = CuratedModel(Curation(np.array([0, 0, 1, -1])), None, n_clusters=3, n_fitted=3)
    assert few.groups == [0, 1, -1]
