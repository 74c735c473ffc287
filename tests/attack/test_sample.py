"""A small fixed sample of ``python -m tools.attack``, and whether it notices what it looks for."""

import os
import random
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from tools.attack import fuzz, kills
from tools.attack.__main__ import ATTACKS, run_case
from tools.attack.corpus import make_corpus
from tools.attack.mutate import damage, damage_json
from tools.attack.processes import Ended, judge

import unbend.workflows.pretrain  # noqa: F401  loaded once, before any fork

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


@pytest.fixture(scope="module")
def corpus():
    before = torch.get_num_threads()
    torch.set_num_threads(1)  # threads do not survive a fork
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)  # one attack gives its rights up
        yield make_corpus(Path(folder))
    torch.set_num_threads(before)


@pytest.mark.parametrize("name", fuzz.READERS)
def test_damaged_files_are_one_line(corpus, name):
    assert run_case("fuzz", name, 0, corpus) == "", f"fuzz:{name}:0"


@pytest.mark.parametrize("name", fuzz.READERS)
def test_the_same_commands_read_files_that_are_whole(corpus, tmp_path, name):
    """Otherwise the attack would only ever see one error."""
    whole = replace(fuzz.READERS[name], damage=lambda data, rng: data)
    ended = fuzz.attempt(whole, random.Random(0), corpus, tmp_path)
    if 99999 in whole.command:
        assert "99999" in ended.err
    else:
        assert ended.code == 0, ended.err


@pytest.mark.parametrize("command", ["cluster-array", "predict", "export"])
def test_a_kill_changes_nothing(corpus, command):
    assert run_case("kill", command, 3, corpus) == "", f"kill:{command}:3"


@pytest.mark.parametrize(
    ("attack", "target", "seed"),
    [
        ("full-disk", "predict", 1),
        ("full-disk", "embed", 2),  # the names of the rows fit, the vectors do not
        ("memory", "predict", 1),
        ("streams", "predict", 1),
        ("read-only", "predict", 1),
        ("concurrent", "fresh", 1),
    ],
)
def test_a_poor_machine_is_one_line(corpus, attack, target, seed):
    assert run_case(attack, target, seed, corpus) == "", f"{attack}:{target}:{seed}"


def test_every_attack_has_targets():
    assert all(targets for _, targets in ATTACKS.values())
    assert set(kills.COMMANDS) >= {"cluster-array", "cluster-folder", "embed", "pretrain"}


@pytest.mark.parametrize(
    ("ended", "words"),
    [
        (Ended(0, "", "", hung=True), "hung"),
        (Ended(-11, "", ""), "SIGSEGV"),
        (Ended(1, "", "Traceback (most recent call last):\nKeyError: 'x'"), "KeyError"),
        (Ended(2, "", "unbend: a\nunbend: b\n"), "2 lines"),
        (Ended(2, "", ""), "0 lines"),
    ],
)
def test_what_is_wrong_is_noticed(ended, words):
    assert words in judge(ended)
    assert judge(Ended(2, "", "unbend: warning: slow\nunbend: 'x' is damaged; repair it\n")) == ""


def test_damage_depends_on_the_seed_alone():
    data = np.arange(50).tobytes()
    found = [damage(data, random.Random(seed)) for seed in range(20)]
    assert found == [damage(data, random.Random(seed)) for seed in range(20)]
    assert len(set(found)) > 15
    tree = b'{"a": [1, {"b": 2}], "c": "x"}'
    assert damage_json(tree, random.Random(1)) == damage_json(tree, random.Random(1))
