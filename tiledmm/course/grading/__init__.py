"""Grading of a class's submissions: each is checked in a sandboxed process, and gets points by a rubric.

    tiledmm grade submissions/ --rubric lab.toml

In: a folder with a file or a folder per student, and a rubric. Out: points per student, and feedback as Markdown.
``rubric`` reads the rubric, ``submissions`` finds each student's files, ``grade`` runs their checks in parallel and
gives points, and ``feedback`` writes what each student reads. ``worker`` is the program that checks one file.
``sandbox`` starts it in separate namespaces, where it has no network and cannot write to files outside. Before the
program runs a student's kernel, ``confine`` takes away the rights that a kernel does not need.
"""
