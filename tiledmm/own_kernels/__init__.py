"""Kernels that people bring: checks of plain CUDA C without a GPU, and registration as variants.

    import tiledmm
    report = tiledmm.check("mine.cu")          # and tiledmm check mine.cu on the command line
    report.ok, print(report)
    tiledmm.register("mine.cu", like="plain")  # and --kernel mine.cu

In: CUDA C, as its author keeps it, and what its author says about launch, arguments and result. Out: a ``CheckReport``.
The way of a check: ``roles`` says what the parameters are, and ``structures`` which members are parameters, too.
``host_launch`` says how the file launches the kernel; without that, ``guessed_launch`` and ``guessed_arguments`` read
it from the kernel's text, by ``kernel_text``, ``indices``, ``stores`` and ``data_flow``. ``trial`` runs the kernel,
``expectation`` and ``meanings`` say what is right, ``accesses``, ``compiled`` and ``bounds`` say what it costs, and
``check_report`` shows all of it. ``explanations`` asks ``simulated.explanation`` why a result is wrong, and why a
kernel is slow, and ``times`` times a right kernel on a GPU. ``registration`` adds a template or a plain kernel to the
table of variants; ``plain_variant`` makes the row of a plain kernel from what a check would know before it runs.
``kernel_trace`` records one block of the launch that a check makes, by ``recording``, and writes the page of ``tiledmm
trace``, which ``trace_page/`` draws in a browser.

The simulator runs a kernel as native code of this machine, and ``expect="FILE.py:function"`` runs Python: check only
files that you would run. May import everything below ``api``.
"""
