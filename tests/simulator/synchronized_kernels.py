"""Correct kernels that synchronize by atomics, flags and partial barriers, with bugs that an order of threads hides.

A kernel has two arrays of zeros, ``x`` for what it needs and ``out``, of which ``expected`` is the beginning. A bug is
a pair of texts: a part of the kernel, and what replaces it.
"""

from __future__ import annotations

from dataclasses import dataclass

#: Elements of each array.
SIZE = 1024


@dataclass(frozen=True)
class Case:
    """A kernel with its launch, the beginning of its result, and bugs by name."""

    body: str
    grid: int
    block: int
    expected: tuple[int, ...]
    bugs: dict[str, tuple[str, str]]
    head: str = ""

    @property
    def text(self) -> str:
        """CUDA C of the kernel."""
        return f"{self.head}\n__global__ void k(int* x, int* out) {{\n{self.body}\n}}"

    def planted(self, bug: str) -> str:
        """Return the text with a bug."""
        old, new = self.bugs[bug]
        if self.text.count(old) != 1:
            raise ValueError(f"{bug}: {self.text.count(old)} times {old!r}")
        return self.text.replace(old, new)


CASES: dict[str, Case] = {}

CASES["lock between blocks"] = Case(
    """
    if (threadIdx.x % 32 == 0) {
        while (atomicCAS(&x[0], 0, 1) != 0) {}
        __threadfence();
        out[0] = out[0] + 1;
        __threadfence();
        atomicExch(&x[0], 0);
    }
    """,
    4, 64, (8,),
    {
        "if for while": ("while (atomicCAS", "if (atomicCAS"),
        "result ignored": ("while (atomicCAS(&x[0], 0, 1) != 0) {}", "atomicCAS(&x[0], 0, 1);"),
        "wrong compare": ("!= 0) {}", "== 2) {}"),
        "expects what it sets": ("&x[0], 0, 1)", "&x[0], 1, 1)"),
        "arguments swapped": ("&x[0], 0, 1)", "&x[0], 1, 0)"),
        "tries twice": (
            "while (atomicCAS(&x[0], 0, 1) != 0) {}",
            "for (int i = 0; i < 2 && atomicCAS(&x[0], 0, 1) != 0; ++i) {}",
        ),
        "freed too early": (
            "__threadfence();\n"
            "        out[0]",
            "__threadfence(); atomicExch(&x[0], 0);\n"
            "        out[0]",
        ),
        "no fence before it is freed": ("+ 1;\n        __threadfence();", "+ 1;"),
        "exchange by a store": (
            "while (atomicCAS(&x[0], 0, 1) != 0) {}",
            "while (atomicAdd(&x[0], 0)) {} atomicExch(&x[0], 1);",
        ),
    },
)  # fmt: skip

CASES["lock of a block's lanes"] = Case(
    """
    __shared__ int lock, sum;
    if (threadIdx.x == 0) lock = sum = 0;
    __syncthreads();
    bool done = false;
    while (!done) {
        if (atomicCAS(&lock, 0, 1) == 0) {
            __threadfence_block();
            sum = sum + threadIdx.x;
            __threadfence_block();
            atomicExch(&lock, 0);
            done = true;
        }
    }
    __syncthreads();
    if (threadIdx.x == 0) out[0] = sum;
    """,
    1, 64, (2016,),
    {
        "tries once": ("while (!done) {", "{"),
        "wrong compare": ("1) == 0", "1) <= 1"),
        "freed with the wrong value": ("atomicCAS(&lock, 0, 1) == 0", "atomicCAS(&lock, 0, 0) == 0"),
    },
)  # fmt: skip

CASES["lock by tickets"] = Case(
    """
    volatile int* serving = x + 1;
    if (threadIdx.x == 0) {
        const int ticket = atomicAdd(&x[0], 1);
        while (*serving != ticket) {}
        __threadfence();
        out[0] = out[0] + blockIdx.x;
        __threadfence();
        *serving = ticket + 1;
    }
    """,
    5, 32, (10,),
    {
        "if for while": ("while (*serving", "if (*serving"),
        "one ticket too early": ("*serving != ticket", "*serving < ticket - 1"),
        "next is called before the update": (
            "__threadfence();\n"
            "        out[0] = out[0] + blockIdx.x;",
            "__threadfence(); *serving = ticket + 1;\n"
            "        out[0] = out[0] + blockIdx.x;",
        ),
        "tickets without an atomic": (
            "atomicAdd(&x[0], 1)",
            "*(volatile int*)&x[0]; *(volatile int*)&x[0] = ticket + 1",
        ),
        "plain loads of whose turn it is": ("volatile int* serving", "int* serving"),
    },
)  # fmt: skip

CASES["counter of arrivals"] = Case(
    """
    if (threadIdx.x < 32) {
        x[100 + threadIdx.x] = threadIdx.x;
        __threadfence();
        atomicAdd(&x[0], 1);
    } else if (threadIdx.x == 32) {
        while (atomicAdd(&x[0], 0) < 32) {}
        __threadfence();
        for (int i = 0; i < 32; ++i) out[0] += x[100 + i];
    }
    """,
    1, 64, (496,),
    {
        "threshold 31": ("< 32) {}", "< 31) {}"),
        "waits for any": ("< 32) {}", "== 0) {}"),
        "if for while": ("while (atomicAdd(&x[0], 0)", "if (atomicAdd(&x[0], 0)"),
        "counted before the data": (
            "x[100 + threadIdx.x] = threadIdx.x;\n"
            "        __threadfence();\n"
            "        atomicAdd(&x[0], 1);",
            "__threadfence();\n"
            "        atomicAdd(&x[0], 1);\n"
            "        x[100 + threadIdx.x] = threadIdx.x;",
        ),
        "counted twice by lane 0": ("atomicAdd(&x[0], 1);", "atomicAdd(&x[0], threadIdx.x ? 1 : 2);"),
        "plain loads of the counter": ("while (atomicAdd(&x[0], 0)", "while (x[0]"),
    },
)  # fmt: skip

CASES["counter of warps in shared memory"] = Case(
    """
    __shared__ int sums[8], arrived;
    if (threadIdx.x == 0) arrived = 0;
    __syncthreads();
    const int warp = threadIdx.x / 32;
    const int sum = __reduce_add_sync(~0u, threadIdx.x);
    if (threadIdx.x % 32 == 0) {
        sums[warp] = sum;
        __threadfence_block();
        atomicAdd(&arrived, 1);
    }
    if (threadIdx.x == 255) {
        while (atomicAdd(&arrived, 0) != 8) {}
        __threadfence_block();
        for (int i = 0; i < 8; ++i) out[0] += sums[i];
    }
    """,
    1, 256, (32640,),
    {
        "threshold 7": ("!= 8) {}", "< 7) {}"),
        "any warp": ("!= 8) {}", "== 0) {}"),
        "if for while": ("while (atomicAdd(&arrived", "if (atomicAdd(&arrived"),
        "no fence": ("sums[warp] = sum;\n        __threadfence_block();", "sums[warp] = sum;"),
    },
)  # fmt: skip

CASES["last block"] = Case(
    """
    __shared__ bool last;
    x[100 + blockIdx.x * 32 + threadIdx.x] = blockIdx.x + threadIdx.x;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) last = atomicAdd(&x[0], 1) == gridDim.x - 1;
    __syncthreads();
    if (last) for (int i = 0; i < gridDim.x; ++i) out[threadIdx.x] += x[100 + i * 32 + threadIdx.x];
    """,
    6, 32, tuple(15 + 6 * i for i in range(32)),
    {
        "one block too early": ("== gridDim.x - 1", "== gridDim.x - 2"),
        "the last two blocks": ("== gridDim.x - 1", ">= gridDim.x - 2"),
        "no fence": ("__threadfence();\n    __syncthreads();\n    if", "__syncthreads();\n    if"),
        "fence for the block": (
            "__threadfence();\n"
            "    __syncthreads();\n"
            "    if",
            "__threadfence_block();\n"
            "    __syncthreads();\n"
            "    if",
        ),
        "no barrier before the counter": (
            "__threadfence();\n"
            "    __syncthreads();\n"
            "    if",
            "__threadfence();\n"
            "    if",
        ),
        "a counter that is only read": (
            "atomicAdd(&x[0], 1) == gridDim.x - 1",
            "atomicAdd(&x[0], 0) == 0 && blockIdx.x == gridDim.x - 1",
        ),
        "every thread counts": (
            "if (threadIdx.x == 0) last = atomicAdd(&x[0], 1) == gridDim.x - 1",
            "if (atomicAdd(&x[0], 1) >= 31 * gridDim.x) last = true; else last = false",
        ),
    },
)  # fmt: skip

CASES["last block with volatile parts"] = Case(
    """
    __shared__ bool last;
    volatile int* parts = x + 100;
    if (threadIdx.x == 0) {
        parts[blockIdx.x] = 3 * blockIdx.x;
        __threadfence();
        last = atomicInc((unsigned*)x, gridDim.x) == gridDim.x - 1;
    }
    __syncthreads();
    if (last && threadIdx.x == 0) for (int i = 0; i < gridDim.x; ++i) out[0] += parts[i];
    """,
    5, 32, (30,),
    {
        "no fence": ("3 * blockIdx.x;\n        __threadfence();", "3 * blockIdx.x;"),
        "fence after the counter": (
            "__threadfence();\n"
            "        last = atomicInc((unsigned*)x, gridDim.x) == gridDim.x - 1;",
            "last = atomicInc((unsigned*)x, gridDim.x) == gridDim.x - 1;\n"
            "        __threadfence();",
        ),
        "one block too early": ("== gridDim.x - 1", "== gridDim.x - 2"),
    },
)  # fmt: skip

CASES["message to another block"] = Case(
    """
    if (threadIdx.x) return;
    if (blockIdx.x == 0) {
        x[1] = 42;
        __threadfence();
        atomicExch(&x[0], 1);
    } else {
        while (atomicAdd(&x[0], 0) == 0) {}
        __threadfence();
        out[0] = x[1];
    }
    """,
    2, 32, (42,),
    {
        "published by adding 0": (
            "atomicExch(&x[0], 1);\n"
            "    } else {\n"
            "        while (atomicAdd(&x[0], 0) == 0) {}",
            "atomicAdd(&x[0], 0);\n"
            "    } else {\n"
            "        while (atomicAdd(&x[0], 0) != 0) {}",
        ),
        "not waited for": ("while (atomicAdd(&x[0], 0) == 0) {}", "atomicAdd(&x[0], 0);"),
        "published by a failed swap": (
            "atomicExch(&x[0], 1);\n"
            "    } else {\n"
            "        while (atomicAdd(&x[0], 0) == 0) {}",
            "atomicCAS(&x[0], 5, 1);\n"
            "    } else {\n"
            "        while (atomicAdd(&x[0], 0) != 0) {}",
        ),
        "published by a maximum that is lower": (
            "atomicExch(&x[0], 1);\n"
            "    } else {\n"
            "        while (atomicAdd(&x[0], 0) == 0) {}",
            "atomicMax(&x[0], -1);\n"
            "    } else {\n"
            "        while (atomicMax(&x[0], 0) != 0) {}",
        ),
        "if for while": ("while (atomicAdd(&x[0], 0) == 0)", "if (atomicAdd(&x[0], 0) == 0)"),
        "flag before data": (
            "x[1] = 42;\n"
            "        __threadfence();\n"
            "        atomicExch(&x[0], 1);",
            "atomicExch(&x[0], 1);\n"
            "        __threadfence();\n"
            "        x[1] = 42;",
        ),
        "no fence before the flag": ("42;\n        __threadfence();", "42;"),
        "no fence after the flag": ("== 0) {}\n        __threadfence();", "== 0) {}"),
        "polled by plain loads": ("while (atomicAdd(&x[0], 0) == 0) {}", "while (x[0] == 0) {}"),
        "flag by a plain store": ("atomicExch(&x[0], 1);", "x[0] = 1;"),
    },
)  # fmt: skip

CASES["polled past L1"] = Case(
    """
    if (threadIdx.x) return;
    if (blockIdx.x == 0) {
        x[1] = 42;
        __threadfence();
        atomicExch(&x[0], 1);
    } else {
        while (__ldcg(&x[0]) == 0) {}
        while (__ldcv(&x[0]) == 0) {}
        __threadfence();
        out[0] = __ldcg(&x[1]);
    }
    """,
    2, 32, (42,),
    {
        "data without waiting": ("while (__ldcg(&x[0]) == 0) {}\n        while (__ldcv(&x[0]) == 0) {}", ""),
        "polled through the read-only cache": ("while (__ldcv(&x[0]) == 0) {}", "while (__ldg(&x[0]) == 0) {}"),
        "no fence before the flag": ("42;\n        __threadfence();", "42;"),
    },
)  # fmt: skip

CASES["ring of two flags"] = Case(
    """
    volatile int* full = x;
    int* slots = x + 8;
    if (threadIdx.x) return;
    if (blockIdx.x == 0) {
        for (int i = 0; i < 9; ++i) {
            while (full[i % 2]) {}
            __threadfence();
            slots[i % 2] = 7 * i;
            __threadfence();
            full[i % 2] = 1;
        }
    } else {
        for (int i = 0; i < 9; ++i) {
            while (!full[i % 2]) {}
            __threadfence();
            out[i] = slots[i % 2];
            __threadfence();
            full[i % 2] = 0;
        }
    }
    """,
    2, 32, tuple(7 * i for i in range(9)),
    {
        "producer does not wait": ("while (full[i % 2]) {}", ""),
        "consumer waits once": ("while (!full[i % 2]) {}", "if (!full[i % 2]) {}"),
        "emptied before it is read": (
            "out[i] = slots[i % 2];\n"
            "            __threadfence();\n"
            "            full[i % 2] = 0;",
            "full[i % 2] = 0;\n"
            "            __threadfence();\n"
            "            out[i] = slots[i % 2];",
        ),
        "filled before it is written": (
            "slots[i % 2] = 7 * i;\n"
            "            __threadfence();\n"
            "            full[i % 2] = 1;",
            "full[i % 2] = 1;\n"
            "            __threadfence();\n"
            "            slots[i % 2] = 7 * i;",
        ),
        "no fence after the data": ("7 * i;\n            __threadfence();", "7 * i;"),
        "no fence after the read": ("slots[i % 2];\n            __threadfence();", "slots[i % 2];"),
        "waits for the other flag": ("while (!full[i % 2]) {}", "while (i && !full[1 - i % 2] && !full[i % 2]) {}"),
    },
)  # fmt: skip

CASES["ring of counters"] = Case(
    """
    __shared__ int ring[4];
    __shared__ volatile int made, used;
    if (threadIdx.x == 0) made = used = 0;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int i = 0; i < 20; ++i) {
            while (i - used >= 4) {}
            __threadfence_block();
            ring[i % 4] = i * i;
            __threadfence_block();
            made = i + 1;
        }
    } else if (threadIdx.x == 32) {
        for (int i = 0; i < 20; ++i) {
            while (made <= i) {}
            __threadfence_block();
            out[i] = ring[i % 4];
            __threadfence_block();
            used = i + 1;
        }
    }
    """,
    1, 64, tuple(i * i for i in range(20)),
    {
        "one slot too many": (">= 4) {}", "> 4) {}"),
        "one item too early": ("while (made <= i) {}", "while (made < i) {}"),
        "counted before it is read": (
            "out[i] = ring[i % 4];\n"
            "            __threadfence_block();\n"
            "            used = i + 1;",
            "used = i + 1;\n"
            "            __threadfence_block();\n"
            "            out[i] = ring[i % 4];",
        ),
        "waits for one free slot of five": ("i - used >= 4", "i - used >= 5"),
    },
)  # fmt: skip

CASES["stable compaction"] = Case(
    """
    const bool keep = threadIdx.x % 3 == 0;
    const unsigned kept = __ballot_sync(~0u, keep);
    if (keep) out[__popc(kept & ((1u << threadIdx.x) - 1))] = threadIdx.x;
    """,
    1, 32, tuple(range(0, 32, 3)),
    {
        "places from a counter": ("out[__popc(kept & ((1u << threadIdx.x) - 1))]", "out[atomicAdd(&x[0], 1)]"),
    },
)  # fmt: skip

CASES["compaction of blocks"] = Case(
    """
    __shared__ int base;
    if (threadIdx.x == 0) base = blockIdx.x * 32;
    __syncthreads();
    out[base + threadIdx.x] = blockIdx.x * 100 + threadIdx.x;
    """,
    6, 32, tuple(b * 100 + t for b in range(6) for t in range(32)),
    {
        "places from a counter": ("base = blockIdx.x * 32", "base = atomicAdd(&x[0], 32)"),
    },
)  # fmt: skip

CASES["parts in the order of blocks"] = Case(
    """
    if (threadIdx.x == 0) out[blockIdx.x] = 10 * blockIdx.x;
    """,
    6, 32, tuple(10 * b for b in range(6)),
    {
        "places from a counter": ("out[blockIdx.x]", "out[atomicAdd(&x[0], 1)]"),
    },
)  # fmt: skip

CASES["place of the maximum"] = Case(
    """
    const int value = threadIdx.x % 16;
    unsigned long long* best = (unsigned long long*)x;
    atomicMax(best, (unsigned long long)value << 32 | (63 - threadIdx.x));
    __syncthreads();
    if (threadIdx.x == 0) out[0] = 63 - (int)(*best & 63);
    """,
    1, 64, (15,),
    {
        "of equals, who comes first": (
            "atomicMax(best, (unsigned long long)value << 32 | (63 - threadIdx.x));",
            "if (atomicMax(&x[2], value) < value) atomicExch(&x[0], 63 - threadIdx.x);",
        ),
        "of equals, who comes last": (
            "atomicMax(best, (unsigned long long)value << 32 | (63 - threadIdx.x));",
            "atomicMax(&x[2], value); __syncthreads(); if (value == atomicAdd(&x[2], 0)) "
            "atomicExch(&x[0], 63 - threadIdx.x);",
        ),
    },
)  # fmt: skip

CASES["queue of tasks"] = Case(
    """
    __shared__ int task;
    for (;;) {
        if (threadIdx.x == 0) task = atomicAdd(&x[0], 1);
        __syncthreads();
        const int mine = task;
        __syncthreads();
        if (mine >= 12) break;
        if (threadIdx.x == 0) atomicAdd(&out[mine], 1 + mine);
    }
    """,
    4, 32, tuple(range(1, 13)),
    {
        "taken without an atomic": (
            "task = atomicAdd(&x[0], 1);",
            "{ volatile int* next = x; task = *next; *next = task + 1; }",
        ),
        "looks first, takes later": (
            "task = atomicAdd(&x[0], 1);",
            "{ task = atomicAdd(&x[0], 0); atomicExch(&x[0], task + 1); }",
        ),
        "a swap whose result is ignored": (
            "task = atomicAdd(&x[0], 1);",
            "{ task = atomicAdd(&x[0], 0); atomicCAS(&x[0], task, task + 1); }",
        ),
    },
)  # fmt: skip

CASES["barrier of the grid"] = Case(
    """
    x[100 + blockIdx.x] = blockIdx.x + 1;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        atomicAdd(&x[0], 1);
        while (atomicAdd(&x[0], 0) < gridDim.x) {}
        __threadfence();
    }
    __syncthreads();
    if (threadIdx.x == 0) out[blockIdx.x] = x[100 + (blockIdx.x + 1) % gridDim.x];
    """,
    2, 32, (2, 1),
    {
        "one block short": ("< gridDim.x) {}", "< gridDim.x - 1) {}"),
        "if for while": ("while (atomicAdd", "if (atomicAdd"),
        "no fence": ("+ 1;\n    __threadfence();", "+ 1;"),
        "arrives before it writes": (
            "x[100 + blockIdx.x] = blockIdx.x + 1;\n"
            "    __threadfence();\n"
            "    __syncthreads();\n"
            "    if (threadIdx.x == 0) {",
            "__threadfence();\n"
            "    __syncthreads();\n"
            "    if (threadIdx.x == 0) {\n"
            "        x[100 + blockIdx.x] = blockIdx.x + 1;",
        ),
    },
)  # fmt: skip

CASES["made once"] = Case(
    """
    if (threadIdx.x % 32) return;
    if (atomicCAS(&x[0], 0, 1) == 0) {
        for (int i = 0; i < 8; ++i) x[100 + i] = i * i;
        __threadfence();
        atomicExch(&x[0], 2);
    }
    while (atomicAdd(&x[0], 0) != 2) {}
    __threadfence();
    int sum = 0;
    for (int i = 0; i < 8; ++i) sum += x[100 + i];
    out[blockIdx.x * 2 + threadIdx.x / 32] = sum;
    """,
    3, 64, (140,) * 6,
    {
        "also while it is made": ("!= 2) {}", "== 0) {}"),
        "if for while": ("while (atomicAdd", "if (atomicAdd"),
        "no fence before it is ready": ("= i * i;\n        __threadfence();", "= i * i;"),
        "ready before it is made": (
            "for (int i = 0; i < 8; ++i) x[100",
            "__threadfence(); atomicExch(&x[0], 2);\n"
            "        for (int i = 0; i < 8; ++i) x[100",
        ),
        "only the maker waits": ("while (atomicAdd(&x[0], 0) != 2) {}", ""),
    },
)  # fmt: skip

CASES["slots of a table"] = Case(
    """
    const int key = 1 + (blockIdx.x * 32 + threadIdx.x) % 10;
    int slot = key % 4;
    for (;;) {
        const int old = atomicCAS(&x[slot], 0, key);
        if (old == 0 || old == key) break;
        slot = (slot + 1) % 16;
    }
    atomicAdd(&out[key], 1);
    atomicAdd(&x[100 + slot], 1);
    __syncthreads();
    if (threadIdx.x == 0 && x[slot] != key) out[0] = 1;
    """,
    1, 32, (0, 4, 4, 3, 3, 3, 3, 3, 3, 3, 3),
    {
        "taken without looking at the result": (
            "if (old == 0 || old == key) break;",
            "if (old == 0 || old == key || *(volatile int*)&x[slot] != key) break;",
        ),
        "looked at, then stored": (
            "const int old = atomicCAS(&x[slot], 0, key);",
            "const int old = *(volatile int*)&x[slot]; if (old == 0) *(volatile int*)&x[slot] = key;",
        ),
    },
)  # fmt: skip

CASES["maximum behind a look"] = Case(
    """
    const int value = (threadIdx.x * 37 + blockIdx.x * 11) % 64;
    if (value > out[0]) atomicMax(&out[0], value);
    """,
    4, 64, (63,),
    {
        "stored": ("atomicMax(&out[0], value)", "out[0] = value"),
        "exchanged": ("atomicMax(&out[0], value)", "atomicExch(&out[0], value)"),
    },
)  # fmt: skip

CASES["maximum of floats"] = Case(
    """
    const float value = threadIdx.x + 64 * blockIdx.x;
    int old = x[0];
    while (value > __int_as_float(old)) {
        const int seen = old;
        old = atomicCAS(&x[0], seen, __float_as_int(value));
        if (old == seen) break;
    }
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0 && atomicAdd(&x[1], 1) == gridDim.x - 1) out[0] = (int)__int_as_float(atomicAdd(&x[0], 0));
    """,
    4, 64, (255,),
    {
        "one swap": ("if (old == seen) break;", "break;"),
        "one block too early": ("== gridDim.x - 1", "== gridDim.x - 2"),
    },
)  # fmt: skip

CASES["list"] = Case(
    """
    const int node = 1 + threadIdx.x;
    int head, seen = atomicAdd(&x[0], 0);
    do {
        head = seen;
        x[100 + node] = head;
        __threadfence();
        seen = atomicCAS(&x[0], head, node);
    } while (seen != head);
    __syncthreads();
    if (threadIdx.x == 0) for (int at = x[0]; at; at = x[100 + at]) ++out[0];
    """,
    1, 64, (64,),
    {
        "one swap": ("while (seen != head)", "while (false)"),
        "wrong compare": ("while (seen != head)", "while (seen < 0)"),
        "exchanged": ("seen = atomicCAS(&x[0], head, node);", "atomicExch(&x[0], node); seen = head;"),
    },
)  # fmt: skip

CASES["running sum"] = Case(
    """
    __shared__ int tile;
    if (threadIdx.x) return;
    tile = atomicAdd(&x[0], 1);
    volatile int* status = x + 100;
    int before = 0;
    if (tile) {
        while (status[tile - 1] == 0) {}
        __threadfence();
        before = x[200 + tile - 1];
    }
    x[200 + tile] = before + tile + 1;
    __threadfence();
    status[tile] = 1;
    out[tile] = before + tile + 1;
    """,
    6, 32, (1, 3, 6, 10, 15, 21),
    {
        "if for while": ("while (status", "if (status"),
        "status before the value": (
            "x[200 + tile] = before + tile + 1;\n"
            "    __threadfence();\n"
            "    status[tile] = 1;",
            "__threadfence();\n"
            "    status[tile] = 1;\n"
            "    x[200 + tile] = before + tile + 1;",
        ),
        "no fence": ("+ 1;\n    __threadfence();", "+ 1;"),
        "waits for the one before": (
            "while (status[tile - 1] == 0) {}",
            "while (tile > 1 && status[tile - 2] == 0) {}",
        ),
    },
)  # fmt: skip

CASES["two locks"] = Case(
    """
    if (threadIdx.x) return;
    const int first = 0, second = 1;
    while (atomicCAS(&x[first], 0, 1)) {}
    while (atomicCAS(&x[second], 0, 1)) {}
    __threadfence();
    out[0] += 1;
    __threadfence();
    atomicExch(&x[second], 0);
    atomicExch(&x[first], 0);
    """,
    4, 32, (4,),
    {
        "taken in two orders": ("first = 0, second = 1", "first = blockIdx.x % 2, second = 1 - first"),
        "one lock for each": (
            "while (atomicCAS(&x[first], 0, 1)) {}\n"
            "    while (atomicCAS(&x[second], 0, 1)) {}",
            "while (atomicCAS(&x[blockIdx.x % 2], 0, 1)) {}",
        ),
    },
)  # fmt: skip

CASES["barrier of two warps"] = Case(
    """
    __shared__ int s;
    if (threadIdx.x == 0) s = 5;
    __syncthreads();
    const int warp = threadIdx.x / 32;
    if (warp < 2) out[threadIdx.x] = s;
    if (warp < 2) asm volatile("bar.sync 1, 64;" ::: "memory");
    if (threadIdx.x == 0) s = 7;
    """,
    1, 128, (5,) * 64,
    {
        "a third warp reads": ("if (warp < 2) out", "if (warp < 3) out"),
        "the fourth warp reads": ("if (warp < 2) out", "if (warp != 2) out"),
    },
)  # fmt: skip

CASES["barrier of half a warp"] = Case(
    """
    __shared__ int s[2];
    const int half = threadIdx.x / 16;
    if (threadIdx.x % 16 == 0) s[half] = half + 1;
    __syncwarp(half ? 0xffff0000u : 0xffffu);
    out[threadIdx.x] = s[half];
    __syncwarp(half ? 0xffff0000u : 0xffffu);
    if (threadIdx.x % 16 == 0) s[half] = 0;
    """,
    1, 32, (1,) * 16 + (2,) * 16,
    {
        "the other half clears": (
            "__syncwarp(half ? 0xffff0000u : 0xffffu);\n"
            "    if (threadIdx.x % 16 == 0) s[half] = 0;",
            "__syncwarp(half ? 0xffff0000u : 0xffffu);\n"
            "    if (threadIdx.x % 16 == 0) s[1 - half] = 0;",
        ),
    },
)  # fmt: skip
