"""The course's exercises: files of plain CUDA C with a hole, and checks of what students write there.

    tiledmm exercise                     # lists the exercises, and which ones are done in this folder
    tiledmm exercise start coalesced     # writes coalesced.cu
    tiledmm exercise check coalesced.cu  # says whether it is right, and if not, why

In: the exercises in ``exercises/``, and a student's file. Out: a ``Verdict``. An exercise is two files: ``NAME.cu`` has
the solution and the student's hole, and ``NAME.toml`` has the task, hints, sizes and targets. It also has wrong answers
with what a check says of them, which the tests run. ``exercise`` reads both files, ``student_file`` writes and reads
the file that the student works on, ``attempt`` runs the kernel at the shown sizes and at hidden ones, ``figures``
counts what it costs, ``gpu_run`` times it, ``verdict`` says in sentences what is wrong, and ``progress`` stores in the
student's folder what is done. ``grading`` grades a class's files.

May import ``own_kernels`` and everything below it; only the command line imports it.
"""
