"""Hugging Face models: tiny random ones, saved here, against the library's own outputs."""

import json

import numpy as np
import pytest
import torch

from unbend.networks import load_encoder
from unbend.networks.encoders.huggingface import read_preprocessing

transformers = pytest.importorskip("transformers")

MEAN, STD = (0.48, 0.46, 0.41), (0.27, 0.26, 0.28)
TINY = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "image_size": 28,
    "patch_size": 14,
}
SQUARE = {"size": {"height": 28, "width": 28}, "image_mean": MEAN, "image_std": STD}


def models():
    """Name, model, index of the first patch."""
    t = transformers
    text = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "vocab_size": 99}
    text |= {"intermediate_size": 24, "max_position_embeddings": 8}
    return {
        "vit": lambda: t.ViTModel(t.ViTConfig(**TINY)),
        "dinov2": lambda: t.Dinov2Model(t.Dinov2Config(**TINY)),
        "registers": lambda: t.Dinov2WithRegistersModel(
            t.Dinov2WithRegistersConfig(**TINY, num_register_tokens=3)
        ),
        "clip": lambda: t.CLIPModel(
            t.CLIPConfig(text_config=text, vision_config=TINY, projection_dim=10)
        ),
        "siglip": lambda: t.SiglipModel(t.SiglipConfig(text_config=text, vision_config=TINY)),
        "resnet": lambda: t.ResNetModel(
            t.ResNetConfig(embedding_size=8, hidden_sizes=[8, 12], depths=[1, 1])
        ),
    }


@pytest.fixture
def images():
    return np.random.default_rng(0).integers(0, 256, (3, 3, 28, 28), dtype=np.uint8)


def save(tmp_path, name, config=SQUARE):
    torch.manual_seed(0)
    model = models()[name]().eval()
    with torch.no_grad():  # new models have blank tokens and norms: make every weight count
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    model.save_pretrained(tmp_path / name)
    (tmp_path / name / "preprocessor_config.json").write_text(json.dumps(config))
    return model


def pixels(images):
    x = torch.from_numpy(images).float() / 255
    return (x - torch.tensor(MEAN).view(3, 1, 1)) / torch.tensor(STD).view(3, 1, 1)


def truth(name, model, x, pooling):
    """The library's outputs, picked by hand."""
    vision = model.vision_model if name in ("clip", "siglip") else model
    with torch.no_grad():
        out = vision(pixel_values=x)
        if pooling == "pooled" and name == "clip":
            return model.visual_projection(out.pooler_output)
        if pooling == "pooled":
            return out.pooler_output.flatten(1)
        if name == "resnet":
            return out.last_hidden_state.mean((2, 3))
        first = {"siglip": 0, "registers": 4}.get(name, 1)
        hidden = out.last_hidden_state
        return hidden[:, 0] if pooling == "cls" else hidden[:, first:].mean(1)


@pytest.mark.parametrize(
    ("name", "usual", "poolings"),
    [
        ("vit", "cls", ("cls", "mean", "pooled")),
        ("dinov2", "cls", ("cls", "mean", "pooled")),
        ("registers", "cls", ("cls", "mean")),
        ("clip", "pooled", ("cls", "mean", "pooled")),
        ("siglip", "pooled", ("mean", "pooled")),
        ("resnet", "pooled", ("mean", "pooled")),
    ],
)
def test_every_pooling_of_every_family(tmp_path, images, name, usual, poolings):
    model = save(tmp_path, name)
    for pooling in poolings:
        encoder = load_encoder(str(tmp_path / name), pooling=pooling)
        expected = truth(name, model, pixels(images), pooling).numpy()
        np.testing.assert_allclose(encoder.encode(images), expected, atol=1e-4)
    default = load_encoder(f"hf:{tmp_path / name}")
    assert default.pooling == usual
    assert default.dim == truth(name, model, pixels(images), usual).shape[1]
    assert default.resolution == 28


def test_another_resolution_interpolates_the_positions(tmp_path):
    model = save(tmp_path, "vit")
    images = np.random.default_rng(0).integers(0, 256, (2, 3, 42, 42), dtype=np.uint8)
    encoder = load_encoder(tmp_path / "vit", resolution=42)
    with torch.no_grad():
        out = model(pixel_values=pixels(images), interpolate_pos_encoding=True)
    np.testing.assert_allclose(encoder.encode(images), out.last_hidden_state[:, 0], atol=1e-4)
    assert encoder.fingerprint != load_encoder(tmp_path / "vit").fingerprint


def test_a_class_token_that_is_not_there_is_rejected(tmp_path):
    save(tmp_path, "siglip")
    with pytest.raises(ValueError, match="needs a class token, SiglipModel has none"):
        load_encoder(tmp_path / "siglip", pooling="cls")
    with pytest.raises(ValueError, match="must be one of cls, mean, pooled, got 'max'"):
        load_encoder(tmp_path / "siglip", pooling="max")


def test_pickled_weights_are_rejected(tmp_path):
    model = save(tmp_path, "vit")
    torch.save(model.state_dict(), tmp_path / "vit" / "pytorch_model.bin")
    (tmp_path / "vit" / "model.safetensors").unlink()
    with pytest.raises(OSError, match=r"no \.safetensors weights; pickled"):
        load_encoder(tmp_path / "vit")


def test_weights_that_would_be_random_are_rejected(tmp_path):
    from safetensors.torch import load_file, save_file

    save(tmp_path, "vit")
    path = tmp_path / "vit" / "model.safetensors"
    state = load_file(path)
    without = {k: v for k, v in state.items() if "pooler" not in k}
    save_file(without, path, metadata={"format": "pt"})
    load_encoder(tmp_path / "vit", pooling="cls")  # does not use it
    with pytest.raises(ValueError, match=r"lacks 2 weights \(pooler.*take pooling='cls'"):
        load_encoder(tmp_path / "vit", pooling="pooled")
    first = next(k for k in without if "layer" in k)
    save_file({k: v for k, v in without.items() if k != first}, path, metadata={"format": "pt"})
    with pytest.raises(ValueError, match="they would be random"):
        load_encoder(tmp_path / "vit", pooling="cls")


def test_a_folder_without_preprocessing_is_rejected(tmp_path):
    save(tmp_path, "vit")
    (tmp_path / "vit" / "preprocessor_config.json").unlink()
    with pytest.raises(OSError, match=r"no readable preprocessor_config\.json"):
        load_encoder(tmp_path / "vit")


def test_a_name_that_cannot_be_had_gives_one_clear_error_line(monkeypatch):
    def offline(*args, **kwargs):
        raise OSError("We couldn't connect to the hub\nand have no copy\nof it.")

    monkeypatch.setattr(transformers.AutoModel, "from_pretrained", offline)
    with pytest.raises(OSError, match="give a local folder") as error:
        load_encoder("hf:nobody/nothing")
    assert "\n" not in str(error.value)


def test_a_missing_library_gives_one_clear_error_line(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(ImportError, match=r"unbend\[hf\]"):
        load_encoder("hf:facebook/dinov2-small")


@pytest.mark.parametrize(
    ("config", "size", "crop", "mode"),
    [
        # CLIP and DINOv2: the short side, then the centre.
        (
            {"size": {"shortest_edge": 256}, "crop_size": {"height": 224, "width": 224}},
            (224, 224),
            0.875,
            "bicubic",
        ),
        ({"size": 224, "crop_size": 224, "do_center_crop": True}, (224, 224), 1.0, "bicubic"),
        # ViT and SigLIP: squeezed.
        ({"size": {"height": 384, "width": 384}, "resample": 2}, (384, 384), None, "bilinear"),
        # ResNet and ConvNeXt: crop_pct.
        ({"size": {"shortest_edge": 224}, "crop_pct": 0.875}, (224, 224), 0.875, "bicubic"),
    ],
)
def test_the_spellings_of_size_and_crop(config, size, crop, mode):
    got = read_preprocessing(config)
    assert (got.size, got.crop, got.interpolation) == (size, crop, mode)


def test_rescaling_and_normalising_can_be_off():
    off = read_preprocessing(SQUARE | {"do_normalize": False})
    assert (off.mean, off.std) == ((0.0,) * 3, (1.0,) * 3)
    bytes_ = read_preprocessing(SQUARE | {"do_rescale": False, "image_mean": [127.5] * 3})
    assert bytes_.mean == pytest.approx((0.5,) * 3)
    with pytest.raises(ValueError, match="not understood"):
        read_preprocessing({"size": {"longest_edge": 3}})
