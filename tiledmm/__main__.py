"""``python -m tiledmm`` is the command ``tiledmm``."""

from tiledmm.cli import main

if __name__ == "__main__":
    main()
