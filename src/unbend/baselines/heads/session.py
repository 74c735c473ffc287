"""Train heads: batches, an optimiser, a loss for each head, and a history."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Adam

from unbend.baselines.heads.pairs import Pairs
from unbend.baselines.heads.stacked import HeadSpec, HeadStack
from unbend.baselines.heads.views import Trunk, Views
from unbend.progress import Progress, Tick, silent
from unbend.samples import Batches
from unbend.training import fused_for

__all__ = ["HeadModel", "Session"]


class HeadModel(nn.Module):
    """Trunk and heads: logits (H, b, k) of scaled samples."""

    def __init__(self, trunk: Trunk, heads: HeadStack) -> None:
        super().__init__()
        self.trunk, self.heads = trunk, heads

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.heads(self.trunk(x))
        return logits


class Session:
    """The state that a method trains with.

    Attributes
    ----------
    model : HeadModel
        Trunk and heads; a method may replace the heads.
    views : Views
        The inputs of the heads.
    generator : torch.Generator
        The only source of randomness.
    history : list of dict
        One row per step.
    seconds : dict
        Time of each stage.
    """

    min_steps = 500  # of a stage, because the epochs of few samples are short

    def __init__(
        self,
        model: HeadModel,
        views: Views,
        generator: torch.Generator,
        progress: Progress = silent,
    ) -> None:
        self.model, self.views = model, views
        self.generator, self.progress = generator, progress
        self.history: list[dict[str, Any]] = []
        self.seconds: dict[str, float] = {}

    @property
    def on_images(self) -> bool:
        """Whether the samples are images that pass a backbone."""
        return self.model.trunk.config is not None

    def pairs(self, k: int, *, with_self: bool = False) -> Pairs:
        """Pairs of samples and one of their k nearest neighbours in the current features."""
        h, n_clusters = self.views.features(), self.model.heads.spec.n_out
        return Pairs(h, k, n_clusters, self.generator, with_self=with_self, progress=self.progress)

    def new_heads(self, spec: HeadSpec) -> HeadStack:
        """A stack of fresh heads on the device of the samples."""
        return HeadStack(spec, self.generator).to(self.views.samples.device)

    def log_p(self, h: Tensor) -> Tensor:
        """Log-probabilities (H, b, k) of all heads for features (b, d)."""
        log_p: Tensor = self.model.heads(h).log_softmax(-1)
        return log_p

    @torch.no_grad()
    def probabilities(self, h: Tensor | None = None) -> Tensor:
        """Probabilities (H, n, k) for features, by default those of all original samples."""
        h = self.views.features() if h is None else h
        heads = self.model.heads
        training = heads.training
        heads.eval()
        parts = [heads(part).softmax(-1) for part in torch.split(h, 4096)]
        heads.train(training)
        return torch.cat(parts, 1)

    def n_steps(
        self,
        epochs: int,
        batch_size: int,
        *,
        min_steps: int | None = None,
        samples: Tensor | None = None,
    ) -> int:
        """How many steps :meth:`descend` makes with the same arguments."""
        count = len(self.views) if samples is None else len(samples)
        per_epoch = Batches(count, batch_size, self.generator).per_epoch
        return max(epochs * per_epoch, self.min_steps if min_steps is None else min_steps)

    def descend(
        self,
        stage: str,
        compute: Callable[[Tensor, int], Tensor],
        parameters: Iterable[nn.Parameter],
        *,
        lr: float | None,
        epochs: int,
        batch_size: int,
        min_steps: int | None = None,
        weight_decay: float = 0.0,
        betas: tuple[float, float] = (0.9, 0.999),
        lr_factor: Callable[[int, int], float] = lambda step, total: 1.0,
        samples: Tensor | None = None,
        before_epoch: Callable[[int], None] | None = None,
        after_step: Callable[[int], None] | None = None,
    ) -> Tensor:
        """Train with Adam and return each head's mean loss over the last epoch, (H,).

        ``compute(index, step)`` returns the loss of each head for the samples at ``index``; heads
        share no parameters, so their sum is minimised. There are at least ``min_steps`` steps, by
        default those of the class. ``lr=None`` is 3e-3 for heads on embeddings. For a whole
        network it is 1e-4 for 20,000 steps, as published for SCAN, and grows up to 1e-3 for fewer,
        so that rate times steps stays the same. ``samples`` limits training to a subset;
        ``lr_factor(step, total)`` scales the rate.
        """
        start = time.perf_counter()
        count = len(self.views) if samples is None else len(samples)
        batches = Batches(count, batch_size, self.generator)
        per_epoch = batches.per_epoch
        total = self.n_steps(epochs, batch_size, min_steps=min_steps, samples=samples)
        if lr is None:
            lr = min(1e-3, 2 / total) if self.on_images else 3e-3
        chosen = [p for p in parameters if p.requires_grad]
        optimizer = Adam(
            chosen, lr, betas=betas, weight_decay=weight_decay, fused=fused_for(chosen)
        )
        last: deque[Tensor] = deque(maxlen=per_epoch)
        for step in range(total):
            if before_epoch is not None and step % per_epoch == 0:
                before_epoch(step // per_epoch)
            index = next(batches)
            losses = compute(index if samples is None else samples[index], step)
            optimizer.zero_grad(set_to_none=True)
            losses.sum().backward()  # type: ignore[no-untyped-call]
            for group in optimizer.param_groups:
                group["lr"] = lr * lr_factor(step, total)
            optimizer.step()
            if after_step is not None:
                after_step(step)
            last.append(losses.detach())
            self._note(stage, step, total, losses)
        self.seconds[stage] = self.seconds.get(stage, 0.0) + time.perf_counter() - start
        return torch.stack(list(last)).mean(0).cpu()

    def _note(self, stage: str, step: int, total: int, losses: Tensor) -> None:
        loss = float(losses.detach().mean())
        if loss != loss or abs(loss) == float("inf"):
            raise FloatingPointError(
                f"the loss of {stage} became {loss} at step {step}; use a smaller `lr`"
            )
        self.history.append({"stage": stage, "step": step, "loss": loss})
        self.progress(Tick(stage, step + 1, total, {"loss": loss}))
