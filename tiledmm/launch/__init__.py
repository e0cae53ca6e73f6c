"""Launches of a product's kernels on the device.

In: arrays and the keywords of a call, from which ``selection`` makes a ``Choice``. Out: the product. ``plans`` keeps
one plan per call and description of arrays. ``plan`` runs it, ``prepared`` holds each launch with all of its arguments
but the addresses, and ``dependent`` launches kernels that may begin before the launch before them has ended.
``forms`` makes and keeps the forms of prepared operands. ``by_cupy`` runs the products that are left to CuPy,
``devices`` asks CuPy about arrays and devices, and ``ahead_of_time`` compiles kernels by name. May import ``compile``
and below. Needs CuPy, which ``plans`` and ``ahead_of_time`` import when they are first called.
"""
