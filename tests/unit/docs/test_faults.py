"""docs/operating/faults.md and the fault tests tell of the same faults."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/operating/faults.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| .* \| `(test_\w+\.py::test_\w+)` \|$", re.MULTILINE)
CONTROL = "test_without_a_fault"
"""Begins the names of tests that show what happens where nothing fails, so that the others mean something."""


def fault_tests() -> set[str]:
    return {
        f"{path.name}::{node.name}"
        for path in (ROOT / "tests/faults").glob("test_*.py")
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
        and not node.name.startswith(CONTROL)
    }


def rows() -> list[str]:
    """All rows of the page's tables but their heads and the lines below those."""
    lines = [line for line in PAGE.splitlines() if line.startswith("|")]
    return [line for line in lines if not line.startswith(("| ---", "| fault |"))]


def test_each_row_names_a_fault_test_and_each_fault_test_has_one_row() -> None:
    assert len(fault_tests()) > 15
    assert sorted(ROW.findall(PAGE)) == sorted(fault_tests())


def test_every_row_names_its_test() -> None:
    assert [row for row in rows() if not ROW.fullmatch(row)] == []
