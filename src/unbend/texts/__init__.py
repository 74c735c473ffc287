"""Texts as vectors, by TF-IDF or a sentence encoder, and words that distinguish clusters."""

from unbend.texts.encode import TextEncoder, load_text_encoder, restore_text_encoder
from unbend.texts.words import passage, top_words

__all__ = ["TextEncoder", "load_text_encoder", "passage", "restore_text_encoder", "top_words"]
