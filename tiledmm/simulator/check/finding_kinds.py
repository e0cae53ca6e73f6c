"""Kinds of findings, and the sentence in a message of each kind."""

from __future__ import annotations

#: Kinds of findings, in the order of ``FindingKind`` in ``build/native/interface.h``.
KINDS = (
    "global access out of bounds",
    "write to an operand",
    "shared access out of bounds",
    "misaligned access",
    "uninitialised shared memory",
    "uninitialised result",
    "race on shared memory",
    "race on global memory",
    "barrier not reached by all",
    "warp not converged",
    "copy not waited for",
    "runaway thread",
    "trap",
    "subscript out of bounds",
    "barrier not reached by threads that have ended",
    "lanes of a warp differ",
    "shuffle from a lane outside the mask",
    "shuffle of an undefined value",
    "shuffle of a wrong width",
    "access to another thread's local memory",
    "division by zero",
    "stack overflow",
    "call of a null pointer",
    "memory fault",
    "no end",
    "timeout",
    "call of exit or abort",
    "assertion failed",
    "copy that the instruction cannot make",
    "thread that waits forever",
    "local access out of bounds",
    "element read before it is set",
    "shuffle from a lane that has ended",
    "conversion out of range",
    "alignment not declared",
    "volatile read that nothing orders",
    "shift out of range",
    "call that cannot be made",
    "printf of another type",
    "barriers without end",
    "argument beyond a fast function's range",
    "equal writes that nothing orders",
    "function that does not return a value",
    "access to freed memory",
    "free that cannot be made",
    "uninitialised allocated memory",
    "carry between asm statements that are not volatile",
    "memory that is not freed",
    "copy not complete",
    "memory in use overwritten",
    "no proxy fence",
    "deadlock",
    "misuse of an mbarrier",
    "bytes that no phase expects",
    "bulk copy that cannot be made",
    "register of a wgmma in flight",
    "misuse of wgmma",
    "block that has ended",
    "misuse of a cluster",
    "misuse of setmaxnreg",
    "memory overwritten that other warps' wgmma read",
    "access before griddepcontrol.wait",
)

#: The kind for an array whose elements are in another order than its memory.
VIEW = "view whose strides a kernel does not get"

#: The kind that the host finds for calls that may need more stack than a GPU gives to a thread.
DEEP_CALLS = "deep calls"

#: Kinds for results that differ between orders of threads, where it is not known what is expected: correct kernels may
#: have such results, as the order of elements that take tickets from an atomic counter.
ORDER_OF_THREADS = "result depends on the order of threads"
ORDER_OF_ELEMENTS = "order of elements depends on the order of threads"

#: Kinds that are warnings, because they are not errors on a GPU.
WARNINGS = frozenset(
    {DEEP_CALLS, "barrier not reached by threads that have ended", "shuffle of an undefined value",
     "alignment not declared", "volatile read that nothing orders", "printf of another type", VIEW,
     "argument beyond a fast function's range", "equal writes that nothing orders", ORDER_OF_THREADS,
     ORDER_OF_ELEMENTS, "memory that is not freed", "carry between asm statements that are not volatile",
     "memory overwritten that other warps' wgmma read"}
)  # fmt: skip

#: Kinds that the host finds: elements that no thread wrote, elements that differ from what is expected, and results
#: that depend on variables that were not set.
NOT_WRITTEN = "result not written"
WRONG_RESULT = "wrong result"
UNSET = "variable read before it is set"

#: Kinds for values that shuffles take from lanes outside the mask: a warning, and an error if a result depends on them.
SHUFFLE_UNDEFINED, SHUFFLE_OUTSIDE = "shuffle of an undefined value", "shuffle from a lane outside the mask"

#: The kind for an element of a thread's local array: an error if the result depends on it.
UNSET_ELEMENT = "element read before it is set"

#: The kind for a function that ends without returning a value: an error if the result depends on that value.
NOT_RETURNED = "function that does not return a value"

#: Kinds for kernels that did not end.
ENDLESS = frozenset({"runaway thread", "no end", "timeout", "thread that waits forever", "barriers without end"})

#: The kind for a launch whose time was up, also between two blocks.
TIMEOUT = "timeout"

#: Kinds that depend on how fast the computer is.
TIMED = frozenset({"no end", "timeout"})

#: Kinds for kernels that a GPU would not compile or launch.
LAUNCH_BOUNDS = "block beyond the launch bounds"
TOO_MANY_CONSTANTS = "too much constant memory"
TOO_MANY_PARAMETERS = "too many bytes of parameters"
TOO_MUCH_SHARED = "too much shared memory"

#: The kind for a cooperative launch of more blocks than are resident at a time, which a GPU refuses.
TOO_MANY_BLOCKS = "too many blocks for a cooperative launch"

#: Kinds after which a launch goes on. All others end it: elements may be left that no thread has written.
#: Of some kinds it depends on the fault (``CONTINUING_FAULTS``).
CONTINUES = WARNINGS | {
    "uninitialised shared memory", "uninitialised result", "uninitialised allocated memory",
    "race on shared memory", "race on global memory",
    "copy not waited for", "copy not complete", "memory in use overwritten", "no proxy fence",
    "bytes that no phase expects", "register of a wgmma in flight",
    "access before griddepcontrol.wait", NOT_RETURNED, UNSET_ELEMENT, UNSET, NOT_WRITTEN,
    WRONG_RESULT, LAUNCH_BOUNDS, TOO_MUCH_SHARED, TOO_MANY_CONSTANTS, TOO_MANY_PARAMETERS,
}  # fmt: skip

#: Kinds for accesses that nothing orders, and for reads of memory that nothing has written.
RACES = frozenset({"race on shared memory", "race on global memory"})
UNWRITTEN_GLOBAL = "uninitialised result"
UNWRITTEN = frozenset({"uninitialised shared memory", "uninitialised allocated memory", UNWRITTEN_GLOBAL})

#: Kinds that are errors only if a result depends on the value.
IF_USED = frozenset({NOT_RETURNED, UNWRITTEN_GLOBAL})

#: Kinds for accesses outside of all arrays.
OUTSIDE = frozenset({"global access out of bounds", "shared access out of bounds"})

BARRIER = "barrier not reached by all"
LANES = "lanes of a warp differ"
COPY = "copy not waited for"
MISALIGNED, FAULT = "misaligned access", "memory fault"

# What lanes of a warp differ in (``build/native/warp_barriers.h``).
OTHER_PLACE = 2

# What a finding says after "block (0, 0), thread (0, 0)"; of asynchronous operations, see asynchronous_kinds.py.
SENTENCES = {
    "global access out of bounds": "{access}{gap}",
    "write to an operand": "{access}, which is read-only",
    "shared access out of bounds": "{access}",
    "misaligned access": "{access}, an address that is not a multiple of {bytes}",
    "uninitialised shared memory": "reads {what}, which no thread of the block has written",
    "access before griddepcontrol.wait": (
        "{access}, which the launch before may not have finished with: griddepcontrol.wait must come first"
    ),
    "uninitialised result": "reads {what} before anything was written there",
    "race on shared memory": "{access}, which {other} {did} at {at} {unordered}",
    "race on global memory": "{access}, which {other} {did} at {at} {unordered}",
    BARRIER: "waits at a barrier, but {other} {elsewhere}",
    "warp not converged": "waits for the lanes of its warp{at_exchange}, but {other} {doing}",
    "copy not waited for": "{access}, the destination of a cp.async of {other} at {at} that {uncommitted}",
    "runaway thread": "has made more accesses than max_steps allows, and has not ended",
    "trap": "executes a trap instruction",
    "subscript out of bounds": "uses the subscript {address} in an array of {bytes} elements",
    "barrier not reached by threads that have ended": (
        "waits for {other}, which has ended; it counts as arrived, as on GPUs of compute capability 7.0 and later"
    ),
    LANES: "waits for lanes of its warp{at_exchange}, but {other} {for_what}, at {at}",
    "shuffle from a lane outside the mask": "takes a value from lane {bytes}, which the mask does not include",
    "shuffle of an undefined value": "takes a value from lane {bytes}, which the mask does not include",
    "shuffle of a wrong width": "shuffles with a width of {bytes}, which is not a power of two up to 32",
    "access to another thread's local memory": "{access}",
    "division by zero": "divides an integer by zero, or the smallest integer by -1",
    "stack overflow": "needs more local memory than a thread has (512 KiB)",
    "call of a null pointer": "calls a function through a pointer that is null or does not point to a function",
    "memory fault": "accesses the address {address:#x}",
    "no end": "has not accessed memory for seconds: is there an endless loop?",
    "timeout": "was still running at the timeout",
    "call of exit or abort": "calls exit() or abort()",
    "assertion failed": "fails an assertion",
    "copy that the instruction cannot make": (
        "copies {bytes} bytes by cp.async, which copies 4, 8 or 16 bytes, from compute capability 8.0 on"
    ),
    "thread that waits forever": (
        "polls a location in memory that no running thread writes (blocks run in the order of their numbers: a block "
        "that waits for a later one never ends)"
    ),
    "local access out of bounds": "{access_to} bytes of its local memory that belong to no variable",
    "element read before it is set": "reads {bytes} bytes of a local array that have not been set",
    "shuffle from a lane that has ended": "takes a value from lane {bytes}, which has ended: the value is undefined",
    "conversion out of range": (
        "converts {value:.9g} to {integer}, which C++ leaves undefined: a GPU saturates, and so does a cast here"
    ),
    "shift out of range": "shifts {integer} by {address}, which C++ leaves undefined",
    "call that cannot be made": "{rule}",
    "printf of another type": (
        "prints argument {bytes} with a conversion for another type, or has no such argument: the output is undefined"
    ),
    "argument beyond a fast function's range": "{fast}",
    "barriers without end": "{barriers}: is there an endless loop?",
    "access to freed memory": "{access}, which {other} freed at {at}",
    "free that cannot be made": "{free}",
    "uninitialised allocated memory": "reads {what}, which no thread has written since",
    "carry between asm statements that are not volatile": (
        "reads the carry flag that another asm statement has set: a compiler may put other code between the two unless "
        "both are asm volatile"
    ),
    "memory that is not freed": "allocates {bytes} bytes, which are not freed when the launch ends",
    NOT_RETURNED: "reaches the end of a function without returning a value, and the result depends on that value",
    "alignment not declared": (
        "{access}, and the array is declared with a smaller alignment: a GPU may place it where the access fails "
        "(__align__({bytes}) prevents that)"
    ),
    "volatile read that nothing orders": (
        "{access}, which {other} {did} at {at}: it is left to chance which of the two comes first, and volatile does "
        "not order any other accesses"
    ),
    "equal writes that nothing orders": (
        "{access}, which {other} {did} at {at} {unordered}: both write the same value, and one write is enough"
    ),
}

# What breaks a rule of wmma, of cooperative groups or of the language (``tiledmm_broken_rule``).
RULES = {
    1: "loads or stores a fragment with another address or leading dimension than lane 0",
    2: "loads or stores a fragment at an address that is not a multiple of 32",
    3: "loads or stores a fragment with a leading dimension that is not a multiple of 16 bytes",
    4: "makes a tile of threads whose size is not 1, 2, 4, 8, 16 or 32",
    5: (
        "waits for all blocks of a grid, which needs a cooperative launch: cooperative=True, or "
        "enable_cooperative_groups=True of RawKernel (a GPU traps, or waits forever)"
    ),
    6: "states a condition by __builtin_assume that is false here: a compiler may rely on it",
    7: "calls a virtual function that the object's class does not define",
    9: "prints with %n, or a field of 10,000 characters or more, which printf on a GPU does not support",
    10: "reads the carry flag, which no asm statement of the thread has set",
}

# What is wrong with a call of free or delete.
FREES = {
    1: "frees memory that {other} has already freed at {at}",
    2: "frees the address {address:#x}, which malloc or new did not return",
}

# Limits on barriers (IDLE_BARRIERS, IDLE_EXCHANGES and MOST_BARRIERS in ``build/native/state.h``).
BARRIERS = {
    1 << 20: "waits at the 1,048,576th barrier in a row while its block writes nothing to memory",
    1 << 24: "waits at the 16,777,216th barrier or exchange of its warp while its block writes nothing to memory",
    1 << 25: "waits at the 33,554,432nd barrier of its block, which is as many as the simulator allows",
}

# Ranges of the fast functions (``tiledmm_beyond_range``): CUDA C++ Programming Guide, "Intrinsic Functions".
_ANGLE = "whose error is bounded from -pi to pi and grows with the argument beyond"
RANGES = {
    1: f"calls __sinf({{value:.9g}}), {_ANGLE}",
    2: f"calls __cosf({{value:.9g}}), {_ANGLE}",
    3: f"calls __tanf({{value:.9g}}), the quotient of __sinf and __cosf, {_ANGLE}",
    4: f"calls __sincosf({{value:.9g}}), {_ANGLE}",
    5: "calls __powf({value:.9g}, y), which computes exp2(y * log2(x)): the result is NaN, unlike that of powf",
    6: "divides by {value:.9g} in __fdividef, which returns 0 for divisors beyond 2^126",
}

# Kinds with a second thread and line.
OF_TWO = frozenset(
    {"race on shared memory", "race on global memory", BARRIER, "warp not converged", "copy not waited for",
     "barrier not reached by threads that have ended", LANES, "volatile read that nothing orders",
     "equal writes that nothing orders", "access to freed memory", "free that cannot be made"}
)  # fmt: skip
