"""Invalid calls: exit code 2, one line with the cause and the remedy, and no files left behind."""

import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image
from tests.cli.wrong import check, ids

from unbend.runs import RunDirectory, record_file


@pytest.fixture
def place(unbend, tmp_path, vectors, trained):
    """Good and bad inputs of all kinds."""
    np.save("blobs.npy", vectors)
    np.save("four.npy", vectors[:4])
    np.save("line.npy", np.arange(9.0))
    np.save("number.npy", np.float64(3))
    np.save("five.npy", np.zeros((2, 2, 2, 2, 2)))
    np.save("pickled.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    np.save("words.npy", np.array([["a", "b"], ["c", "d"]]))
    np.save("complex.npy", np.ones((9, 2), dtype=complex))
    np.save("no_columns.npy", np.zeros((9, 0)))
    np.save("no_rows.npy", np.zeros((0, 9)))
    np.save("nan.npy", np.where(np.eye(9) > 0, np.nan, 1.0))
    np.save("inf.npy", np.where(np.eye(9) > 0, np.inf, 1.0))
    np.save("one.npy", np.ones((1, 3)))
    np.save("wide.npy", np.ones((9, 7)))
    np.save("channels.npy", np.ones((9, 5, 8, 8), dtype=np.uint8))
    np.save("pictures.npy", np.ones((9, 8, 8), dtype=np.uint8))
    np.save("y_short.npy", np.zeros(7))
    np.savez("several.npz", a=vectors, b=vectors)
    with open("archive.npy", "wb") as file:
        np.savez(file, a=np.ones(3))
    Path("text.npy").write_text("hello")
    Path("empty.npy").touch()
    Path("notes.txt").write_text("hello")
    Path("bad.safetensors").write_text("hello")
    Path("bad.parquet").write_text("hello")
    Path("bad.npz").write_text("hello")
    pq.write_table(pa.table({"a": ["x", "y"]}), "words.parquet")
    Path("list.csv").write_text("path\nnowhere.png\nneither.png\n")
    Path("empty").mkdir()
    Path("texts").mkdir()
    Path("texts/a.txt").write_text("hello")
    Path("broken").mkdir()
    for name in "abc":
        Path(f"broken/{name}.png").write_text("no image")
    Image.new("RGB", (9, 9)).save("one.png")
    Path("mine").mkdir()
    Path("mine/thesis.txt").write_text("years")
    Path("no.toml").write_text("= nothing")
    Path("key.toml").write_text("sede = 1")
    Path("setting.toml").write_text("[stage2]\netta = 1")
    Path("table.toml").write_text("seed = [1, 2]")
    Path("type.toml").write_text('seed = "much"')
    shutil.copytree(trained, "run")
    with RunDirectory("unfinished") as unfinished:
        unfinished.begin({})
    return unbend


INPUTS = {
    "nothing.npy": "no file, folder or data set 'nothing.npy'; give a folder of images",
    "digist": "no file, folder or data set 'digist'; did you mean 'digits'?",
    "digits:half": "half",
    "empty": "'empty' holds no images; give a folder with files of these kinds",
    "texts": "'a.txt' is a single text; give a folder of texts, or rename",
    "broken": "3 of 3 files of 'broken' cannot be read",
    "one.png": "minimum of 2 is required",
    "text.npy": "'text.npy' is damaged or not a valid .npy file",
    "empty.npy": "'empty.npy' is damaged or not a valid .npy file",
    "pickled.npy": "'pickled.npy' holds Python objects, which are never unpickled; store numbers",
    "archive.npy": "'archive.npy' is an archive of arrays; rename it to .npz",
    "notes.txt": "'notes.txt' is a single text; give a folder of texts, or rename a table",
    "bad.safetensors": "'bad.safetensors' is damaged or not a valid .safetensors file",
    "bad.parquet": "'bad.parquet'",
    "bad.npz": "'bad.npz' is damaged or not a valid .npz file",
    "words.parquet": "words.parquet",
    "several.npz": "holds several arrays: a, b; choose one with 'several.npz:a'",
    "several.npz:c": "'several.npz' has no 'c'; it holds: a, b",
    "list.csv": "cannot be read",
    "line.npy": "'line.npy' must have 2 dimensions",
    "number.npy": "'number.npy' must have 2 dimensions",
    "five.npy": "'five.npy' must have 2 dimensions",
    "words.npy": "'words.npy' must hold real numbers",
    "complex.npy": "'complex.npy' must hold real numbers, got dtype complex128",
    "no_columns.npy": "'no_columns.npy' has no columns",
    "no_rows.npy": "'no_rows.npy' has no rows",
    "nan.npy": "9 of 9 rows of 'nan.npy' cannot be used (100.0%, limit 10.0%), e.g. '0': NaN in 1",
    "inf.npy": "9 of 9 rows of 'inf.npy' cannot be used",
    "channels.npy": "must have 1 or 3 channels",
    "one.npy": "minimum of 2 is required",
    "four.npy": "n_clusters='auto' of MLC needs at least 5 samples, got n_samples=4",
}


@pytest.mark.parametrize("name", INPUTS)
def test_invalid_inputs_give_one_line_errors(place, tmp_path, name):
    check(place, ["cluster", name, "-o", "fresh/run", "-q"], INPUTS[name], tmp_path)


OPTIONS = [
    (["-k", "ten"], "must be a whole number or auto, got 'ten'"),
    (["-k", "1.5"], "must be a whole number or auto, got '1.5'"),
    (["-k", "0"], "`n_clusters` of MLC must be an integer >= 1"),
    (["-k", "-3"], "`n_clusters` of MLC must be an integer >= 1"),
    (["-k", "500"], "-k 500 is more than the 120 samples to train on; take fewer clusters"),
    (["-k", "100", "--train-on", "50"], "-k 100 is more than the 50 samples to train on"),
    (["--sed", "1"], "--seed"),
    (["--seed", "-1"], "'--seed': -1 is not in the range x>=0"),
    (["--seed", "one"], "'--seed': 'one' is not a valid integer"),
    (["--device", "abacus"], "`device` 'abacus' is not available; use one of cpu"),
    (["--device", "cuda:99"], "`device` 'cuda:99' is not available"),
    (["--precision", "8"], "'8' is not one of '32-true'"),
    (["--preset", "imagse"], "`preset` of MLC must be one of auto"),
    (["--set", "stage2.etta=1"], "unknown setting 'stage2.etta'; did you mean 'stage2.eta'?"),
    (["--set", "stage2.join=codes"], "unknown setting 'stage2.join'; did you mean 'labels.join'?"),
    (["--set", "eta"], "--set takes NAME=VALUE as in stage2.eta=0.1, got 'eta'"),
    (["--set", "stage2.eta=0"], "setting 'stage2.eta' must be from 0.002 to 10, or 'auto', got 0"),
    (
        ["--set", "stage2.eta=hot"],
        "must be from 0.002 to 10, or 'auto', got 'hot'",
    ),
    (["--set", "stage2.epochs=1.5"], "setting 'stage2.epochs' must be an integer"),
    (["--config", "missing.toml"], "cannot read --config 'missing.toml': No such file"),
    (["--config", "mine"], "--config 'mine' is not TOML: it is not a regular file"),
    (["--config", "no.toml"], "--config 'no.toml' is not TOML"),
    (["--config", "key.toml"], "unknown key of 'key.toml' 'sede'; did you mean 'seed'?"),
    (["--config", "setting.toml"], "'stage2.etta'; did you mean 'stage2.eta'?"),
    (["--config", "table.toml"], "'seed' of 'table.toml' must be a single value"),
    (["--config", "type.toml"], "'much' is not a valid integer"),
    (["--train-on", "1"], "`train_on` must be all, auto or from 2 to n_samples=120, got 1"),
    (["--train-on", "121"], "from 2 to n_samples=120, got 121"),
    (["--train-on", "half"], "must be a whole number or all or auto, got 'half'"),
    (["--encoder", "lite7"], "no encoder is called 'lite7'; take lite0, lite2"),
    (["--encoder", "lite2"], "an encoder is for images, and 'blobs.npy' holds vectors"),
    (["--encoder", "missing.ckpt"], "missing.ckpt"),
    (["--labels", "missing.npy"], "missing.npy"),
    (["--labels", "y_short.npy"], "--labels must be one per sample, got 7 for 120"),
    (["--labels", "folders"], "labels='folders' is for folders of files"),
    (["--compare"], "--compare needs true labels, and 'blobs.npy' has none"),
    (["--max-broken", "2"], "2.0 is not in the range"),
    (["--image-size", "2"], "2 is not in the range x>=4"),
    (["--resume", "--overwrite"], "--resume and --overwrite"),
    (["-k", "3", "--max-clusters", "9"], "--max-clusters is for -k auto, got -k 3"),
    (["-o", "mine"], "'mine' holds other files ('thesis.txt'); name a new directory"),
    (["-o", "notes.txt"], "'notes.txt' is a file; name a directory for the run"),
    (["-o", "notes.txt/run"], "cannot write a run to 'notes.txt/run'"),
    (["-o", "run"], "'run' holds a run already; name a new directory or pass --overwrite"),
    (["-o", "unfinished"], "'unfinished' holds an unfinished run; pass --resume"),
    (["-o", "/proc/run"], "/proc/run"),
]


@pytest.mark.parametrize(("flags", "words"), OPTIONS, ids=ids)
def test_options_of_cluster(place, tmp_path, flags, words):
    out = [] if "-o" in flags else ["-o", "fresh/run"]
    check(place, ["cluster", "blobs.npy", *flags, *out, "-q"], words, tmp_path)


OTHERS = [
    (["clutser"], "no command 'clutser'; did you mean 'cluster'?"),
    (["frobnicate"], "no command 'frobnicate'; known: cluster"),
    (["cluster"], "Missing argument 'INPUT' (see unbend cluster --help)"),
    (["predict", "run"], "Missing argument 'INPUT'"),
    (["predict", "nowhere", "blobs.npy"], "no run 'nowhere'; make one with: unbend cluster"),
    (["predict", "mine", "blobs.npy"], "'mine' is not a saved model: model.safetensors is missing"),
    (["predict", "unfinished", "blobs.npy"], "the run 'unfinished' is unfinished; finish it with"),
    (["predict", "run", "wide.npy"], "cannot label 'wide.npy': X has 7 features, but MLC is"),
    (["predict", "run", "pictures.npy"], "X has 3 dimensions, but the model was fitted on vectors"),
    (["predict", "run", "nan.npy"], "9 of 9 rows of 'nan.npy' cannot be used"),
    (["predict", "run", "blobs.npy", "-o", "l.xlsx"], "-o must end in .csv or .parquet"),
    (["predict", "run", "blobs.npy", "-o", "no/l.csv"], "cannot write 'no/l.csv': no such folder"),
    (["predict", "run", "blobs.npy", "-o", "list.csv"], "'list.csv' already exists"),
    (["predict", "run", "blobs.npy", "--encoder", "lite2"], "was made without an encoder"),
    (["report", "nowhere"], "no run 'nowhere'"),
    (["report", "unfinished"], "the run 'unfinished' is unfinished"),
    (["report", "mine"], "is missing"),
    (["export", "run"], "Missing option '--format'"),
    (["export", "run", "--format", "xml"], "'xml' is not one of 'csv'"),
    (["export", "nowhere", "--format", "parquet"], "no run 'nowhere'"),
    (["export", "run", "--format", "imagefolder"], "name their folder with --images"),
    (["export", "run", "--format", "parquet", "--copy"], "parquet holds no images; leave --copy"),
    (["export", "run", "--format", "parquet", "-o", "mine"], "'mine' already exists"),
    (["embed", "blobs.npy"], "an encoder is for images, and 'blobs.npy' holds vectors"),
    (["embed", "pictures.npy", "--encoder", "none"], "--encoder of embed must name an encoder"),
    (["embed", "pictures.npy", "-o", "e.csv"], "-o must end in .npy"),
    (["embed", "pictures.npy", "-o", "one.npy"], "'one.npy' already exists"),
    (["reproduce", "figure9"], "no experiment 'figure9'; did you mean 'figure"),
    (["reproduce", "figure1", "--seeds", "0"], "0 is not in the range x>=1"),
    (["reproduce", "figure1", "--encoder", "lite2"], "experiment 'figure1' takes no --encoder"),
    (["completion", "powershell"], "'powershell' is not one of 'bash'"),
]


@pytest.mark.parametrize(("call", "words"), OTHERS, ids=ids)
def test_other_commands(place, tmp_path, call, words):
    check(place, call, words, tmp_path)


# ---------------------------------------------------------------- files from others


def change(path: str, *keys, value=None):
    """Set or drop a value deep in model.json."""

    def harm() -> None:
        file = Path(path)
        tree = node = json.loads(file.read_text())
        for key in keys[:-1]:
            node = node[key]
        if value is None:
            del node[keys[-1]]
        else:
            node[keys[-1]] = value
        file.write_text(json.dumps(tree))

    return harm


MODEL = "run/model/model.json"
HARM = {
    "later version": change(MODEL, "format", value=99),
    "no format": change(MODEL, "format"),
    "no params": change(MODEL, "params"),
    "params of another kind": change(MODEL, "params", value=[1]),
    "unknown parameter": change(MODEL, "params", "magic", value=1),
    "no config": change(MODEL, "config"),
    "config of another kind": change(MODEL, "config", value="fast"),
    "a word as a number": change(MODEL, "config", "stage2", "eta", value="hot"),
    "a giant network": change(MODEL, "config", "network", "head_width", value=10**9),
    "an endless network": change(MODEL, "config", "network", "head_depth", value=10**9),
    "a fraction as a width": change(MODEL, "config", "network", "dim", value=0.5),
    "another width": change(MODEL, "config", "network", "dim", value=63),
    "no scaling": change(MODEL, "scaling"),
    "scaling of another kind": change(MODEL, "scaling", value=3),
    "another shape": change(MODEL, "scaling", "shape", value=[9]),
    "a giant shape": change(MODEL, "scaling", "shape", value=[10**12]),
    "a word as a shape": change(MODEL, "scaling", "shape", value="wide"),
    "a word as a scale": change(MODEL, "scaling", "scale", value="big"),
    "no labels": change(MODEL, "labels"),
    "labels of another kind": change(MODEL, "labels", value=[]),
    "another number of clusters": change(MODEL, "labels", "n_clusters", value=3),
    "a giant number of clusters": change(MODEL, "labels", "n_clusters", value=10**12),
    "a word as eta": change(MODEL, "labels", "eta", value="hot"),
    "no features": change(MODEL, "n_features_in"),
    "a damaged model.json": lambda: Path(MODEL).write_text("{"),
    "a list": lambda: Path(MODEL).write_text("[]"),
    "cut tensors": lambda: Path("run/model/model.safetensors").write_bytes(b"\x10" * 99),
    "no tensors": lambda: Path("run/model/model.safetensors").unlink(),
}


@pytest.mark.parametrize("name", HARM)
def test_a_tampered_model(place, tmp_path, name):
    HARM[name]()
    check(place, ["predict", "run", "blobs.npy", "-q"], "run/model", tmp_path)


@pytest.mark.parametrize(
    "name", ["../secret.png", "a/../../secret.png", "/etc/hostname.png", "nowhere.png"]
)
def test_sample_names_cannot_leave_the_images_folder(place, tmp_path, name):
    Image.new("RGB", (9, 9)).save("secret.png")
    Path("photos").mkdir()
    table = pq.read_table("run/labels.parquet").slice(0, 1)
    column = pa.array([name], pa.string())
    pq.write_table(table.set_column(0, "sample", column), "run/labels.parquet")
    record_file(Path("run"), "labels.parquet")
    call = ["export", "run", "--format", "imagefolder", "--images", "photos"]
    check(place, call, "sample", tmp_path)
