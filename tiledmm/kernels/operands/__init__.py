"""What happens to the operands of a product before its kernel reads them: one format per file.

A row of the table of variants names the format of its kernel's operands. A format answers every question about them:
which kernel reads them, what is launched before it and after, how much memory that needs and how long it takes, the
peak rate, and which values it represents. ``operands`` lists these questions, with the answers of arrays as they are;
``in_place`` and ``limbs`` are good examples. A new format is one file here and one row of the table.
"""
