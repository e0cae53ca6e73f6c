"""Presentation of results, whatever produced them: tables, documents and rooflines.

In: rows of figures; or a kernel, a GPU and sizes. Out: text for a terminal, CSV, JSON or Markdown; bounds. May import
``codegen`` and below.
"""
