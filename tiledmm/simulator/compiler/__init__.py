"""From a kernel's C++ to a shared library: the compiler, its flags, and the cache of what it made."""
