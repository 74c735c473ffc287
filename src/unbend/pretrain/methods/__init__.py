"""One file a method: its settings, its loss, how it was published. The file is its name."""
