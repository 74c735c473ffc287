"""The config of a run, the presets, and the function that resolves a call to a config.

A :class:`Config` holds the settings a run actually used and is saved with every result. Its parts
are in :mod:`unbend.knobs`. All training code gets its config from :func:`resolve`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import Field, asdict, dataclass, field, fields, is_dataclass, replace
from typing import Any

from unbend.budget import (
    BUDGET,
    Costs,
    Part,
    Plan,
    costs_of,
    fit_to_budget,
    seconds_allowed,
    seconds_of,
)
from unbend.knobs import (
    Augmentation,
    LabelConfig,
    NetworkConfig,
    Stage1Config,
    Stage2Config,
    ViewConfig,
)
from unbend.networks import resolve_backbone
from unbend.networks.encoders.unbend_checkpoint import read_saved_encoder
from unbend.pretrain import METHODS, PretrainConfig, is_path
from unbend.rules import check_rule, one_of
from unbend.training import steps_of

__all__ = [
    "Augmentation",
    "Config",
    "LabelConfig",
    "NetworkConfig",
    "PARAMETERS",
    "PRESETS",
    "PretrainConfig",
    "Stage1Config",
    "Stage2Config",
    "ViewConfig",
    "CALIBRATED",
    "as_published",
    "check_config",
    "costs",
    "plan",
    "preset_for",
    "resolve",
    "setting",
]


@dataclass(frozen=True)
class Config:
    """A whole run of Algorithm 1."""

    preset: str = "paper"
    views: ViewConfig = field(default_factory=ViewConfig)
    network: NetworkConfig = field(default_factory=NetworkConfig)
    pretrain: Stage1Config = field(default_factory=PretrainConfig)
    stage2: Stage2Config = field(default_factory=Stage2Config)
    labels: LabelConfig = field(default_factory=LabelConfig)

    def override(self, changes: Mapping[str, Any]) -> Config:
        """Return a copy with dotted fields replaced, as in ``{"stage2.eta": 0.1}``.

        >>> PRESETS["paper"].override({"stage2.eta": 0.1}).stage2.eta
        0.1
        """
        config = self
        for name, value in changes.items():
            config = _replace(config, str(name).split("."), str(name), value)
        return config

    def for_problem(self, n: int, n_clusters: int | str = "auto") -> Config:
        """Return a copy for n samples and k clusters: the table of docs/presets.md.

        The presets ``images`` and ``vectors`` depend on k and n. The others only limit the number
        of neighbours to a small share of the samples.

        >>> config = PRESETS["vectors"].for_problem(10_000, 200)
        >>> config.network.dim, config.pretrain.batch_size, config.views.n_neighbors
        (200, 1500, 5)
        """
        few = {"views.n_neighbors": min(self.views.n_neighbors, max(1, n // 20))}
        if self.preset not in CALIBRATED:
            return self.override(few)
        k = _TYPICAL_K if n_clusters == "auto" else int(n_clusters)
        # Each cluster needs at least one dimension. With far more dimensions than clusters, stage 1
        # splits the clusters.
        dim = max(16, min(2 * k, max(128, k)))
        batch = max(600, min(10 * k, 1500))  # about ten samples of each cluster
        # About 45 epochs, more for many clusters, within the preset's bounds.
        steps = max(self.pretrain.min_steps, 45 * n / 600) * max(1.0, k / 20) ** 0.5
        steps = round(min(steps, self.pretrain.max_steps))
        # A cluster has dim / k dimensions. With fewer than two, the invariance term needs less
        # weight.
        invariance = self.pretrain.invariance * min(1.0, dim / (2 * k))
        return self.override(few | {
            "network.dim": dim,
            "pretrain.batch_size": batch,
            "pretrain.min_steps": steps,
            "pretrain.max_steps": steps,
            "pretrain.invariance": invariance,
            "stage2.batch_size": batch,
            "stage2.n_anchors": 0 if dim <= 64 else max(32, round(256 * min(1.0, 256 / dim) ** 2)),
        })  # fmt: skip

    def to_dict(self) -> dict[str, Any]:
        """Plain nested dict, ready for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, tree: Mapping[str, Any]) -> Config:
        """Rebuild what :meth:`to_dict` wrote; an unknown field is an error."""
        config: Config = _build(cls(), tree, "config")
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
    elif isinstance(old, tuple):
        value = tuple(value) if isinstance(value, (tuple, list)) else (value,)
        if len(value) != len(old) and name != "stage2.sharpness":  # its rule says how many
            raise ValueError(f"setting {name!r} must be {len(old)} numbers, got {value!r}")
    elif isinstance(old, bool) and not isinstance(value, bool):
        raise ValueError(f"setting {name!r} must be True or False, got {value!r}")
    return replace(node, **{path[0]: value})


def _build(default: Any, tree: Mapping[str, Any], where: str) -> Any:
    """A dataclass like ``default`` with the values of a tree."""
    unknown = set(tree) - {f.name for f in fields(default)}
    if unknown:
        raise ValueError(f"unknown setting {sorted(unknown)[0]!r} in {where}")
    values: dict[str, Any] = {}
    for name, value in tree.items():
        if is_dataclass(getattr(default, name)):
            value = _build(getattr(default, name), value, f"{where}.{name}")
        values[name] = tuple(value) if isinstance(value, list) else value
    return replace(default, **values)


# For small images: mild geometric changes instead of the paper's crops, which leave two or three
# pixels of an 8 x 8 image. No flips, because small grey images are often handwriting.
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

# Presets whose settings depend on the data, see Config.for_problem. docs/presets.md explains how
# the constants were chosen.
CALIBRATED = ("images", "vectors")
_TYPICAL_K = 32  # assumed for n_clusters="auto"
_SHORT_STAGE1 = PretrainConfig(
    epochs=60,
    batch_size=600,
    optimizer="adam",  # LARS needs larger batches and many more steps
    lr=2e-3,
    warmup=0.2,
    head_steps=60,
    **{name: method.short for name, method in METHODS.items() if method.short is not None},
)
# Few steps at a third of the paper's learning rate: many more steps collapse the features into
# fewer blocks than there are groups.
_SHORT_STAGE2 = Stage2Config(eta="auto", min_steps=40, max_steps=40, batch_size=600, lr=3e-3)

PRESETS: dict[str, Config] = {
    "paper": Config(network=NetworkConfig(backbone="resnet18")),
    "images": Config(
        preset="images",
        views=ViewConfig(augmentation=_GENTLE, n_neighbors=5, metric="auto", parts="auto"),
        network=NetworkConfig(width=16, dim=64, head_width=256),
        # Augmented views need less weight on invariance than vectors, which have none.
        pretrain=replace(_SHORT_STAGE1, invariance=1.9, min_steps=150, max_steps=300),
        stage2=_SHORT_STAGE2,
        labels=LabelConfig(join="auto"),
    ),
    # Vectors of any kind: tables, pixels, embeddings of a pre-trained encoder.
    "vectors": Config(
        preset="vectors",
        views=ViewConfig(n_neighbors=5, metric="auto", parts="auto"),
        network=NetworkConfig(backbone="mlp", width=256, dim=64, head_width=256, project="auto"),
        # A third of these steps leaves small classes mixed, most of all with ridge neighbours.
        pretrain=replace(_SHORT_STAGE1, invariance=4.7, min_steps=400, max_steps=800, lr=3e-3),
        stage2=_SHORT_STAGE2,
        labels=LabelConfig(join="auto"),
    ),
    # Appendix B.1: two heads of 100 hidden neurons on the samples themselves, d = D = 3. In three
    # dimensions R is at most 3 log(1 + 1/eps_sq) = 5.4, so the invariance weight is small. Codes
    # cannot concentrate much either, so a curve needs a large eta to stay one group.
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


def settings_in(node: Any, prefix: str = "") -> Iterator[tuple[str, Field[Any], Any]]:
    """Dotted name, field and value of every setting of a config."""
    for f in fields(node):
        value = getattr(node, f.name)
        if is_dataclass(value):
            yield from settings_in(value, f"{prefix}{f.name}.")
        else:
            yield prefix + f.name, f, value


def setting(name: str) -> Field[Any]:
    """The field of a setting by its dotted name, with its rule in the metadata."""
    return next(f for found, f, _ in settings_in(Config()) if found == name)


def check_config(config: Config) -> None:
    """Raise ValueError for the first setting that breaks its rule."""
    for name, f, value in settings_in(config):
        if "rule" in f.metadata:
            check_rule(f"setting {name!r}", value, f.metadata["rule"], "leave it out")
    if config.pretrain.method != "none" and config.views.n_views < 2:
        raise ValueError(
            f"stage 1 compares views of a sample and needs n_views >= 2, got "
            f"{config.views.n_views}; take 2, or pretrain='none'"
        )


# The settings that each parameter of MLC and its peers sets, if it is given.
PARAMETERS: dict[str, tuple[str, ...]] = {
    "dim": ("network.dim",),
    "backbone": ("network.backbone",),
    "n_views": ("views.n_views",),
    "n_neighbors": ("views.n_neighbors",),
    "views": ("views.source",),
    "pretrain": ("pretrain.method",),
    "pretrain_epochs": ("pretrain.epochs",),
    "epochs": ("stage2.epochs",),
    "batch_size": ("pretrain.batch_size", "stage2.batch_size"),
    "eta": ("stage2.eta",),
    "eps_sq": ("stage2.eps_sq",),
    "train_backbone": ("stage2.train_backbone",),
    "label_method": ("labels.method",),
    "min_clusters": ("labels.min_clusters",),
    "max_clusters": ("labels.max_clusters",),
}


def resolve(
    shape: tuple[int, ...],
    n: int,
    n_clusters: int | str = "auto",
    *,
    preset: str = "auto",
    published: Mapping[str, Any] | None = None,
    adapted: Mapping[str, Any] | None = None,
    given: Mapping[str, Any] | None = None,
    settings: Mapping[str, Any] | None = None,
    budget: str | float | None = None,
) -> Config:
    """Resolve a call to a checked config; the only function that does so.

    Parameters
    ----------
    shape : tuple of int
        Of one sample as the network gets it: (p,) or (c, h, w).
    n : int
        Number of samples.
    n_clusters : int or "auto"
        k. It sets width, batch size and length in the calibrated presets.
    preset : str
        A name of :data:`PRESETS`, or ``"auto"`` for the one that fits the shape.
    published, adapted : mapping, optional
        A method's own settings over the preset ``"paper"``, and over the others.
    given : mapping, optional
        Settings from the caller's parameters, by dotted name.
    settings : mapping, optional
        Settings that the caller gave by dotted name; no setting may be in both.
    budget : {"quick", "normal", "thorough"}, float or None
        Of time, see :mod:`unbend.budget`; in the calibrated presets it plans the steps of stage 1
        that the caller does not set. None leaves them to the preset.
    """
    check_rule("`preset`", preset, one_of("auto", *PRESETS))
    name = preset_for(shape) if preset == "auto" else preset
    own = dict((published if name == "paper" else adapted) or {})
    given, settings = dict(given or {}), dict(settings or {})
    twice = sorted({*given} & {*settings})
    if twice:
        raise ValueError(f"setting {twice[0]!r} is given twice; leave one of them out")
    config = PRESETS[name].override(own).for_problem(n, n_clusters)
    backbone = resolve_backbone(config.network.backbone, shape)
    own |= {"network.backbone": backbone, **_saved_backbone(given, settings)}
    asked = {**own, **given, **settings}
    for stage in ("pretrain", "stage2"):  # epochs that are given override the step limits
        if f"{stage}.epochs" in asked:
            asked = {f"{stage}.min_steps": 0, f"{stage}.max_steps": 0, **asked}
    join = asked.get("labels.join", config.labels.join)
    if join != "auto" and "stage2.sharpness" not in asked:
        # Only the first end of stage 2 is labelled then, so there is no use for others.
        config = config.override({"stage2.sharpness": config.stage2.sharpness[:1]})
    if budget is not None and name in CALIBRATED:
        config = config.override(_in_budget(config.override(asked), shape, n, budget))
    for stage in ("pretrain", "stage2"):  # a minimum that is given is never cut
        if f"{stage}.min_steps" in asked and f"{stage}.max_steps" not in asked:
            most = getattr(config, stage).max_steps
            asked[f"{stage}.max_steps"] = most and max(most, int(asked[f"{stage}.min_steps"]))
    config = as_published(config.override(asked), asked)
    check_config(config)
    neighbors = config.views.n_neighbors
    if "views.n_neighbors" in {**given, **settings} and neighbors >= max(n, 2):
        raise ValueError(
            f"`n_neighbors`={neighbors} must be below the number of samples, {n}; leave it out, or "
            "take a smaller one"
        )
    return config


def _in_budget(
    config: Config, shape: tuple[int, ...], n: int, budget: str | float
) -> Mapping[str, Any]:
    check_rule("`budget`", budget, BUDGET)
    check_config(config)
    return fit_to_budget(
        budget,
        costs(config, shape, n),
        n,
        steps1=steps_of(config.pretrain, n),
        steps2=steps_of(config.stage2, n),
        sharpness=config.stage2.sharpness,
    )


def costs(config: Config, shape: tuple[int, ...], n: int) -> Costs:
    """What a fit costs by the model of :mod:`unbend.budget`."""
    return costs_of(shape, n, config.views.n_views, config.network, config.pretrain, config.stage2)


def plan(
    config: Config, shape: tuple[int, ...], n: int, n_clusters: int | str, budget: str | float
) -> Plan:
    """The stages of a fit with a resolved config, as they will appear in its ticks."""
    cost = costs(config, shape, n)
    several = config.stage2.eta == "auto" and n_clusters != 1
    runs = len(config.stage2.sharpness) if several else 1
    steps = steps_of(config.stage2, n)
    parts = [Part("stage 1", steps_of(config.pretrain, n), seconds_of(cost.stage1))]
    parts += [
        Part("stage 2" if i == 0 else f"stage 2, eta {i + 1}", steps, seconds_of(cost.stage2))
        for i in range(runs)
    ]
    if config.pretrain.method == "none":
        parts = parts[1:]
    return Plan(tuple(parts), cost.rest, budget, seconds_allowed(budget, n))


def _saved_backbone(given: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Network settings of the saved encoder that stage 1 starts from, if there is one."""
    method = {**given, **settings}.get("pretrain.method")
    if not isinstance(method, str) or not is_path(method):
        return {}
    saved = read_saved_encoder(method).config
    return {f"network.{name}": getattr(saved, name) for name in ("backbone", "width", "depth")}


def as_published(config: Config, asked: Collection[str] = ()) -> Config:
    """A config of the preset "paper" with the published training of its method of stage 1.

    Other presets have their own training for short runs and do not change. Neither do the
    settings in ``asked``, by dotted name. If ``asked`` has the optimiser, nothing changes.

    >>> config = as_published(PRESETS["paper"].override({"pretrain.method": "moco"}))
    >>> config.pretrain.optimizer, config.pretrain.lr
    ('sgd', 0.12)
    """
    stage = config.pretrain
    training = METHODS[stage.method].published if stage.method in METHODS else None
    if config.preset != "paper" or training is None or "pretrain.optimizer" in asked:
        return config
    changes = {
        "pretrain.optimizer": training.optimizer,
        "pretrain.lr": training.rate(stage.batch_size * stage.accumulate),
        "pretrain.weight_decay": training.weight_decay,
        "pretrain.warmup": training.warmup,
    }
    return config.override({name: v for name, v in changes.items() if name not in asked})
