import pytest
import torch
from tests.oracles.training import global_random_state_kept
from torch import nn

from unbend.config import NetworkConfig
from unbend.networks import Head, Network, build_network

SHAPES = {"mlp": (6,), "identity": (6,), "convnet": (1, 8, 8), "resnet18": (3, 8, 8)}


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def build(backbone: str = "mlp", seed: int = 0, **config: object) -> Network:
    given = {"width": 8, "dim": 5, "head_width": 16, **config}
    return build_network(SHAPES[backbone], NetworkConfig(backbone=backbone, **given), seed)


def used(backbone: str = "mlp", **config: object) -> tuple[Network, torch.Tensor]:
    """A network whose running statistics have seen data, and the data."""
    network = build(backbone, **config)
    X = random(40, *SHAPES[backbone])
    network.normalize_like(X)
    network.train()
    network(X)
    return network, X


# ---------------------------------------------------------------- heads


@pytest.mark.parametrize(("depth", "norm"), [(0, True), (1, True), (1, False), (3, True)])
def test_a_head_maps_to_the_unit_sphere_through_its_layers(depth, norm):
    head = Head(7, 4, 9, depth, norm)
    assert sum(isinstance(m, nn.Linear) for m in head.modules()) == depth + 1
    assert sum(isinstance(m, nn.BatchNorm1d) for m in head.modules()) == depth * norm
    assert sum(isinstance(m, nn.ReLU) for m in head.modules()) == depth
    Z = head(random(10, 7))
    assert Z.shape == (10, 4)
    torch.testing.assert_close(Z.norm(dim=1), torch.ones(10))


def test_an_affine_head_in_closed_form():
    head, h = Head(7, 4, 9, 0, True), random(10, 7)
    (layer,) = head.layers
    raw = h @ layer.weight.T + layer.bias
    torch.testing.assert_close(head(h), raw / raw.norm(dim=1, keepdim=True))


@pytest.mark.parametrize("backbone", SHAPES)
def test_features_and_codes_lie_on_the_sphere(backbone):
    network, X = used(backbone)
    for out in network(X):
        assert out.shape == (40, 5)
        torch.testing.assert_close(out.norm(dim=1), torch.ones(40))


def test_line_2_copies_the_feature_head_once():
    network, X = used()
    network.eval()
    assert not torch.allclose(*network(X), atol=1e-2)
    network.copy_feature_head()
    assert torch.equal(*network(X))  # weights and running statistics
    with torch.no_grad():
        network.cluster_head.layers[0].weight.add_(1)
    assert not torch.allclose(*network(X), atol=1e-2)


def test_features_are_the_first_output_and_embed_comes_before():
    network, X = used()
    network.eval()
    torch.testing.assert_close(network.features(X), network(X).Z)
    torch.testing.assert_close(network.feature_head(network.embed(X)), network(X).Z)


# ---------------------------------------------------------------- normalisation


def test_images_are_normalised_per_channel():
    network = build("resnet18")
    X = random(50, 3, 8, 8) * torch.tensor([1.0, 5.0, 0.1])[:, None, None] + 3
    network.normalize_like(X)
    seen = (X - network.mean) / network.std
    torch.testing.assert_close(seen.mean((0, 2, 3)), torch.zeros(3), rtol=0, atol=1e-4)
    torch.testing.assert_close(seen.std((0, 2, 3)), torch.ones(3), rtol=1e-4, atol=0)


def test_vectors_are_centred_and_keep_their_proportions():
    network, X = build("identity"), random(50, 6) * torch.arange(1, 7) + 3
    network.normalize_like(X)
    torch.testing.assert_close(network.embed(X), X - X.mean(0))


def test_a_constant_channel_is_left_at_its_scale():
    network, X = build("resnet18"), random(20, 3, 8, 8)
    X[:, 1] = 0.1
    network.normalize_like(X)
    assert network.std[1] == 1
    assert network.embed(X + 0.5).isfinite().all()


# ---------------------------------------------------------------- encode


@pytest.mark.parametrize("backbone", SHAPES)
@pytest.mark.parametrize("batch_size", [1, 7, 40, 1024])
def test_encode_is_forward_in_evaluation_mode_whatever_the_batch(backbone, batch_size):
    network, X = used(backbone)
    found = network.encode(X, batch_size)
    network.eval()
    with torch.no_grad():
        for a, b in zip(found, network(X), strict=True):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5, check_dtype=False)


@pytest.mark.parametrize("backbone_trains", [True, False])
@pytest.mark.parametrize("heads_train", [True, False])
def test_encode_changes_no_mode_and_no_number(backbone_trains, heads_train):
    network, X = used("convnet")
    network.train(heads_train)
    network.backbone.train(backbone_trains)
    modes = [m.training for m in network.modules()]
    before = {k: v.clone() for k, v in network.state_dict().items()}
    network.encode(X)
    assert [m.training for m in network.modules()] == modes
    assert all(torch.equal(before[k], v) for k, v in network.state_dict().items())


def test_encode_restores_the_mode_after_an_error():
    network, _ = used()
    with pytest.raises(RuntimeError):
        network.encode(torch.ones(3, 99))
    assert all(m.training for m in network.modules())


def test_encode_of_no_samples_is_empty():
    network, X = used()
    assert network.encode(X[:0]).Z.shape == (0, 5)


# ---------------------------------------------------------------- seeds


@pytest.mark.parametrize("backbone", SHAPES)
def test_weights_depend_on_the_seed_alone(backbone):
    with global_random_state_kept():
        first = build(backbone).state_dict()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(99)  # another global state
        again = build(backbone).state_dict()
    other = build(backbone, seed=1).state_dict()
    assert all(torch.equal(first[k], again[k]) for k in first)
    weights = [k for k in first if "weight" in k and first[k].ndim > 1]
    assert not any(torch.equal(first[k], other[k]) for k in weights)


def test_two_heads_start_with_different_weights():
    network = build()
    a, b = network.feature_head.layers[0].weight, network.cluster_head.layers[0].weight
    assert not torch.equal(a, b)


def test_a_saved_network_reads_samples_alike():
    network, X = used("convnet")
    copy = build("convnet", seed=5)
    copy.mean, copy.std = torch.empty_like(network.mean), torch.empty_like(network.std)
    copy.load_state_dict(network.state_dict())
    torch.testing.assert_close(copy.encode(X).C, network.encode(X).C)


# ---------------------------------------------------------------- whitening


def test_whitening_is_a_fixed_map_of_unit_rows():
    network = build("mlp", whiten=4)
    basis = random(6, 4, seed=3)
    network.set_basis(basis)
    X = random(5, 6)
    first, *rest = network.backbone
    rows = X / X.norm(dim=1, keepdim=True) @ basis
    torch.testing.assert_close(first(X), rows)
    assert rest[1].in_features == 4
    assert "backbone.0.basis" in network.state_dict()
    assert not any(name.startswith("backbone.0") for name, _ in network.named_parameters())


@pytest.mark.parametrize(("backbone", "whiten"), [("mlp", 7), ("convnet", 2)])
def test_whitening_is_refused_for_images_and_too_many_directions(backbone, whiten):
    with pytest.raises(ValueError, match=r"network.whiten.*use 0"):
        build(backbone, whiten=whiten)


def test_what_is_reduced_once_is_embedded_like_the_samples():
    network = build("mlp", project=4)
    network.normalize_like(random(20, 6) + 5)
    network.set_basis(torch.linalg.qr(random(6, 4, seed=3)).Q)
    X = random(9, 6) + 5
    rows = network.reduce(X, batch_size=4)
    torch.testing.assert_close(rows, (X - network.mean) @ network.fixed.basis)
    assert not rows.requires_grad
    torch.testing.assert_close(network.embed(rows), network.embed(X))


@pytest.mark.parametrize("options", [{}, {"whiten": 6}])
def test_samples_stay_as_they_are_where_nothing_is_left_out(options):
    network = build("mlp", **options)
    X = random(5, 6)
    assert network.reduce(X) is X


def test_projected_samples_start_like_all_columns():
    """The spread of the first activations does not depend on the number of directions."""
    X = torch.zeros(2000, 400)
    X[:, :50] = random(2000, 50)
    spreads = []
    for project in (0, 50):
        config = NetworkConfig(backbone="mlp", width=512, project=project)
        backbone = build_network((400,), config, 0).backbone
        first = next(layer for layer in backbone if isinstance(layer, torch.nn.Linear))
        rows = backbone[0](X) if project else X
        spreads.append(float((rows @ first.weight.detach().T).std()))
    assert spreads[1] == pytest.approx(spreads[0], rel=0.05)


def test_projection_is_refused_for_images():
    with pytest.raises(ValueError, match=r"network.project.*use 0"):
        build("convnet", project=2)
