"""Bugs planted by authors who had not seen what the simulator finds: ``python -m tools.bugs held-out``.

They were committed before any of them was run. The first run found, at a planted line:

========================  ======  ========  ===============  ========  ===============
batch                      bugs    found    other line       missed    no correct run
========================  ======  ========  ===============  ========  ===============
32 kernels                   206       192                6         8                -
8 more, and the first 32      85        78                0         7                -
43 more                      334       287               21         6               20
26 more                      176       159               16         1                -
49 more                      370       349                7        14                -
========================  ======  ========  ===============  ========  ===============

The first two batches: 270 of 291 (92.8%). The third: 287 of 334 (85.9%,
``benchmarks/results/simulator_bugs_held_out_first_run.json``). The fourth: 159 of 176 (90.3%,
``benchmarks/results/simulator_bugs_fourth_batch_first_run.json``), or 171 (97.2%) with twelve bugs that show only in
the result, at the line that the bug states or with elements that no thread wrote. These twelve had causes with other
names, such as "wrong template argument" or "too few blocks".

The fifth: 349 of 370 (94.3%, ``benchmarks/results/simulator_bugs_fifth_batch_first_run.json``). Of the 14 missed, six
have a warning at the line. All 49 kernels had no finding, in any order of the threads. One was first written with
fragments of bytes at multiples of 16, and the simulator said that they must be multiples of 32. A line was added to
``ordered_product: one step too many``: the element is read where the factor is used, not where it is passed.

The first 40 kernels are all right and had no finding before they were edited. Of the next 43, one did not compile for
the CPU, and another was reported as wrong. In the first two batches, only mistakes in the bugs themselves were
corrected then, which left 273 of 288.

Three edits that turned out not to be bugs were removed (the simulator had correctly missed all three):

- ``cholesky: no barrier after a step``: thread 0 takes the root of an element that it reduced itself.
- ``welford_rows: m2 within 16 lanes``: a thread has at most one element, so all m2 are still 0 at that offset.
- ``welford_rows: counts of zero are combined``: lanes without an element meet lanes with one at the first offset.

For three bugs, lines were added, because the finding names the first consequence of the edit:

- ``functor_reduce: 33 threads go on``: lane 0 of warp 1 is alone at ``__syncwarp``.
- Two of ``hand_over``, without waits for an empty buffer: a second arrival of the producer completes the barrier of a
  full buffer without the consumer, which then waits forever.

A 41st kernel, which is right, was reported as wrong: a warp passes elements to another through shared memory, with a
fence and an atomic flag. It is now ``tests/simulator/kernels/relay.cu`` and has no finding.

Since then the simulator also finds: block-level fences where others are needed, and scalars that only one branch sets;
after the third batch, volatile flags in shared memory, fences after a flag, volatile updates that another thread
overwrites, lanes of different shuffles, loops, and members of structures. It only warns where CUDA gives a defined
result: threads that have ended, for which neither barriers nor votes wait (PTX ISA, "non-exited threads"), and volatile
data that nothing orders, which may be hints that may arrive late.

Corrections of the third batch:

- Five with the cause "read before set" leave elements of the result unwritten.
- ``brick_sort: threads stop on their own``: those that leave the loop race, at lines that were not stated.
- ``frontier: one edge too many``, of the first batch: the edge is the next vertex's, which is in bounds.

Nine more had been judged too strictly: overflow, wrong types, and a wrong result that no thread wrote show only in the
result, as wrong indices do, and the finding says so.

After the fourth batch the simulator also finds shifts out of range (one had been missed, two were wrong results
elsewhere), and names the line of the call where it had none, in a function of a header. Two of that batch's 26 kernels
were reported as wrong. In one, a plain read in a loop around ``atomicCAS`` in shared memory is accepted now, as in
global memory. In the other (``center_scale``), blocks waited for later ones, which does not end here because blocks run
in order; it waits for none now.

The simulator now finds 1,134 of the 1,168 bugs of all five batches (97.1%), and 17 more by a warning. Those of the
first four batches that it misses are: a launch of 100 threads, whose partial warp the kernel leaves out of its sums;
and a loop over barriers that never ends, where another loop runs out of time. Two more are found since that count. A
plain read of bits beside ``atomicOr`` (``sieve_bits``) is accepted only before an atomic of its thread that comes
before the next barrier. A ring that is too long by one row (``warp_ring``) has a wrong result but no race in most
orders of threads; more are tried where a result is wrong.

What became of the 21 bugs of the fifth batch that were not found at their lines:

- Four are found with ``checks="full"``, which the other causes than "read before set" do not ask for: three waits
  between blocks that end too early, and a count of a block before all its threads have added.
- Three fences are missing after a flag or a count, and a barrier follows before other threads read.
- Six votes, shuffles or barriers that some threads leave out before they end: a warning. For two more, the finding
  names the wrong result.
- Two rings have a wrong result but no race, and a missing wait at a named barrier shows first at another barrier.
- Two scalars have no start. One was named without a line of a use. The other could not reach the result with the
  inputs of then; with those of now, the finding is of the subscript that it becomes.
- The line that was added.
"""
