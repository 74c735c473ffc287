"""Share a model on the Hugging Face hub: upload, download, and the card that describes it."""

from unbend.hub.card import model_card
from unbend.hub.repository import download_model, upload_model

__all__ = ["download_model", "model_card", "upload_model"]
