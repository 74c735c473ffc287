"""Models to and from a stand-in of the hub on loopback, by the real client in its own process."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.hub.stand_in import TOKEN, serve

from unbend import MLC
from unbend.hub import model_card, repository

SCORES = {"n": 120, "acc": 0.98, "nmi": 0.95, "ami": 0.94, "ari": 0.96}
CHANCE = {"n": 120, "acc": 0.4, "nmi": 0.01, "ami": 0.0, "ari": 0.0}
FACTS = {"n": 120, "sizes": [50, 40, 30], "dim": 8, "shape": (5,), "unbend": "0.1.0"}


@pytest.fixture(scope="module")
def model():
    X = np.repeat(9 * np.eye(3, 5), 40, 0) + np.random.default_rng(0).normal(size=(120, 5))
    return MLC(3, random_state=0, pretrain_epochs=2, epochs=1).fit(X)


@pytest.fixture
def hub(tmp_path):
    """The stand-in, and a function that runs code against it: the client reads its address once."""
    with serve() as (hub, address):

        def run(code):
            env = {**os.environ, "HF_ENDPOINT": address, "HF_HOME": str(tmp_path / "hf")}
            env |= {"HF_HUB_DISABLE_TELEMETRY": "1", "HF_HUB_DISABLE_XET": "1"}
            env |= {"HF_TOKEN": TOKEN, "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
            return subprocess.run(
                [sys.executable, "-c", code], capture_output=True, text=True, env=env
            )

        yield hub, run


def test_there_and_back(hub, model, tmp_path):
    hub, run = hub
    model.save(tmp_path / "model")
    X = np.random.default_rng(1).normal(size=(9, 5)) * 5
    np.save(tmp_path / "X.npy", X)
    done = run(
        "from unbend import MLC, load\n"
        f"url = load({str(tmp_path / 'model')!r}).push_to_hub('me/three', license='mit')\n"
        "import numpy as np\n"
        "print(url)\n"
        f"X = np.load({str(tmp_path / 'X.npy')!r})\n"
        "print(MLC.from_pretrained('me/three').predict_proba(X).tolist())"
    )
    assert done.returncode == 0, done.stderr
    url, probabilities = done.stdout.splitlines()
    assert url.endswith("/me/three")
    np.testing.assert_array_equal(json.loads(probabilities), model.predict_proba(X))
    files = hub.repos["me/three"]
    assert set(files) == {".gitattributes", "README.md", "model.json", "model.safetensors"}
    card = files["README.md"].decode()
    assert 'license: "mit"' in card
    assert "3 groups in 120 unlabelled samples" in card


def test_only_the_two_files_are_fetched(hub, model, tmp_path):
    hub, run = hub
    model.save(tmp_path / "model")
    files = {p.name: p.read_bytes() for p in (tmp_path / "model").iterdir()}
    hub.repos["you/bad"] = {**files, "evil.pkl": b"cos\nsystem\n", "model.pt": b"x"}
    done = run("from unbend import MLC; print(MLC.from_pretrained('you/bad').n_clusters_)")
    assert done.stdout.strip() == "3", done.stderr
    assert not [path for _, path in hub.requests if "evil" in path or "model.pt" in path]


WRONG = """
from unbend import MLC, load
def attempt(call):
    try:
        call()
    except (ValueError, OSError) as error:
        print(type(error).__name__, "|", error)
attempt(lambda: MLC.from_pretrained("you/none"))
attempt(lambda: MLC.from_pretrained("you/empty"))
attempt(lambda: MLC.from_pretrained("a/b/c"))
attempt(lambda: load({model!r}).push_to_hub("me/x", token="hf_wrong"))
"""


def test_what_goes_wrong_is_one_line(hub, model, tmp_path):
    hub, run = hub
    model.save(tmp_path / "model")
    hub.repos["you/empty"] = {"README.md": b"nothing"}
    done = run(WRONG.format(model=str(tmp_path / "model")))
    said = done.stdout.strip().splitlines()
    assert len(said) == 4, done.stderr
    for line, words in zip(
        said,
        (
            "ValueError | cannot get the model 'you/none': no such repository",
            "holds no model of unbend: no model.json",
            "a name must be OWNER/NAME",
            "OSError | cannot upload to 'me/x'",
        ),
        strict=True,
    ):
        assert words in line


def test_no_network_is_one_line(monkeypatch):
    """The client lets errors of the library below it through."""
    httpx = pytest.importorskip("httpx")

    class NoNetwork:
        HfApi = staticmethod(lambda **given: NoNetwork)

        @staticmethod
        def create_repo(*given, **options):
            raise httpx.ConnectError("[Errno -2] Name or service not known")

    monkeypatch.setattr(repository, "_client", lambda: NoNetwork)
    with pytest.raises(OSError, match="Name or service not known; check the network and the token"):
        repository.upload_model(Path("."), "me/x", private=True, token=None, message="m")
    with pytest.raises(ValueError, match="cannot upload to 'bad': a name must be OWNER/NAME"):
        repository.upload_model(Path("."), "bad", private=True, token=None, message="m")


def test_a_directory_needs_no_hub(model, tmp_path):
    model.save(tmp_path / "run" / "model")
    for path in (tmp_path / "run", tmp_path / "run" / "model"):
        assert MLC.from_pretrained(path).n_clusters_ == 3
    with pytest.raises(ValueError, match="`revision` is for the hub"):
        MLC.from_pretrained(tmp_path / "run", revision="v1")


def test_card_has_scores_with_chance_and_the_picture():
    facts = {**FACTS, "data": "photos", "scores": SCORES, "chance": CHANCE, "seed": 4}
    card = model_card(facts, repo="me/mine", license="cc-by-4.0", picture="map.png")
    assert "| this model | 120 | 0.980 | 0.950 | 0.940 | 0.960 |" in card
    assert "| chance | 120 | 0.400 | 0.010 | 0.000 | 0.000 |" in card
    assert "](map.png)" in card
    assert "| data | photos |" in card
    assert "| seed | 4 |" in card
    assert "No true labels" in model_card(FACTS, repo="me/mine")


def test_nothing_in_the_facts_becomes_markup_or_yaml():
    hostile = "x\n---\nlicense: evil\n<script>|[a](b)"
    card = model_card({**FACTS, "data": hostile}, repo="me/mine", license=hostile)
    header = card.split("\n---\n")[0]
    assert header.count("\n") == 3
    assert "<script>" not in card.split("\n---\n", 1)[1].replace("\\<script\\>", "")
