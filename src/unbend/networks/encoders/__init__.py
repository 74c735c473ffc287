"""Pre-trained encoders: pixels in, one vector per image out."""

from unbend.networks.encoders.encoder import MIRROR, Encoder
from unbend.networks.encoders.load import default_encoder, load_encoder, mirror_few
from unbend.networks.encoders.preprocess import Preprocessing
from unbend.networks.encoders.unbend_checkpoint import save_encoder

__all__ = [
    "MIRROR",
    "Encoder",
    "Preprocessing",
    "default_encoder",
    "load_encoder",
    "mirror_few",
    "save_encoder",
]
