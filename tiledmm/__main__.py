"""Entry point of ``python -m tiledmm``, which is the same as the command ``tiledmm``."""

from tiledmm.cli import main

if __name__ == "__main__":
    main()
