"""Pre-trained encoders: pixels in, one vector per image out."""

from unbend.networks.encoders.encoder import Encoder
from unbend.networks.encoders.load import default_encoder, load_encoder
from unbend.networks.encoders.preprocess import Preprocessing
from unbend.networks.encoders.unbend_checkpoint import save_encoder

__all__ = ["Encoder", "Preprocessing", "default_encoder", "load_encoder", "save_encoder"]
