"""The figures and tables of the paper, one file each."""
