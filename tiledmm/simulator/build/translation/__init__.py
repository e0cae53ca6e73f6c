"""What CUDA C has and C++ has not, rewritten line by line; what cannot be rewritten is refused by name."""
