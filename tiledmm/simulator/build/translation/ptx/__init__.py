"""PTX instructions as C++, for ``inline_ptx``.

In: the text of an asm statement, and the registers of its operands. Out: C++ statements that call
``native/inline_ptx.h``, and ``native/inline_asynchronous.h`` for Hopper's asynchronous instructions. One function per
family of instructions translates them; ``INSTRUCTIONS`` maps the first parts of an opcode to its function. Modules of
this folder import nothing from the other folders.
"""

from __future__ import annotations

from tiledmm.simulator.build.translation.ptx import (  # these modules register their instructions
    arithmetic,
    barriers,
    bulk_copies,
    clusters,
    matrices,
    memory,
    warpgroups,
    warps,
)
from tiledmm.simulator.build.translation.ptx.registers import PREFIX, RefusedError, Register, register_type
from tiledmm.simulator.build.translation.ptx.statement import Translated, translated

__all__ = [
    "PREFIX",
    "RefusedError",
    "Register",
    "Translated",
    "arithmetic",
    "barriers",
    "bulk_copies",
    "clusters",
    "matrices",
    "memory",
    "register_type",
    "translated",
    "warpgroups",
    "warps",
]
