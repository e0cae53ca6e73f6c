"""Tests of the tables of several variants, and of one variant's lines."""

from __future__ import annotations

from dataclasses import replace

from tiledmm.profile.kernel_profile import Profile, ProfiledLine
from tiledmm.profile.profile_tables import LINES, lines_table, profiles_table

PLAIN = Profile(
    "tiled 32", "tiledmm_tiled", nanoseconds=12_500, sm_throughput=0.5, shared_wavefronts=3200,
    ideal_shared_wavefronts=800, load_sectors=64, load_requests=4, waits={"barrier": 10, "selected": 70, "wait": 20},
)  # fmt: skip
OTHER = Profile("auto", "tiledmm_split", others={"tiledmm_pack": 1500.0}, missing=("a.sum",), note="no source lines: x")


def test_a_column_a_variant() -> None:
    table = profiles_table([PLAIN, OTHER], "a product")
    rows = {row[0]: row[1:] for row in table.rows}
    assert table.columns == ("<figure", "tiled 32", "auto")
    assert rows["time (us)"] == ("12.5", "-") and rows["SM, of its peak"] == ("50%", "-")
    assert rows["of these, bank conflicts"] == ("2,400", "-") and rows["global sectors per load"] == ("16.0", "-")
    assert rows["waiting: barrier"] == ("10%", "-") and rows["waiting: mio_throttle"][0] == "0%"
    assert rows["waiting: wait"] == ("20%", "-") and "waiting: selected" not in rows
    notes = " ".join(table.notes)
    assert "tiledmm_pack (1.50 us)" in notes and "no source lines: x" in notes and "no value for a.sum" in notes


def test_without_samples_there_are_no_waits() -> None:
    assert not any(row[0].startswith("waiting") for row in profiles_table([OTHER], "x").rows)


def test_the_lines_of_a_kernel() -> None:
    lines = [ProfiledLine(7, "tiled.cu.j2:3", "x = y;", {"barrier": 30, "wait": 10, "drain": 1}, 0.5, 64, 8, 4, 4)]
    lines += [ProfiledLine(i, f"tiled.cu.j2:{i}", "", {}, 0.0) for i in range(10, 20)]
    table = lines_table(replace(PLAIN, lines=tuple(lines)))
    assert table.rows[0] == ("tiled.cu.j2:3", "50%", "barrier 73%, wait 24%", "64 (8)", "4", "x = y;")
    assert table.rows[1] == ("tiled.cu.j2:10", "0%", "-", "-", "-", "")
    assert len(table.rows) == LINES
