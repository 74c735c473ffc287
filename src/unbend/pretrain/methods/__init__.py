"""One file per method with its settings, loss and published values, named after the method."""
