"""Callbacks that write the numbers of training to a CSV file, TensorBoard or Weights & Biases.

Give one to ``MLC(callbacks=[...])``. It opens its file at the first step, so an estimator that has
one can be cloned, and writes what it holds at the last step of every stage; ``close`` or a
``with`` block ends it. A logger returns no numbers, and it is also a listener of
:class:`~unbend.progress.Tick`, as ``progress=`` of ``fit``.
"""

from __future__ import annotations

import csv
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from unbend.progress import Tick

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["CSVLogger", "TensorBoardLogger", "WandbLogger"]


class _Logger:
    """Opens at the first tick, logs each, flushes at the end of a stage."""

    _place: Any = None

    def __call__(self, tick: Tick) -> None:
        if not tick.values:
            return
        if self._place is None:
            self._place = self._open()
        self._log(tick)
        if tick.done >= tick.total:
            self._flush()

    def _open(self) -> Any:
        raise NotImplementedError

    def _log(self, tick: Tick) -> None:
        raise NotImplementedError

    def _flush(self) -> None:
        self._place.flush()

    def _close(self) -> None:
        self._place.close()

    def close(self) -> None:
        """Write the rest and let go; the next tick opens it again."""
        if self._place is not None:
            self._close()
            self._place = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class CSVLogger(_Logger):
    """Write ``stage,step,name,value``, a row per number, to a CSV file.

    A file that exists is continued, as after ``--resume``.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp(), "log.csv")
    >>> with CSVLogger(path) as log:
    ...     log(Tick("stage 1", 1, 2, {"R": 180.5}))
    >>> path.read_text().split()
    ['stage,step,name,value', 'stage', '1,1,R,180.5']
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def _open(self) -> Any:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        new = not self.path.exists() or self.path.stat().st_size == 0
        file = self.path.open("a", encoding="utf-8", newline="")
        if new:
            csv.writer(file).writerow(("stage", "step", "name", "value"))
        return file

    def _log(self, tick: Tick) -> None:
        rows = ((tick.stage, tick.done, name, repr(float(v))) for name, v in tick.values.items())
        csv.writer(self._place).writerows(rows)


class TensorBoardLogger(_Logger):
    """Write one curve per stage and number for TensorBoard.

    Needs ``pip install 'unbend[tensorboard]'``; look at it with ``tensorboard --logdir``.
    """

    def __init__(self, log_dir: str | Path) -> None:
        self.log_dir = Path(log_dir)

    def _open(self) -> Any:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise ImportError(
                f"TensorBoard is missing ({error}); run pip install 'unbend[tensorboard]'"
            ) from error
        return SummaryWriter(str(self.log_dir))

    def _log(self, tick: Tick) -> None:
        for name, value in tick.values.items():
            self._place.add_scalar(f"{tick.stage}/{name}", value, tick.done)


class WandbLogger(_Logger):
    """Write one curve per stage and number for Weights & Biases.

    Needs ``pip install 'unbend[wandb]'``. Nothing leaves this machine unless ``mode="online"``;
    ``wandb sync`` uploads an offline run later.

    Parameters
    ----------
    project : str, default="unbend"
    mode : {"offline", "online"}, default="offline"
    dir : path, default="."
        The folder in which wandb makes its own.
    **options
        For ``wandb.init``, such as ``name`` or ``config``.
    """

    def __init__(
        self,
        project: str = "unbend",
        *,
        mode: str = "offline",
        dir: str | Path = ".",
        **options: Any,
    ) -> None:
        if mode not in ("offline", "online"):
            raise ValueError(f"`mode` of WandbLogger must be offline or online, got {mode!r}")
        self.options = {"project": project, "mode": mode, "dir": str(dir), **options}
        self._stages: set[str] = set()

    def _open(self) -> Any:
        try:
            import wandb
        except ImportError as error:
            raise ImportError(
                f"Weights & Biases is missing ({error}); run pip install 'unbend[wandb]'"
            ) from error
        Path(self.options["dir"]).mkdir(parents=True, exist_ok=True)
        return wandb.init(**self.options)

    def _log(self, tick: Tick) -> None:
        step = f"{tick.stage}/step"
        if tick.stage not in self._stages:
            self._stages.add(tick.stage)
            self._place.define_metric(f"{tick.stage}/*", step_metric=step)
        values = {f"{tick.stage}/{name}": float(value) for name, value in tick.values.items()}
        self._place.log({**values, step: tick.done})

    def _flush(self) -> None:
        """wandb's own process writes every row as it comes."""

    def _close(self) -> None:
        self._place.finish()
        self._stages.clear()
