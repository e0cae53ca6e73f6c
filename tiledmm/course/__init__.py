"""The course's exercises: files of plain CUDA C with a hole, and checks of what students write there.

    tiledmm exercise                     # what there is, and what is done in this folder
    tiledmm exercise start coalesced     # writes coalesced.cu
    tiledmm exercise check coalesced.cu

In: the exercises in ``exercises/``, and a student's file. Out: a ``Verdict``. An exercise is two files: ``NAME.cu`` has
the solution with the student's hole, and ``NAME.toml`` has its task, hints, sizes, targets, and wrong answers with what
a check says of them, which the tests run. ``exercise`` reads them, ``student_file`` writes and reads what the student
works on, ``attempt`` runs the kernel at the sizes that are shown and at hidden ones, ``figures`` measures what it
costs, ``gpu_run`` times it, ``verdict`` says what is wrong in sentences, and ``progress`` keeps what is done in the
student's folder. ``grading`` grades a class's files.

May import ``own_kernels`` and everything below it; only the command line imports it.
"""
