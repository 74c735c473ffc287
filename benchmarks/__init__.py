"""Ratios measured side by side in one run, with the machine written down."""
