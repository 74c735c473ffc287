"""Image files as pixels: list, decode and cache them, find duplicates and poor quality."""
