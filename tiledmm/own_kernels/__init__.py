"""Kernels of users: checks of plain CUDA C without a GPU, and registration as variants.

    import tiledmm
    report = tiledmm.check("mine.cu")          # and tiledmm check mine.cu on the command line
    report.ok, print(report)
    tiledmm.register("mine.cu", like="plain")  # and --kernel mine.cu

In: a file of CUDA C, and what its user states about launch, arguments and result. Out: a ``CheckReport``.

A check takes these steps. ``roles`` identifies the parameters, and ``structures`` the members of structures that are
parameters, too. ``host_launch`` finds the launch in the file's host code; if there is none, ``guessed_launch`` and
``guessed_arguments`` derive it from the kernel's text, with ``kernel_text``, ``indices``, ``stores`` and ``data_flow``.
``trial`` runs the kernel; ``expectation`` and ``meanings`` compute the right result; ``accesses``, ``compiled`` and
``bounds`` compute its cost. ``explanations`` asks ``simulated.explanation`` why a result is wrong and why a kernel is
slow, ``times`` times a right kernel on a GPU, and ``check_report`` shows everything.

``registration`` adds a template or a plain kernel to the table of variants. ``plain_variant`` makes the row of a plain
kernel from what a check knows before it runs the kernel.

``kernel_trace`` records one block of the launch that a check makes, with ``recording``, and writes the page of
``tiledmm trace``, which the files in ``trace_page`` draw in a browser.

The simulator runs a kernel as native code of this machine, and ``expect="FILE.py:function"`` runs Python: check only
files that you would run. May import everything below ``api``.
"""
