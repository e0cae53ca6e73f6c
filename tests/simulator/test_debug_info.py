from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tiledmm.errors import MissingDependencyError
from tiledmm.simulator.build.debug.debug_info import DebugInfo, Frame, source_name
from tiledmm.simulator.build.toolchain import compiler

# Each call of mark() notes where it returns to, as the simulator's runtime does for each access.
HEADER = """\
#define ALWAYS_INLINE inline __attribute__((always_inline))
extern "C" void mark(int id);
ALWAYS_INLINE void leaf(int* p, int id) {
    mark(id);  // in leaf
    ++*p;
}
template <int N>
ALWAYS_INLINE void middle(int* p, int id) {
#pragma GCC unroll 2
    for (int i = 0; i < N; ++i) {
        leaf(p + i, id);  // in middle
    }
}
template <class T>
__attribute__((noinline)) void common(T* p, int id) {
    leaf(p, id);  // in common
}
"""

KERNEL = """\
#include "steps.h"
extern "C" {
struct Mark { long id; const void* place; } marks[64];
int marked;
__attribute__((noinline)) void mark(int id) { marks[marked++] = {id, __builtin_return_address(0)}; }
}
struct Box {
    int* p;
    ALWAYS_INLINE void open() const {
        leaf(p, 4);  // in Box
    }
};
void other(int* p);
extern "C" void kernel(int* p) {
    mark(0);  // in kernel: 0
    ++*p;
    leaf(p, 1);          // in kernel: 1
    middle<3>(p, 2);     // in kernel: 2
    common<int>(p, 3);   // a call
    const Box box{p};
    box.open();          // in kernel: 4
    const auto lambda = [&](int i) __attribute__((always_inline)) {
        leaf(p + i, 5);  // in lambda
    };
    lambda(0), lambda(1);  // in kernel: 5
    struct Local {
        __attribute__((noinline)) static void call(int* p) {
            leaf(p, 8);  // in Local
        }
    };
    Local::call(p);
    if (p[2] != 12345) [[unlikely]] {
        leaf(p, 6);        // in kernel: 6
    }
    other(p);
    ++*p;
}
"""

OTHER = """\
#include "steps.h"
void other(int* p) {
    middle<2>(p, 7);   // in other
    common<int>(p, 3);
}
"""

# From the innermost line outwards: the comment behind it, and the function that it is in.
CHAINS = {
    0: [("in kernel: 0", "kernel")],
    1: [("in leaf", "leaf"), ("in kernel: 1", "kernel")],
    2: [("in leaf", "leaf"), ("in middle", "middle<3>"), ("in kernel: 2", "kernel")],
    3: [("in leaf", "leaf"), ("in common", "common<int>")],
    4: [("in leaf", "leaf"), ("in Box", "open"), ("in kernel: 4", "kernel")],
    5: [("in leaf", "leaf"), ("in lambda", "operator()"), ("in kernel: 5", "kernel")],
    6: [("in leaf", "leaf"), ("in kernel: 6", "kernel")],
    7: [("in leaf", "leaf"), ("in middle", "middle<2>"), ("in other", "other")],
    8: [("in leaf", "leaf"), ("in Local", "call")],
}
TIMES_MARKED = {0: 1, 1: 1, 2: 3, 3: 2, 4: 1, 5: 2, 6: 1, 7: 2, 8: 1}

SHARED = """\
#define SHARED thread_local __attribute__((aligned(65536)))
namespace outer {
SHARED short in_namespace[5];
}
static SHARED char in_file[7];
SHARED int plain[9];
thread_local char tiledmm_anchor;

template <class T, int N>
T* of_template() {
    SHARED static T tile[N];
    return tile;
}
template <class T>
long distance(T* array) {
    return reinterpret_cast<char*>(array) - &tiledmm_anchor;
}
extern "C" __attribute__((visibility("default"))) void tiledmm_kernel_E4tile(long* distances) {
    SHARED static float As[16][17];
    { SHARED static double As[3]; distances[1] = distance(As); }
    distances[0] = distance(As);
    distances[2] = distance(of_template<float, 20>());
    distances[3] = distance(in_file);
    distances[4] = distance(outer::in_namespace);
    distances[5] = distance(plain);
}
"""
SHARED_ARRAYS = [("As", 1088), ("As", 24), ("tile", 80), ("in_file", 7), ("in_namespace", 10), ("plain", 36)]


@pytest.fixture(scope="module")
def build(tmp_path_factory):
    """Return a function that compiles sources, given by file name and text, to a shared library in a new folder."""
    if sys.platform != "linux":
        pytest.skip("debug information is read from ELF files")
    try:
        command = compiler()
    except MissingDependencyError as error:
        pytest.skip(str(error))

    def build(*options: str, **sources: str) -> Path:
        folder = tmp_path_factory.mktemp("library").resolve()
        (folder / "include").mkdir()
        (folder / "include" / "steps.h").write_text(HEADER, encoding="utf-8")
        for name, text in sources.items():
            (folder / f"{name}.cpp").write_text(text, encoding="utf-8")
        library = folder / "library.so"
        options = ("-std=c++17", "-fPIC", "-shared", f"-I{folder}/include", *options)
        subprocess.run(
            [*command, *options, "-o", str(library), *(f"{name}.cpp" for name in sources)], cwd=folder, check=True
        )
        return library

    return build


@pytest.fixture(
    scope="module",
    params=[
        *("-O2 -g1 -gdwarf-3", "-O3 -g -gdwarf-5", "-O0 -g1"),
        *(pytest.param(options, marks=pytest.mark.slow) for options in ("-O2 -g1 -gdwarf-4", "-O2 -g1 -gdwarf-5")),
    ],
)
def kernel(request, build):
    return build(*request.param.split(), kernel=KERNEL, other=OTHER)


def lines_of(library: Path) -> dict[str, tuple[str, int]]:
    """Return file and line of each line that ends with a comment, by that comment."""
    folder = library.parent
    found = {}
    for file in (folder / "include" / "steps.h", folder / "kernel.cpp", folder / "other.cpp"):
        for number, text in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
            if comment := re.search(r"// (.+)$", text):
                found[comment[1]] = str(file), number
    return found


def marks(library: Path, debug: DebugInfo) -> list[tuple[int, int]]:
    """Run the kernel; return the number of each mark, and the offset in the file of the instruction that made it."""

    class Mark(ctypes.Structure):
        _fields_ = (("id", ctypes.c_long), ("place", ctypes.c_size_t))

    loaded = ctypes.CDLL(str(library))
    base = ctypes.cast(loaded.kernel, ctypes.c_void_p).value - debug.address("kernel")
    loaded.kernel((ctypes.c_int * 8)())
    made = (Mark * ctypes.c_int.in_dll(loaded, "marked").value).in_dll(loaded, "marks")
    return [(each.id, each.place - base - 1) for each in made]


def test_lines_of_the_calls_that_a_kernel_made(kernel):
    debug = DebugInfo(kernel)
    made = marks(kernel, debug)
    lines = lines_of(kernel)
    assert {number: [each for each, _ in made].count(number) for number in CHAINS} == TIMES_MARKED
    for (number, _), chain in zip(made, debug.lines(address for _, address in made), strict=True):
        assert chain == tuple(Frame(*lines[comment], function) for comment, function in CHAINS[number])


def test_lines_of_every_instruction_as_addr2line_finds_them(kernel):
    if not shutil.which("addr2line"):
        pytest.skip("there is no addr2line")
    if "clang" in subprocess.run([*compiler(), "--version"], capture_output=True, text=True).stdout:
        pytest.skip("addr2line loses inlined calls that Clang describes in DWARF 5")
    debug = DebugInfo(kernel)
    addresses = [debug.address(name) + offset for name in ("kernel", "_Z5otherPi") for offset in range(120)]
    answer = subprocess.run(
        ["addr2line", "-a", "-i", "-e", str(kernel), *map(hex, addresses)], capture_output=True, text=True, check=True
    ).stdout
    for address, expected, chain in zip(
        addresses, re.split(r"^0x\w+\n", answer, flags=re.MULTILINE)[1:], debug.lines(addresses), strict=True
    ):
        places = re.findall(r"^(.*):(\d+)(?: \(discriminator \d+\))?$", expected, flags=re.MULTILINE)
        assert [(line.file, str(line.line)) for line in chain] == [place for place in places if place[0] != "??"], hex(
            address
        )


def test_addresses_that_are_no_code_have_no_lines(kernel):
    debug = DebugInfo(kernel)
    assert debug.lines([0, 1, debug.address("marks"), 1 << 40]) == [()] * 4
    assert debug.lines([]) == []


@pytest.mark.parametrize("dwarf", ["-gdwarf-4", pytest.param("-gdwarf-5", marks=pytest.mark.slow)])
def test_code_that_the_linker_dropped_hides_none(build, dwarf):
    # Nobody calls `dropped`. What is described of it stays, from address 0 on and over that of `kept`.
    body = "".join(f"    *p = {value};\n" for value in range(2000))
    dropped = f'__attribute__((visibility("hidden"))) void dropped(volatile int* p) {{\n{body}}}\n'
    source = f'extern "C" void kept(int* p) {{ ++*p; }}\n{dropped}'
    library = build("-O1", "-g1", dwarf, "-ffunction-sections", "-Wl,--gc-sections", kernel=source)
    debug = DebugInfo(library)
    begin = debug.address("kept")
    assert begin < 4 * body.count("\n")
    with pytest.raises(LookupError):
        debug.address("_Z7droppedPVi")
    line = Frame(str(library.parent / "kernel.cpp"), 1, "kept")
    assert debug.lines([4, begin]) == [(), (line,)]


def test_without_debug_information_there_are_symbols_but_no_lines(build):
    debug = DebugInfo(build("-O1", "-g0", kernel=KERNEL, other=OTHER))
    assert debug.lines([debug.address("kernel")]) == [()]


def test_a_symbol_that_is_not_there(build, kernel):
    with pytest.raises(LookupError, match=re.escape(f"{kernel} defines no symbol 'kernels'")):
        DebugInfo(kernel).address("kernels")
    stripped = build("-s", kernel=KERNEL, other=OTHER)
    with pytest.raises(LookupError, match="stripped"):
        DebugInfo(stripped).address("kernel")


def test_a_symbol_that_is_only_used_has_no_address(build):
    library = build(kernel='extern "C" void elsewhere(); extern "C" void kernel() { elsewhere(); }')
    with pytest.raises(LookupError, match="'elsewhere'"):
        DebugInfo(library).address("elsewhere")


def test_threads_may_ask_at_the_same_time(kernel):
    start = DebugInfo(kernel).address("kernel")
    questions = [range(start + first, start + 120, 8) for first in range(8)]
    expected = [DebugInfo(kernel).lines(each) for each in questions]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(2):
            debug = DebugInfo(kernel)
            with ThreadPoolExecutor(8) as pool:
                assert list(pool.map(debug.lines, questions)) == expected
    finally:
        sys.setswitchinterval(interval)


@pytest.mark.parametrize("options", ["-O0", "-O2"])
def test_shared_arrays_lie_where_the_kernel_has_them(build, options):
    # Hidden, so that the template's array is this library's own: GCC makes such a variable one for the whole process.
    library = build(options, "-fvisibility=hidden", shared=SHARED)
    distances = (ctypes.c_long * len(SHARED_ARRAYS))()
    ctypes.CDLL(str(library)).tiledmm_kernel_E4tile(distances)
    debug = DebugInfo(library)
    anchor = debug.address("tiledmm_anchor")
    found = [(array.offset - anchor, array.name, array.bytes) for array in debug.shared_arrays()]
    assert found == sorted((distance, *each) for distance, each in zip(distances, SHARED_ARRAYS, strict=True))


@pytest.mark.parametrize(
    ("symbol", "name"),
    [
        ("smem", "smem"),
        ("_ZL4smem", "smem"),
        ("_ZN5outer4smemE", "smem"),
        ("_ZN12_GLOBAL__N_14smemE", "smem"),
        ("_ZZ29tiledmm_tiled_f32_16x16x16_nnE2As", "As"),
        ("_ZZ29tiledmm_tiled_f32_16x16x16_nnE2As_0", "As"),
        ("_ZZ29tiledmm_tiled_f32_16x16x16_nnE2As__12_", "As"),
        ("_ZZ6kernelPfE12tile_of_a_12", "tile_of_a_12"),
        ("_ZZ6kernelPfE4E3ab", "E3ab"),
        ("_ZZN12_GLOBAL__N_16helperEvE3buf", "buf"),
        ("_ZZ6helperILi16EEvvE2As", "As"),
        ("_ZZ4loadI4ViewE3BoxS1_E5stage", "stage"),
        ("_ZZZ6kernelENKUlvE_clEvE4tile", "tile"),
        ("_ZTH4", "_ZTH4"),
    ],
)
def test_names_in_the_source(symbol, name):
    assert source_name(symbol) == name
