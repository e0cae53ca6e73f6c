"""Grading of a class's submissions: each is checked in a process that can do no harm, and gets points by a rubric.

    tiledmm grade submissions/ --rubric lab.toml

In: a folder with a file or a folder per student, and a rubric. Out: points per student, and feedback as Markdown.
``rubric`` reads the rubric, ``submissions`` finds each student's files, ``grade`` has them checked side by side and
gives points, and ``feedback`` writes what each student reads. ``worker`` is the program that checks one file;
``sandbox`` starts it in namespaces of its own, where it sees no network and can write to no file outside; ``confine``
takes from it, before it runs a student's kernel, what a kernel does not need.
"""
