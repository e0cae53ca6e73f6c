"""Source lines, calls and elements of arrays for addresses in a kernel's library, from its debug information."""
