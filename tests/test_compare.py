"""Comparing two checkouts: what counts as worse, and that one round can be measured by an older checkout's names."""

import ast

import pytest

from bench import compare
from tests.support import ROOT


@pytest.mark.parametrize(
    ("what", "pairs", "code"),
    [
        ("drain, jobs/s", [(100.0, 100.0)], 0),
        ("drain, jobs/s", [(98.0, 100.0)], 0),
        ("drain, jobs/s", [(96.0, 100.0)], 1),
        ("drain, jobs/s", [(90.0, 100.0), (100.0, 100.0), (101.0, 100.0)], 0),
        ("enqueue to start, p50 ms", [(0.96, 1.0)], 0),
        ("enqueue to start, p50 ms", [(1.04, 1.0)], 1),
    ],
)
def test_a_figure_whose_median_ratio_is_more_than_3_percent_worse_ends_with_1(what, pairs, code):
    assert compare._report({what: pairs}) == code


def test_a_round_imports_from_the_benchmarks_alone():
    """An older checkout runs the same text: its modules of Atlas may have had other names."""
    tree = ast.parse((ROOT / "bench" / "one_round.py").read_text())
    modules = {node.module.split(".")[0] for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}

    assert "atlas" not in modules


def test_the_order_of_the_checkouts_changes_from_round_to_round(monkeypatch, tmp_path):
    asked = []
    monkeypatch.setattr(compare, "_one_round", lambda name, checkout, scale: asked.append(checkout) or {"x": 1.0})

    compare._both("drain", tmp_path, 1, swap=False)
    compare._both("drain", tmp_path, 1, swap=True)

    assert asked == [compare.HERE, tmp_path, tmp_path, compare.HERE]
