"""Correct kernels for sm_90a, a ``.cu`` file each in ``kernels/``; ``cases`` has their launches and results."""
