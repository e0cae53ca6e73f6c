"""Arrays of other libraries on a GPU, read in place; results are of their own kind.

``calls`` runs a product of such arrays; a module here for each library that is more than the protocols ask for, of its
name and an underscore, and ``protocols`` for all others. Everything behind sees arrays of the same memory: CuPy's, or a
``ForeignArray``, which has as much as a plan needs.
"""
