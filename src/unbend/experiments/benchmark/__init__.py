"""Methods x data sets x seeds in one table: `unbend benchmark`."""
