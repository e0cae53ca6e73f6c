"""Tests of finding the loop around a line of a kernel's text."""

from __future__ import annotations

import pytest

from tiledmm.simulator.build.translation.blocks import loop_around

TEXT = """\
#define LOOP for (;;)
__global__ void k(int* x) {  // for (;;)
    for (int i = 0; i < x[0];
         ++i) {
        while (x[i]) x[i] -= 1;
        /* while (true) {
        */
        if (x[i])
            continue;
    }
    const char* said = "do { for (";
    do {
        for (int j = 0; j < 3; ++j)
            if (x[j])
                x[j] = 1;
        x[2] = 0;
    } while (x[0] != (x[1] ? 3 : 4)
             && x[3]);
    x[5] = 1;
}
"""


@pytest.mark.parametrize(
    ("line", "loop"),
    [
        (1, 0),
        (2, 0),
        (3, 3),
        (4, 3),
        (5, 5),
        (7, 3),
        (9, 3),
        (11, 0),
        (12, 17),
        (13, 13),
        (15, 13),
        (16, 17),
        (18, 17),
        (19, 0),
    ],
)
def test_the_innermost_loop_is_named_by_its_condition(line: int, loop: int) -> None:
    assert loop_around(TEXT, line) == loop


@pytest.mark.parametrize("text", ["", "for", "do", "while (", "for (;;) {", "do { x = 1; } while", "}} while (x) ;"])
def test_text_that_ends_too_soon(text: str) -> None:
    assert loop_around(text, 1) in (0, 1)
