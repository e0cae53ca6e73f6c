"""Formats of operands: how A and B reach the kernel that multiplies. Each format is a class in a file of its own.

In: the ``KernelSpec`` of a product's kernel and its ``Problem``. Out: ``PreparedOperands``: the launches that prepare
the operands, and the arrays that the kernel reads. May import ``kernels.launches`` and below.

The formats are ``in_place``, ``packed_rows``, ``packed_elements``, ``limbs``, ``bytes`` and ``residues``. "Packed"
alone means copied to rows that begin at cache lines; packed *elements* are several narrow elements in one wider
element. ``copies``, ``operand_scan`` and ``moduli`` hold what several formats need.

To add a format, write a subclass of ``operands.Operands`` here, and name it in a row of the table of variants.
``operands`` defines the methods that a format may override; ``in_place`` and ``limbs`` are good examples.
"""
