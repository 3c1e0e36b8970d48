"""Drift: ratios are compared with those of the same kind of machine."""

import pytest

from bench import drift
from bench.jobs.__main__ import compare_rates, gate_ratios


def test_a_ratio_far_below_the_stored_one_is_named(tmp_path):
    path = tmp_path / "ratios.json"
    drift.store({"drain": 0.9, "shapes": 0.9, "enqueue": 0.7}, path=path)

    assert drift.drifted({"drain": 0.8, "shapes": 0.35, "enqueue": 0.9}, path=path) == [
        "shapes: 0.35 is below 0.85 of the stored 0.90"
    ]
    assert drift.drifted({"drain": 0.9, "shapes": 0.9}, path=path) == ["enqueue: not measured, 0.70 is stored"]


def test_a_machine_without_stored_ratios_is_told_how_to_store_them(tmp_path):
    with pytest.raises(LookupError, match="--store"):
        drift.drifted({"drain": 1.0}, path=tmp_path / "ratios.json")


def test_a_part_of_which_nothing_is_stored_is_no_open_gate(tmp_path):
    path = tmp_path / "ratios.json"
    drift.store({"drain": 0.9}, path=path)
    with pytest.raises(LookupError, match="none of these"):
        drift.drifted({"crowd": 1.0}, is_part=True, path=path)


def test_a_part_of_a_run_leaves_the_other_ratios(tmp_path):
    path = tmp_path / "ratios.json"
    drift.store({"drain": 0.9, "shapes": 0.9}, path=path)
    drift.store({"shapes": 0.8}, is_part=True, path=path)

    assert drift.drifted({"shapes": 0.5}, is_part=True, path=path) == ["shapes: 0.50 is below 0.85 of the stored 0.80"]
    assert drift.drifted({"shapes": 0.8}, path=path) == ["drain: not measured, 0.90 is stored"]


def test_ratios_of_a_slower_run_have_the_names_of_the_stored_ones(tmp_path):
    path = tmp_path / "ratios.json"
    drift.store(gate_ratios([compare_rates("drain, jobs/s", [30_000], [40_000], "bare turns", "≥ 0.8")]), path=path)

    slower = gate_ratios([compare_rates("drain, jobs/s", [9_000], [20_000], "bare turns", "≥ 0.8")])
    assert drift.drifted(slower, is_part=True, path=path) == [
        "drain, jobs/s beside bare turns: 0.45 is below 0.85 of the stored 0.75"
    ]
