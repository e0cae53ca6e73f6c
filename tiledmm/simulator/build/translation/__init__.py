"""Translation of CUDA C to C++, line by line. What cannot be translated is refused, with the reason."""
