"""``python -m unbend``, as ``torchrun -m unbend`` needs it."""

from unbend.cli import main

if __name__ == "__main__":
    main(prog_name="unbend")
