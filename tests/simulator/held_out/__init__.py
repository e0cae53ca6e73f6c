"""Bugs written by someone who had not seen what the simulator finds: ``python -m tools.simulator_bugs --held-out``.

They were committed before any of them was run. That first run found, at a planted line:

========================  ======  ========  ===============  ========  ===============
batch                      bugs    found    other line       missed    no correct run
========================  ======  ========  ===============  ========  ===============
32 kernels                   206       192                6         8                -
8 more, and the first 32      85        78                0         7                -
43 more                      334       287               21         6               20
26 more                      176       159               16         1                -
========================  ======  ========  ===============  ========  ===============

270 of 291 (92.8%), and 287 of 334 (85.9%, ``benchmarks/results/simulator_bugs_held_out_first_run.json``). The fourth:
159 of 176 (90.3%, ``benchmarks/results/simulator_bugs_fourth_batch_first_run.json``), or 171 (97.2%) with those twelve
that show in the result alone, at the line that the bug states or with elements that no thread wrote; they had causes of
other names, such as "wrong template argument" or "too few blocks". Of the first
40 kernels all are right, and without a finding before they are edited; of the next 43, one did not compile for the CPU,
and another was called wrong. Of the first two batches only mistakes of the bugs themselves were corrected then, which
left 273 of 288.

Not bugs, and removed (all three had been missed, as they should be):

- ``cholesky: no barrier after a step``: thread 0 takes the root of an element that it reduced itself.
- ``welford_rows: m2 within 16 lanes``: a thread has one element at most, so all m2 are still 0 at that offset.
- ``welford_rows: counts of zero are combined``: lanes without an element meet lanes with one at the first offset.

Lines that were not all stated; the finding names the first consequence of the edit:

- ``functor_reduce: 33 threads go on``: lane 0 of warp 1 is alone at ``__syncwarp``.
- Two of ``hand_over``, without waits for an empty buffer: a second arrival of the producer completes the barrier of a
  full buffer without the consumer, which then waits for ever.

A 41st kernel, which is right, was called wrong: a warp hands elements to another through shared memory, by a fence and
an atomic flag. It is ``tests/simulator/kernels/relay.cu`` now, and has no finding.

What the simulator has come to see since: fences of a block alone, scalars that one branch sets; after the third batch
volatile flags in shared memory, fences after a flag, volatile updates that another overwrites, lanes of different
shuffles, loops, and members of structures. What it sees as CUDA does, and only warns of: threads that have ended, for
which neither barriers nor votes wait (PTX ISA, "non-exited threads"); and volatile data that nothing orders, which
might be hints that may come late.

Corrections of the third batch:

- Five with the cause "read before set" leave elements of the result unwritten.
- ``brick_sort: threads stop on their own``: those that leave the loop race, at lines that were not stated.
- ``frontier: one edge too many``, of the first batch: the edge is the next vertex's, which is in bounds.

Nine more had been judged too strictly: overflow, wrong types, and a wrong result that no thread wrote show in the
result alone, as wrong indices do, and the finding says so.

After the fourth batch it came to see shifts out of range (one had been missed, two were wrong results elsewhere), and
gives the line of the call where it had none, in a function of a header. Of that batch's 26 kernels two were called
wrong: the first, plain read of a loop around ``atomicCAS`` in shared memory is forgiven now, as in global memory; and
blocks that wait for later ones do not end here, where blocks run in order (``center_scale`` waits for none now).

The simulator finds 781 of all 798 now (97.9%), and 12 more by a warning. The other five: a launch of 100 threads,
whose partial warp the kernel leaves out of its sums; a loop over barriers that never ends, where time runs out
in another one; two rings in which the threads' order here leaves a wrong result and no race; and a missing wait at a
named barrier, after which another barrier is not reached.
"""
