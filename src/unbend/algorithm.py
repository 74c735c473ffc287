"""Algorithm 1 of the paper on one page: from samples to a linear representation and labels.

The comments number the paper's lines. Equations: (4) is the MLC objective, (5) the total coding
rate of stage 1, (6) how views are joined. The extension point is ``objective``: a function of the
features and codes of a batch. CPP, PRO-DSC and NMCE pass their own.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import normalize
from torch.optim import SGD, Optimizer

from unbend.begin import Run
from unbend.config import Config
from unbend.functional import doubly_stochastic, rate_reduction
from unbend.knobs import Stage2Config
from unbend.labels import (
    Codes,
    LabelModel,
    ModelSelection,
    Space,
    Surroundings,
    calibrate_eta,
    calibrate_temperature,
    choose_labelling,
    choose_n_clusters,
    count_votes,
    label_codes,
    n_voters,
    reference_rows,
    survey,
)
from unbend.labels.choose import most_without
from unbend.networks import Network
from unbend.networks.network import Output
from unbend.pretrain import pretrain
from unbend.samples import Batches, nearest_neighbors, within_reach
from unbend.training import (
    Guard,
    History,
    Stage,
    Terms,
    descend,
    fused_for,
    gather,
    share,
    steps_of,
)

__all__ = [
    "Objective",
    "Solution",
    "Trained",
    "head_parameters",
    "linearize",
    "mlc_objective",
    "solve",
    "train_encoder",
]

STAGE_2 = "stage 2"
_KEPT = 2**27  # numbers of Z and C of all states that are kept in memory, a gigabyte
_TYPICAL_ETA = 0.175  # the paper's, for one cluster, which says nothing about η
_SAME_ETA = 1e-3  # relative difference below which two η are the same
_COUNTED_ROWS = 3000  # a sample that decides the number of clusters

# Loss and rates of a batch from features Z (A, n, d) and codes C (A, n, d) of its A views. All
# randomness must come from the generator, which is on the CPU.
Objective = Callable[[Tensor, Tensor, Stage2Config, torch.Generator], Terms]


@dataclass(frozen=True)
class Solution:
    """The result of Algorithm 1: the trained network, Z and C of all samples, labels, history.

    ``output`` holds Z and C in the precision of the network's encoding, float64 for vectors;
    ``config`` includes the calibrated values; ``surroundings`` score outliers.
    """

    network: Network
    labels: LabelModel
    history: History
    output: Output
    config: Config
    surroundings: Surroundings

    @property
    def Z(self) -> Tensor:
        """Features in 32 bits, as they were labelled."""
        return self.output.Z.float()

    @property
    def C(self) -> Tensor:
        """Codes in 32 bits."""
        return self.output.C.float()


class Trained(NamedTuple):
    """A network after stage 1 and a row per step."""

    network: Network
    history: History


def mlc_objective(Z: Tensor, C: Tensor, config: Stage2Config, generator: torch.Generator) -> Terms:
    """The negative of Eq. (4), R(Z) - R_c(Z, Γ), with the views joined as in Eq. (6)."""
    Z = normalize(Z.mean(0), dim=1)
    Gamma = doubly_stochastic(C @ C.mT, float(config.eta), tol=config.tol).Gamma.mean(0)
    rates = rate_reduction(
        Z, Gamma, config.eps_sq, n_anchors=config.n_anchors or None, generator=generator
    )
    return Terms(-rates.delta, rates.R, rates.R_c, Z)


def solve(
    run: Run,
    n_clusters: int | str,
    *,
    objective: Objective = mlc_objective,
    name: str = STAGE_2,
) -> Solution:
    """Run Algorithm 1; ``name`` is the name of stage 2 in the history.

    With ``eta="auto"``, lines 3 to 9 run once for each sharpness, each time from the end of stage
    1, and line 10 chooses among the labellings of all results.
    """
    network, record = run.network, run.tools.record
    history: History = []
    if not run.started:
        history += pretrain(network, run.views, run.config.pretrain, run.tools)  # line 1
    etas = Etas(run.config.stage2, n_clusters)
    names = [name if i == 0 else f"{name}, eta {i + 1}" for i in range(len(etas))]
    begins = not any(map(record.reached, names))
    if begins:
        network.copy_feature_head()  # line 2
        run.refresh_views()
    ends = {"before": copy.deepcopy(network)}  # kept in checkpoints, like the etas
    selection = None
    if begins:
        selection = _count(run, ends["before"]) if n_clusters == "auto" else None
        k = int(n_clusters) if selection is None else selection.chosen
        etas.calibrate(network, run.samples, k)
    for i, stage in enumerate(names):
        if i >= len(etas):  # two sharpnesses got the same η
            break
        if i > 0 and not record.reached(stage):
            network.load_state_dict(ends["before"].state_dict())
        history += linearize(  # lines 3-9
            run, objective=objective, name=stage, etas=etas, nth=i, parts={"etas": etas, **ends}
        )
        ends[f"after {i + 1}"] = copy.deepcopy(network)
    if n_clusters == "auto" and selection is None:  # a run that was resumed
        selection = _count(run, ends["before"])
    k = int(n_clusters) if selection is None else selection.chosen
    found = _label(run, k, list(ends.values()), etas, history)  # line 10
    return replace(found, labels=replace(found.labels, selection=selection))


def _count(run: Run, before: Network) -> ModelSelection:
    """The number of clusters, from the neighbours of the samples and of the features of stage 1.

    It is needed before stage 2, whose η is calibrated to it.
    """
    labels, eta = run.config.labels, run.config.stage2.eta
    most = labels.max_clusters or most_without(labels.min_clusters)
    size = max(_COUNTED_ROWS, 12 * most)
    order = torch.randperm(len(run.samples), generator=torch.Generator().manual_seed(0))[:size]
    samples = run.samples[order.sort().values.to(run.samples.device)]
    before.to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]
    Z = before.encode(samples).Z.cpu().float()
    return choose_n_clusters(
        [Space(samples, run.config.views.metric), Space(Z)],
        Z,
        eta=None if eta == "auto" else float(eta),
        min_clusters=labels.min_clusters,
        max_clusters=labels.max_clusters,
        more=labels.max_clusters is None or labels.max_clusters < len(run.samples) - 2,
        progress=run.tools.progress,
    )


def _is_among(eta: float, others: Sequence[float]) -> bool:
    """Whether a run at this η would repeat one of the others."""
    return any(math.isclose(eta, other, rel_tol=_SAME_ETA) for other in others)


class Etas:
    """η of each run of stage 2: the one asked for, or one calibrated for each sharpness."""

    def __init__(self, config: Stage2Config, n_clusters: int | str) -> None:
        self._wanted: tuple[float, ...] = ()
        self.values = [_TYPICAL_ETA if config.eta == "auto" else float(config.eta)]
        if config.eta == "auto" and n_clusters != 1:
            self._wanted = config.sharpness
            self.values = [_TYPICAL_ETA] * len(self._wanted)

    def __len__(self) -> int:
        return len(self.values)

    def calibrate(self, network: Network, samples: Tensor, k: int) -> None:
        """Calibrate η to k on the features of stage 1, which are the initial codes."""
        if self._wanted:
            pilot = torch.randperm(len(samples), generator=torch.Generator().manual_seed(0))
            C = network.encode(samples[pilot[: max(1000, 6 * k)].to(samples.device)]).C
            found = [calibrate_eta(C, k, wanted) for wanted in self._wanted]
            # Where none of the η that are tried is sharp enough, all end at the smallest.
            self.values = [eta for i, eta in enumerate(found) if not _is_among(eta, found[:i])]

    def state(self) -> dict[str, list[float]]:
        """For checkpoints."""
        return {"values": self.values}

    def load_state(self, state: Mapping[str, list[float]]) -> None:
        """From checkpoints."""
        self.values = list(state["values"])


def _label(run: Run, k: int, ends: list[Network], etas: Etas, history: History) -> Solution:
    """Line 10: label the end of stage 2, or choose among labellings of the ends of both stages."""
    config, chosen = run.config, 1
    states = _Ends(run, ends, etas)
    eps_sq, method = config.stage2.eps_sq, config.labels.method
    if config.labels.join == "auto":
        vectors = run.samples if run.samples.ndim == 2 else None
        labels, chosen = choose_labelling(
            states,
            k,
            samples=vectors,
            metric=config.views.metric,
            neighbors=None if vectors is None else run.views.graph,
            eps_sq=eps_sq,
            method=method,
            seed=run.seed,
            progress=run.tools.progress,
        )
    else:
        after = states[1]
        labels = label_codes(
            after.C,
            after.Z,
            k,
            eta=after.eta,
            absolute=config.labels.absolute,
            join=config.labels.join,
            before=states[0].Z,
            eps_sq=eps_sq,
            method=method,
            seed=run.seed,
            progress=run.tools.progress,
        )
    output = states.output(chosen)
    config = config.override({"stage2.eta": states.eta(chosen)})
    labels, around = _look_around(run, labels, output.C)
    network = ends[chosen].cpu().eval()
    return Solution(network, labels, history, output, config, around)


def _look_around(run: Run, labels: LabelModel, C: Tensor) -> tuple[LabelModel, Surroundings]:
    """Calibrate probabilities and outlier scores by neighbours among the samples themselves."""
    rows = reference_rows(len(C), run.seed % 2**32)
    samples = run.samples[rows.to(run.samples.device)]
    metric, k = run.config.views.metric, labels.n_clusters
    around = survey(samples, metric)
    own = torch.from_numpy(labels.labels)[rows]
    # The neighbours of the fit vote. For ridge metrics these are others than the nearest rows.
    neighbors = nearest_neighbors(samples, n_voters(len(rows), k), metric=metric)
    neighbors = within_reach(samples, neighbors, metric, int(run.config.views.parts)).cpu()
    votes = count_votes(neighbors, own, k)
    temperature = calibrate_temperature(labels.predict_proba(C[rows].float()), votes)
    return replace(labels, temperature=temperature), around


class _Ends:
    """Inputs of labelling after stage 1 (the first) and after each stage 2.

    With many samples in many clusters all of them together would take gigabytes. They are then
    encoded anew whenever they are asked for.
    """

    def __init__(self, run: Run, ends: Sequence[Network], etas: Etas) -> None:
        self._run, self._ends, self._etas = run, ends, etas
        numbers = 2 * len(ends) * len(run.samples) * run.network.feature_head.dim
        self._keeps = numbers <= _KEPT
        self._outputs: dict[int, Output] = {}

    def __len__(self) -> int:
        return len(self._ends)

    def eta(self, nth: int) -> float:
        """η of the nth state; that of the first stage 2 for stage 1."""
        return self._etas.values[max(nth - 1, 0)]

    def output(self, nth: int, dtype: torch.dtype | None = None) -> Output:
        """Z and C of all samples, computed as a loaded network would; ``dtype`` as in encode."""
        if nth in self._outputs:
            return self._outputs[nth]
        end = self._ends[nth]
        end.to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]
        found = end.encode(self._run.samples, dtype=None if self._keeps else dtype)
        found = Output(*(t.cpu() for t in found))
        if self._keeps:
            self._outputs[nth] = found
        return found

    def __getitem__(self, nth: int) -> Codes:
        eta, output = self.eta(nth), self.output(nth, torch.float32)
        name = "stage 1" if nth == 0 else f"stage 2 at eta {eta:.3g}"
        return Codes(name, output.C.float(), output.Z.float(), eta)


def train_encoder(run: Run) -> Trained:
    """Line 1 alone."""
    history = pretrain(run.network, run.views, run.config.pretrain, run.tools)
    return Trained(run.end().cpu().eval(), history)


def linearize(
    run: Run,
    *,
    objective: Objective = mlc_objective,
    name: str = STAGE_2,
    etas: Etas | None = None,
    nth: int = 0,
    parts: Mapping[str, Any] | None = None,
    make_optimizers: Callable[[Network, Stage2Config], Sequence[Optimizer]] | None = None,
    lr_factor: Callable[[int], float] = lambda step: 1.0,
) -> History:
    """Lines 3-9: minimise the objective over both heads, and the backbone if configured.

    ``etas`` holds the η of this run of stage 2 at position ``nth``; without it, η comes from the
    config. ``parts`` are saved in checkpoints and restored when a run resumes.
    """
    network, views, config, tools = run.trained, run.views, run.config.stage2, run.tools
    network.train()
    network.backbone.requires_grad_(config.train_backbone)
    network.backbone.train(config.train_backbone)
    batches = Batches(len(views), config.batch_size, tools.generator)

    def compute(step: int) -> Terms:
        batch = next(batches)  # line 4
        outputs = [network(share(x)) for x in views(batch)]  # lines 5-6
        Z = torch.stack([gather(out.Z.float()) for out in outputs])
        C = torch.stack([gather(out.C.float()) for out in outputs])
        eta = config.eta if etas is None else etas.values[nth]
        terms = objective(Z, C, replace(config, eta=eta), tools.generator)
        loss = getattr(terms, "loss", None)
        graph = torch.is_grad_enabled()
        if not isinstance(loss, Tensor) or loss.ndim or graph > loss.requires_grad:
            raise TypeError(
                "`objective` must return unbend.training.Terms, whose `loss` is one number that "
                f"depends on Z or C, got {type(terms).__name__}"
            )
        return terms

    made = (make_optimizers or sgd_per_head)(run.network, config)
    optimizers: list[Any] = [tools.fabric.setup_optimizers(o) for o in made]
    own = {"generator": tools.generator, "views": views, "batches": batches}
    stage = Stage(
        compute,
        optimizers,
        n_steps=steps_of(config, len(views)),
        guard=Guard(network, optimizers, name, run.network.feature_head.dim, config.eps_sq),
        lr_factor=lr_factor,
        accumulate=config.accumulate,
        max_norm=config.max_norm,
        parts={**own, **(parts or {})},
        network=run.network,
        unit=views.unit,
    )
    return descend(stage, tools)  # lines 7-8


def sgd_per_head(network: Network, config: Stage2Config) -> list[Optimizer]:
    """SGD for each head; a trainable backbone shares the feature head's optimiser."""
    options: dict[str, Any] = {"momentum": config.momentum, "weight_decay": config.weight_decay}
    return [
        SGD(params, config.lr, **options, fused=fused_for(params))
        for params in head_parameters(network, config)
    ]


def head_parameters(
    network: Network, config: Stage2Config
) -> tuple[list[torch.nn.Parameter], list[torch.nn.Parameter]]:
    """Parameters of the feature head (with the backbone if trained) and of the cluster head."""
    feature = list(network.feature_head.parameters())
    if config.train_backbone:
        feature += list(network.backbone.parameters())
    return feature, list(network.cluster_head.parameters())
