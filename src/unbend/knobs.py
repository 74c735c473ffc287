"""The parts of a config: every setting with its symbol, default, reason and rule.

Settings of one self-supervised method are in that method's file; see :mod:`unbend.pretrain`.
:mod:`unbend.config` puts the parts together.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from unbend.rules import (
    COPIES,
    COUNT,
    DEPTH,
    INNER_SHARE,
    NOT_NEGATIVE,
    POSITIVE,
    SHARE,
    SIZE,
    WIDTH,
    Rule,
    knob,
    one_of,
    optional,
    span,
    whole,
)

__all__ = [
    "Augmentation",
    "JOINTS",
    "RIDGE",
    "LabelConfig",
    "NetworkConfig",
    "Stage1Config",
    "Stage2Config",
    "StageConfig",
    "ViewConfig",
    "is_metric",
]


JITTER = Rule(
    lambda v: len(v) == 4 and all(map(NOT_NEGATIVE.holds, v)) and max(v[:3]) <= 1 and v[3] <= 0.5,
    "four numbers [b, c, s, h] from 0 to 1, the last up to 0.5",
)


@dataclass(frozen=True)
class Augmentation:
    """Strength of each random change of an image; the defaults are the paper's Augmentation 1."""

    # Of the resized crop: the share of the area, above 1 with a margin, and width by height, which
    # is torchvision's default, unstated in the paper.
    crop_scale: tuple[float, float] = knob((0.04, 1.0), span(0, 4))
    crop_ratio: tuple[float, float] = knob((3 / 4, 4 / 3), span(0, 1e9))
    flip: float = knob(0.5, SHARE)  # probability of a horizontal flip
    grayscale: float = knob(0.2, SHARE)  # probability; needs three channels
    # Of brightness, contrast, saturation and hue.
    jitter: tuple[float, float, float, float] = knob((0.4, 0.4, 0.4, 0.1), JITTER)
    jitter_probability: float = knob(0.8, SHARE)
    blur: float = knob(0.1, SHARE)  # probability
    # VICReg's range, in pixels at 32 x 32.
    blur_sigma: tuple[float, float] = knob((0.1, 2.0), span(0, 1e9))
    rotation: float = knob(0.0, NOT_NEGATIVE)  # largest angle in degrees
    shear: float = knob(0.0, NOT_NEGATIVE)  # largest horizontal shear
    shift: float = knob(0.0, NOT_NEGATIVE)  # largest translation as a share of half the image
    noise: float = knob(0.0, NOT_NEGATIVE)  # standard deviation, in units of the pixel range


RIDGE = "ridge:"  # and the weight, as in "ridge:0.003"


def is_metric(name: object) -> bool:
    """Whether :func:`unbend.samples.nearest_neighbors` knows this metric.

    >>> is_metric("cosine"), is_metric("ridge:0.003"), is_metric("ridge:-1")
    (True, True, False)
    """
    if not isinstance(name, str) or name in ("euclidean", "cosine", "standardized"):
        return isinstance(name, str)
    try:
        return name.startswith(RIDGE) and 0 < float(name.removeprefix(RIDGE)) < float("inf")
    except ValueError:
        return False


AUTO_OR_COUNT = Rule(
    lambda v: v == "auto" or whole(0, most=65_536).holds(v), "auto or a whole number >= 0", "try 0"
)
METRIC = Rule(
    lambda v: v == "auto" or is_metric(v),
    "auto, euclidean, standardized, cosine or ridge:WEIGHT",
    "try 'auto'",
)


@dataclass(frozen=True)
class ViewConfig:
    """What a view of a sample is (lines 4-5 of Algorithm 1)."""

    n_views: int = knob(2, COPIES)  # A
    augmentation: Augmentation = field(default_factory=Augmentation)  # images only
    # Views after the first start from one of that many nearest neighbours.
    n_neighbors: int = knob(0, COUNT, example=10)
    # Of the neighbours, see unbend.samples.nearest_neighbors; auto chooses it from the data.
    metric: str = knob("euclidean", METRIC)
    # Far neighbours are left out if the near ones take the samples apart into about that many; 0
    # keeps all, auto means k. See unbend.samples.within_reach.
    parts: int | str = knob(0, AUTO_OR_COUNT)
    refresh: int = knob(0, COUNT)  # stage 1: look neighbours up again in the features, that often
    # Vectors only: standard deviation in units of the median neighbour distance.
    noise: float = knob(0.0, NOT_NEGATIVE)
    # Images through an encoder: neighbors (of the embeddings; what auto means), cached (n_cached
    # augmented copies, encoded once) or live (augmented and encoded in each step, as in the paper).
    source: str = knob("auto", one_of("auto", "neighbors", "cached", "live"))
    n_cached: int = knob(4, COPIES)  # V


@dataclass(frozen=True)
class NetworkConfig:
    """Backbone and heads: x -> h -> z and x -> h -> c."""

    # auto | resnet18 | resnet18-imagenet | convnet | mlp | identity | module:NAME of a given one
    backbone: str = "auto"
    width: int = knob(64, WIDTH)  # channels of the first layer, or hidden units of the mlp
    depth: int = knob(1, DEPTH)  # hidden layers of the mlp
    # Directions of vectors that are whitened before the backbone; 0 for none. Set from the data
    # with ridge neighbours, whose products whitening makes visible to the network.
    whiten: int = knob(0, whole(0, most=65_536))
    # Principal directions of vectors that the backbone sees; 0 for all columns. auto: all columns
    # of narrow vectors, else see unbend.samples.principal_basis.
    project: int | str = knob(0, AUTO_OR_COUNT)
    dim: int = knob(128, WIDTH, example=64)  # d
    # NMCE's; the paper says "a few affine layers with non-linearities".
    head_width: int = knob(4096, WIDTH)
    head_depth: int = knob(1, DEPTH)  # hidden layers of each head; 0 makes the heads affine
    head_norm: bool = True  # batch normalisation inside the heads


@dataclass(frozen=True)
class StageConfig:
    """What both training stages have: distortion, length, batch, optimiser."""

    eps_sq: float = knob(0.1, POSITIVE)  # distortion of the coding rate
    epochs: int = knob(100, COUNT)
    min_steps: int = knob(0, COUNT)  # small data: at least that many steps
    max_steps: int = knob(0, COUNT)  # large data: at most that many steps; 0 is no limit
    batch_size: int = knob(1024, whole(2))  # n_b
    lr: float = knob(1e-2, POSITIVE)
    momentum: float = knob(0.9, SHARE)
    weight_decay: float = knob(5e-4, NOT_NEGATIVE)
    accumulate: int = knob(1, SIZE)  # batches per step, whose gradients are averaged
    max_norm: float = knob(0.0, NOT_NEGATIVE)  # of the gradient; 0 is no limit


@dataclass(frozen=True)
class Stage1Config(StageConfig):
    """Stage 1, line 1 of Algorithm 1, for any method."""

    method: str = "tcr"  # a method by name, none, or the path of an encoder
    # Methods other than TCR train the backbone with their own projector. This many steps of TCR
    # on the frozen backbone then initialise the feature head for stage 2.
    head_steps: int = knob(200, COUNT)
    head_lr: float = knob(2e-3, POSITIVE)  # of these steps, by Adam, whatever trained the method
    eps_sq: float = knob(0.2, POSITIVE)
    # Weight of the mean cosine of two views relative to R, per dimension, because R grows with d.
    # The paper does not state its lambda; NMCE uses 30 with R/2 at d = 128, which is 60 with R.
    # As printed in the paper (a sum over samples) it is 60/n.
    invariance: float = knob(60 / 128, NOT_NEGATIVE)
    epochs: int = knob(1000, COUNT, example=60)
    optimizer: str = knob("lars", one_of("lars", "adam", "sgd"))
    lr: float = knob(0.3, POSITIVE)
    weight_decay: float = knob(1e-4, NOT_NEGATIVE)
    warmup: float = knob(0.01, SHARE)  # share of the steps; NMCE: 10 epochs


ETA = Rule(  # below, exp(1 / eta) is infinite; above, Gamma is the same for all pairs
    lambda v: v == "auto" or (POSITIVE.holds(v) and 0.002 <= v <= 10),
    "from 0.002 to 10, or 'auto'",
    "try 'auto'",
)
SHARPNESS = Rule(
    lambda v: isinstance(v, tuple) and 0 < len(v) <= 4 and all(INNER_SHARE.holds(s) for s in v),
    "one to four numbers between 0 and 1",
)


@dataclass(frozen=True)
class Stage2Config(StageConfig):
    """Stage 2, lines 3-9 of Algorithm 1."""

    # Weight of entropy in the membership. auto: calibrate it to k after stage 1, run stage 2 once
    # for each sharpness, and choose the best labelling.
    eta: float | str = knob(0.175, ETA)
    # With eta="auto": the k-th eigenvalue that Gamma of the features of stage 1 should have.
    sharpness: tuple[float, ...] = knob((0.75, 0.9), SHARPNESS)
    # The paper does not print T. Its Table 5 spends 17.7 minutes on stage 2, 266.7 on 1000
    # epochs of stage 1, and Appendix E uses 100 epochs.
    epochs: int = knob(100, COUNT, example=30)
    train_backbone: bool = False
    n_anchors: int = knob(0, COUNT)  # columns of Gamma sampled for R_c in each step; 0 takes all
    tol: float = knob(1e-3, POSITIVE)  # of the marginals of Gamma in training; labels: tighter


JOINTS = ("none", "codes", "stage1", "auto")  # what LabelConfig.join may be


@dataclass(frozen=True)
class LabelConfig:
    """From codes to labels, line 10 of Algorithm 1; see :func:`unbend.labels.label_codes`."""

    # How to join blocks of Gamma if there are more than n_clusters. none: use the paper's k
    # eigenvectors, however many blocks there are; codes: eigenvectors and coding length of stage
    # 2; stage1: distance of the features after stage 1. auto: label in several ways and keep the
    # labelling with the largest rate reduction, see unbend.labels.candidates.
    join: str = knob("none", one_of(*JOINTS))
    # How Gamma of all samples is clustered.
    method: str = knob("auto", one_of("auto", "dense", "blocks", "landmarks"))
    min_clusters: int | None = knob(None, optional(whole(2)))  # the fewest that "auto" considers
    max_clusters: int | None = knob(None, optional(whole(3)))  # the most that "auto" considers
    absolute: bool = False  # whether c and -c are the same code, as for CPP
