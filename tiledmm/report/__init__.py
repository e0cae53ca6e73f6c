"""Presentation of results as tables and documents, and the roofline model.

In: rows of figures; or a kernel, a GPU and sizes. Out: text for a terminal, CSV, JSON or Markdown; bounds. May import
``codegen`` and below.
"""
