import json
import math

import pytest
import torch
from safetensors import safe_open

from unbend.disk import hash_array
from unbend.exceptions import UnbendWarning
from unbend.training import Checkpoints, Record
from unbend.training.state import capture, pack, put_back, unpack


def through_json(tree: object) -> object:
    tensors, skeleton = pack(tree)
    return unpack(tensors, json.loads(json.dumps(skeleton)))


def test_plain_data_of_every_kind_come_back():
    tree = {
        "none": None,
        3: [True, 2**60, 0.1 + 0.2, -math.inf, "ü"],
        "nested": {"betas": (0.9, 0.999), "empty": {}, "list": [], "tuple": ()},
        "tensors": [torch.arange(6).reshape(2, 3).T, torch.tensor(1.5), torch.empty(0, 4)],
    }
    found = through_json(tree)
    for mine, theirs in zip(found.pop("tensors"), tree.pop("tensors"), strict=True):
        assert torch.equal(mine, theirs)
        assert mine.dtype == theirs.dtype
    assert found == tree
    assert isinstance(found["nested"]["betas"], tuple)


def test_memory_order_comes_back():
    x = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)
    assert through_json([x])[0].stride() == x.stride()
    assert through_json([x.contiguous()])[0].stride() == x.contiguous().stride()


def test_other_objects_are_rejected():
    with pytest.raises(TypeError, match="cannot hold a set"):
        pack({"a": {1, 2}})


@pytest.mark.parametrize("kind", ["SGD", "Adam", "AdamW", "RMSprop", "NAdam"])
def test_resumed_optimizers_are_bit_equal(kind):
    def steps(w: torch.Tensor, optimizer: torch.optim.Optimizer, n: int) -> None:
        for i in range(n):
            w.grad = torch.cos(w.detach() * (i + 1))
            optimizer.step()

    def fresh() -> tuple[torch.Tensor, torch.optim.Optimizer]:
        w = torch.nn.Parameter(torch.linspace(-1, 1, 7))
        options = {"momentum": 0.9} if kind in ("SGD", "RMSprop") else {}
        return w, getattr(torch.optim, kind)([w], 0.1, **options)

    w, optimizer = fresh()
    steps(w, optimizer, 3)
    other_w, other = fresh()
    put_back({"o": other}, through_json(capture({"o": optimizer})))
    other_w.data.copy_(w.data)
    steps(w, optimizer, 4)
    steps(other_w, other, 4)
    assert torch.equal(w, other_w)


def test_captured_state_is_independent_of_later_changes():
    layer = torch.nn.Linear(2, 2)
    generator = torch.Generator().manual_seed(0)
    states = capture({"layer": layer, "generator": generator})
    before, drawn = layer.weight.detach().clone(), torch.rand(3, generator=generator)
    with torch.no_grad():
        layer.weight.add_(1)
    put_back({"layer": layer, "generator": generator}, states)
    assert torch.equal(layer.weight, before)
    assert torch.equal(torch.rand(3, generator=generator), drawn)


# ---------------------------------------------------------------- on disk


def test_last_checkpoints_are_kept_complete(tmp_path):
    checkpoints = Checkpoints(tmp_path / "new", keep=3)
    assert checkpoints.newest() is None
    for i in range(5):
        checkpoints.save({"x": torch.full((2,), float(i))}, {"step": i})
        tensors, values = checkpoints.newest()
        assert values["step"] == i
        assert tensors["x"].tolist() == [i, i]
    names = sorted(p.name for p in (tmp_path / "new").iterdir())
    assert names == [f"checkpoint-0000000{i}" for i in (2, 3, 4)]
    folder = tmp_path / "new" / names[-1]
    assert sorted(p.name for p in folder.iterdir()) == ["state.json", "state.safetensors"]
    with safe_open(folder / "state.safetensors", "pt") as file:
        assert list(file.keys()) == ["x"]


def test_a_failing_disk_leaves_nothing_behind(tmp_path, monkeypatch):
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save({}, {"step": 1})

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        checkpoints.save({}, {"step": 2})
    assert [p.name for p in tmp_path.iterdir()] == ["checkpoint-00000000"]
    assert checkpoints.newest().values["step"] == 1


def test_damaged_and_foreign_checkpoints_are_skipped(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    (tmp_path / "checkpoint-notes").mkdir()
    (tmp_path / ".checkpoint-00000007.x.tmp").mkdir()
    for i in range(2):
        checkpoints.save({}, {"step": i})
    for name in ("state.json", "state.safetensors"):
        (tmp_path / "checkpoint-00000001" / name).unlink(missing_ok=True)
        with pytest.warns(UnbendWarning, match="checkpoint-00000001.* is damaged"):
            assert checkpoints.newest().values["step"] == 0
    (tmp_path / "checkpoint-00000000" / "state.json").write_text("[1]")
    with pytest.warns(UnbendWarning):
        assert checkpoints.newest() is None
    checkpoints.clear_leftovers()
    assert not list(tmp_path.glob(".*"))


def test_values_that_were_changed_are_noticed(tmp_path):
    """A changed step would continue elsewhere, without any error."""
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save({"x": torch.arange(3)}, {"step": 1, "loss": math.nan})
    path = tmp_path / "checkpoint-00000000" / "state.json"
    assert checkpoints.newest().values["step"] == 1
    path.write_text(path.read_text().replace('"step": 1', '"step": 2'))
    with pytest.warns(UnbendWarning, match="it is not what was written"):
        assert checkpoints.newest() is None


def test_another_format_is_rejected(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save({}, {})
    path = tmp_path / "checkpoint-00000000" / "state.json"
    path.write_text(path.read_text().replace('"format": 3', '"format": 99'))
    with pytest.raises(ValueError, match="has format 99, this version reads 3; name another"):
        checkpoints.newest()


@pytest.mark.parametrize(
    ("options", "words"),
    [({"every": -1}, "`every` .* got -1; try 5"), ({"keep": 0}, "`keep` .* got 0; try 2")],
)
def test_invalid_settings_raise(tmp_path, options, words):
    with pytest.raises(ValueError, match=words):
        Checkpoints(tmp_path, **options)


def test_a_file_in_the_way_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match=r"file' is a file; name a directory"):
        Checkpoints(tmp_path / "file")


def test_checkpoint_is_due_after_the_given_minutes(tmp_path, monkeypatch):
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    checkpoints = Checkpoints(tmp_path, every=2)
    for seconds, due in ((119, False), (1, True)):
        now[0] += seconds
        assert checkpoints.due() == due
    checkpoints.save({}, {})
    assert not checkpoints.due()


def test_nested_identity_is_compared(tmp_path):
    identity = {"config": {"a": {"b": (1, 2)}}, "seed": 3}
    Record(Checkpoints(tmp_path), identity).save("s", 1, {}, [])
    assert Record(Checkpoints(tmp_path), identity).reached("s")
    assert Checkpoints(tmp_path).identity() == {"config.a.b": [1, 2], "seed": 3}
    with pytest.raises(ValueError, match=r"a run with `a.b` = \[1, 2\], not \[1, 5\]; name"):
        Record(Checkpoints(tmp_path), {"config": {"a": {"b": (1, 5)}}, "seed": 3})


def test_hashes_see_values_shape_and_type():
    x = torch.arange(12.0)
    same = [x, x.clone(), torch.stack([x, x], 1)[:, 0]]
    others = [x.reshape(3, 4), x.int(), x + torch.eye(1, 12)[0]]
    assert len({hash_array(t) for t in same}) == 1
    assert len({hash_array(t) for t in [x, *others]}) == 4
