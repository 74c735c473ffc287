"""What the commands do, as Python functions: one per command."""

from unbend.workflows.benchmark import benchmark
from unbend.workflows.cluster import ClusterResult, cluster
from unbend.workflows.doctor import Diagnosis, doctor
from unbend.workflows.embed import EmbedResult, embed
from unbend.workflows.explore import ExploreResult, explore
from unbend.workflows.export import export
from unbend.workflows.inspect import InspectResult, inspect
from unbend.workflows.predict import PredictResult, predict
from unbend.workflows.pretrain import PretrainResult, pretrain
from unbend.workflows.push import push
from unbend.workflows.report import report
from unbend.workflows.reproduce import reproduce
from unbend.workflows.update import UpdateResult, update

__all__ = [
    "ClusterResult",
    "Diagnosis",
    "EmbedResult",
    "ExploreResult",
    "InspectResult",
    "PredictResult",
    "PretrainResult",
    "UpdateResult",
    "benchmark",
    "cluster",
    "doctor",
    "embed",
    "explore",
    "export",
    "inspect",
    "predict",
    "pretrain",
    "push",
    "report",
    "reproduce",
    "update",
]
