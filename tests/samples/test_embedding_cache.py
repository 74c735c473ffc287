"""The cache of embeddings: nothing is encoded twice, lost or confused."""

import multiprocessing
import os
import shutil
import signal
import time

import numpy as np
import pytest

from unbend.disk import Cache, hash_samples
from unbend.exceptions import UnbendWarning
from unbend.samples.embedding_cache import EmbeddingCache


class Encode:
    """Vectors that tell which sample they are of; remembers what it was asked for."""

    def __init__(self, X):
        self.X, self.asked = X, []

    def __call__(self, part):
        self.asked += part.tolist()
        return vectors(self.X[part])


def vectors(X):
    flat = X.reshape(len(X), -1).astype(np.float32)
    return np.stack([flat.sum(1), flat[:, 0], flat[:, -1]], 1)


@pytest.fixture
def X():
    return np.random.default_rng(0).integers(0, 256, (20, 3, 4, 4), dtype=np.uint8)


def get(folder, X, key="encoder", **options):
    encode = Encode(X)
    cache = EmbeddingCache(folder)
    out = cache.get(key, hash_samples(X), encode, **options)
    np.testing.assert_array_equal(out, vectors(X))
    assert cache.encoded == len(encode.asked)
    return encode.asked


def test_a_second_run_encodes_nothing(tmp_path, X):
    assert get(tmp_path, X, shard_size=6) == list(range(20))
    assert get(tmp_path, X) == []


def test_changed_added_and_removed_samples(tmp_path, X):
    get(tmp_path, X)
    changed = X.copy()
    changed[7, 0, 0, 0] ^= 1
    assert get(tmp_path, changed) == [7]
    added = np.concatenate([changed[:3], changed[:1] // 2, changed[3:]])
    assert get(tmp_path, added) == [3]
    assert get(tmp_path, added[::-1][:5]) == []


def test_copies_are_encoded_once(tmp_path, X):
    assert get(tmp_path, np.concatenate([X[:4], X[:4]])) == [0, 1, 2, 3]


def test_another_encoder_shares_nothing(tmp_path, X):
    get(tmp_path, X)
    assert len(get(tmp_path, X, key="another")) == 20


def test_embeddings_computed_before_an_error_are_cached(tmp_path, X):
    encode = Encode(X)

    def fails(part):
        if part[0] >= 12:
            raise KeyboardInterrupt
        return encode(part)

    with pytest.raises(KeyboardInterrupt):
        EmbeddingCache(tmp_path).get("encoder", hash_samples(X), fails, shard_size=6)
    assert get(tmp_path, X) == list(range(12, 20))


@pytest.mark.parametrize("damage", ["cut", "zeroed", "one bit", "fifo"])
def test_damaged_shards_warn_once_and_are_recomputed(tmp_path, X, damage):
    get(tmp_path, X, shard_size=4)
    for shard in sorted(tmp_path.glob("*/*.safetensors"))[:3]:
        content = shard.read_bytes()
        if damage == "fifo":
            shard.unlink()
            os.mkfifo(shard)
            continue
        end = {"cut": b"", "zeroed": bytes(48), "one bit": bytes([content[-48] ^ 1])}[damage]
        rest = content[-47:] if damage == "one bit" else b""
        shard.write_bytes(content[:-48] + end + rest)
    with pytest.warns(UnbendWarning, match="has damaged entries") as told:
        assert len(get(tmp_path, X)) == 12
    assert len(told) == 1
    if damage != "fifo":  # what is no file of ours stays where it is
        assert get(tmp_path, X) == []


def test_non_finite_vectors_in_the_cache_are_ignored(tmp_path, X):
    """Even with hashes that fit them."""
    get(tmp_path, X)
    (path,) = tmp_path.glob("*/*.safetensors")
    digests = Cache(path.parent).get(path.name.partition(".")[0]).arrays["digests"]
    path.unlink()
    poison = vectors(X)
    poison[3, 1] = np.nan
    forged = {"digests": digests, "vectors": poison}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("unbend.disk.cache._is_finite", lambda array: True)
        Cache(path.parent).put("forged", forged)
    with pytest.warns(UnbendWarning, match="'vectors' is not what was written"):
        assert len(get(tmp_path, X)) == 20


def test_a_cache_that_cannot_be_written_is_one_warning(tmp_path, X):
    (tmp_path / "file").write_text("in the way")
    with pytest.warns(UnbendWarning, match="cannot be written .* set UNBEND_CACHE") as told:
        assert len(get(tmp_path / "file", X, shard_size=5)) == 20
    assert len(told) == 1


def test_one_cache_sees_what_others_do_to_the_folder(tmp_path, X):
    """Shards that came, that were deleted, and a folder that is gone."""
    cache, hashes = EmbeddingCache(tmp_path), hash_samples(X)

    def asked():
        encode = Encode(X)
        np.testing.assert_array_equal(
            cache.get("encoder", hashes, encode, shard_size=5), vectors(X)
        )
        return len(encode.asked)

    assert asked() == 20
    assert asked() == 0
    sorted(tmp_path.glob("*/*.safetensors"))[0].unlink()
    assert asked() == 5
    shutil.rmtree(tmp_path)
    get(tmp_path, X[:8])  # by another one
    assert asked() == 12
    assert asked() == 0


def test_only_the_shards_of_the_samples_are_read(tmp_path, X, monkeypatch):
    """Labelling a large folder piece by piece must not read all of it for each piece."""
    get(tmp_path, X, shard_size=5)
    cache, hashes, read = EmbeddingCache(tmp_path), hash_samples(X), []
    whole = Cache.get

    def counting(self, name, *only):
        read.extend([name] if "vectors" in only else [])
        return whole(self, name, *only)

    monkeypatch.setattr(Cache, "get", counting)
    for start in range(0, 20, 5):
        rows = slice(start, start + 5)
        out = cache.get("encoder", hashes[rows], Encode(X[rows]))
        np.testing.assert_array_equal(out, vectors(X[rows]))
    assert len(read) == 4


def test_a_wrong_encoder_is_rejected(tmp_path, X):
    with pytest.raises(ValueError, match=r"must return \(20, p\), got \(20,\)"):
        EmbeddingCache(tmp_path).get("e", hash_samples(X), lambda part: np.zeros(len(part)))
    assert EmbeddingCache(tmp_path).get("e", [], Encode(X)).shape == (0, 0)


def test_hashes_see_bytes_shape_and_kind():
    X = np.arange(24, dtype=np.uint8).reshape(1, 2, 3, 4)
    others = [X + 1, X.reshape(1, 2, 4, 3), X.astype(np.int8), X.astype(np.float32)]
    assert len({hash_samples(x)[0] for x in [X, *others]}) == 5
    assert hash_samples(np.asfortranarray(X)) == hash_samples(X)


def _slowly(folder, X, pause):
    def encode(part):
        time.sleep(pause)
        return vectors(X[part])

    EmbeddingCache(folder).get("encoder", hash_samples(X), encode, shard_size=1)


def test_kill_leaves_only_complete_shards(tmp_path, X):
    context = multiprocessing.get_context("fork")
    process = context.Process(target=_slowly, args=(tmp_path, X, 0.05))
    process.start()
    while len(list(tmp_path.glob("*/*.safetensors"))) < 3:
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    assert len(get(tmp_path, X)) <= 17
    assert get(tmp_path, X) == []


def test_two_processes_at_once(tmp_path, X):
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=_slowly, args=(tmp_path, X, 0.001)) for _ in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        assert process.exitcode == 0
    assert get(tmp_path, X) == []


def test_a_second_run_of_many_is_quick(tmp_path):
    """Twenty thousand vectors in a second or two: encoding them takes minutes."""
    hashes = [str(i) for i in range(20_000)]
    rows = np.random.default_rng(0).normal(size=(20_000, 256)).astype(np.float32)
    EmbeddingCache(tmp_path).get("e", hashes, lambda part: rows[part], shard_size=4096)
    cache = EmbeddingCache(tmp_path)
    start = time.process_time()
    out = cache.get("e", hashes, lambda part: rows[part])
    assert time.process_time() - start < 5
    assert cache.encoded == 0
    np.testing.assert_array_equal(out, rows)
