"""Backbones, heads, and the network that maps x to Z and C; pre-trained encoders."""

from unbend.networks.backbones import BACKBONES, GIVEN, build_backbone, resolve_backbone
from unbend.networks.encoders import Encoder, default_encoder, load_encoder, save_encoder
from unbend.networks.heads import Head
from unbend.networks.network import Network, build_network

__all__ = [
    "BACKBONES",
    "Encoder",
    "GIVEN",
    "Head",
    "Network",
    "build_backbone",
    "build_network",
    "default_encoder",
    "load_encoder",
    "resolve_backbone",
    "save_encoder",
]
