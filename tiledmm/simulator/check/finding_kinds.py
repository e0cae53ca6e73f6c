"""The kinds of findings, and the sentence that a message of each kind contains."""

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
)

#: The kind for an array whose elements are in another order than its memory.
VIEW = "view whose strides a kernel does not get"

#: Kinds that are warnings: no errors on a GPU.
WARNINGS = frozenset(
    {"barrier not reached by threads that have ended", "shuffle of an undefined value", "alignment not declared",
     "volatile read that nothing orders", "printf of another type", VIEW}
)  # fmt: skip

#: Kinds that the host finds: elements that no thread wrote, elements that differ from what is expected, and results
#: that depend on variables that were not set.
NOT_WRITTEN = "result not written"
WRONG_RESULT = "wrong result"
UNSET = "variable read before it is set"

#: The kind for an element of a thread's local array: an error if the result depends on it.
UNSET_ELEMENT = "element read before it is set"

#: Kinds for kernels that did not end.
ENDLESS = frozenset({"runaway thread", "no end", "timeout", "thread that waits forever"})

#: Kinds for kernels that a GPU would not compile or launch.
LAUNCH_BOUNDS = "block beyond the launch bounds"
TOO_MUCH_SHARED = "too much shared memory"

#: Kinds after which a launch goes on. All others end it: elements may be left that no thread has written.
CONTINUES = WARNINGS | {
    "uninitialised shared memory", "uninitialised result", "race on shared memory", "race on global memory",
    "copy not waited for", UNSET_ELEMENT, UNSET, NOT_WRITTEN, WRONG_RESULT, LAUNCH_BOUNDS, TOO_MUCH_SHARED,
}  # fmt: skip

#: Kinds for accesses outside of all arrays.
OUTSIDE = frozenset({"global access out of bounds", "shared access out of bounds"})

BARRIER = "barrier not reached by all"
LANES = "lanes of a warp differ"

# What lanes of a warp differ in (``build/native/warp_barriers.h``).
OTHER_PLACE = 2

# What a finding says after "block (0, 0), thread (0, 0)".
SENTENCES = {
    "global access out of bounds": "{access}{gap}",
    "write to an operand": "{access}, which is read-only",
    "shared access out of bounds": "{access}",
    "misaligned access": "{access}, an address that is not a multiple of {bytes}",
    "uninitialised shared memory": "reads {what}, which no thread of the block has written",
    "uninitialised result": "reads {what} before anything was written there",
    "race on shared memory": "{access}, which {other} {did} at {at} {unordered}",
    "race on global memory": "{access}, which {other} {did} at {at} {unordered}",
    BARRIER: "waits at a barrier, and {other} {elsewhere}",
    "warp not converged": "waits for the lanes of its warp, and {other} {doing}",
    "copy not waited for": "{access}, to which a cp.async of {other} at {at} has not been waited for",
    "runaway thread": "made more accesses than the limit and did not end",
    "trap": "executed a trap",
    "subscript out of bounds": "uses the subscript {address} of an array of {bytes} elements",
    "barrier not reached by threads that have ended": "waits for {other}, which has ended, and counts as arrived",
    LANES: "waits for lanes of its warp, and {other}, at {at}{for_what}",
    "shuffle from a lane outside the mask": "takes a value from lane {bytes}, which the mask does not have",
    "shuffle of an undefined value": "takes a value from lane {bytes}, which the mask does not have",
    "shuffle of a wrong width": "shuffles with a width of {bytes}, which is no power of two up to 32",
    "access to another thread's local memory": "{access}",
    "division by zero": "divides an integer by zero, or the least integer by -1",
    "stack overflow": "needs more local memory than a thread has (512 KiB)",
    "call of a null pointer": "calls a function through a pointer that is null or none of a function",
    "memory fault": "accesses the address {address:#x}",
    "no end": "has made no access to memory for seconds: a loop that does not end?",
    "timeout": "was running when the time was up",
    "call of exit or abort": "calls exit() or abort()",
    "assertion failed": "fails an assertion",
    "copy that the instruction cannot make": (
        "copies {bytes} bytes by cp.async, which copies 4, 8 or 16, from compute capability 8.0 on"
    ),
    "thread that waits forever": (
        "reads the same again and again, and no thread that runs writes it (blocks run in the order of their numbers: "
        "one that waits for a later one never ends)"
    ),
    "local access out of bounds": "{access_to} bytes of its local memory that belong to no variable",
    "element read before it is set": "reads {bytes} bytes of a local array that nothing has set",
    "shuffle from a lane that has ended": "takes a value from lane {bytes}, which has ended: the value is undefined",
    "conversion out of range": (
        "converts {value:.9g} to {integer}, which C++ leaves undefined: a GPU saturates, and so does a cast here"
    ),
    "shift out of range": "shifts {integer} by {address}, which C++ leaves undefined",
    "call that cannot be made": "{rule}",
    "printf of another type": (
        "prints argument {bytes} by a conversion for another type, or has no such argument: what it prints is undefined"
    ),
    "alignment not declared": (
        "{access}, and the array is declared with a smaller alignment: a GPU may place it where the access fails "
        "(__align__({bytes}) prevents that)"
    ),
    "volatile read that nothing orders": (
        "{access}, which {other} {did} at {at}: whether it is there is a matter of luck, and volatile accesses order "
        "nothing else"
    ),
}

# What breaks a rule of wmma, of cooperative groups or of the language (``tiledmm_broken_rule``).
RULES = {
    1: "loads or stores a fragment with another address or leading dimension than lane 0",
    2: "loads or stores a fragment at an address that is not a multiple of 32",
    3: "loads or stores a fragment with a leading dimension that is not a multiple of 16 bytes",
    4: "makes a tile of threads whose number is not 1, 2, 4, 8, 16 or 32",
    5: "waits for all blocks of a grid, which do not all run at the same time here: launch two kernels instead",
    6: "assumes by __builtin_assume what is not so: a compiler may take it for true",
}

# Kinds with a second thread and line.
OF_TWO = frozenset(
    {"race on shared memory", "race on global memory", BARRIER, "warp not converged", "copy not waited for",
     "barrier not reached by threads that have ended", LANES, "volatile read that nothing orders"}
)  # fmt: skip
