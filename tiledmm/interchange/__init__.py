"""Arrays of other libraries on a GPU, which products read in place. Results are arrays of the first operand's library.

``calls`` runs a product of such arrays. A library that needs more than the protocols has a module here, with its name
and an underscore; ``protocols`` serves all others. Later stages see arrays of the same memory: CuPy arrays, or a
``ForeignArray``, which has the attributes that a plan needs.
"""
