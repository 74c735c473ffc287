"""Texts as vectors: TF-IDF or a sentence encoder, and the words that tell clusters apart."""

from unbend.texts.encode import TextEncoder, load_text_encoder, restore_text_encoder
from unbend.texts.words import passage, top_words

__all__ = ["TextEncoder", "load_text_encoder", "passage", "restore_text_encoder", "top_words"]
