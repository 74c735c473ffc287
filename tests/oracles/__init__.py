"""Slow, obvious, float64: the truths that tests compare with."""
