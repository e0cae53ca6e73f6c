"""From addresses in a library to lines, calls and elements of arrays, by its debug information."""
