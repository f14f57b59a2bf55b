"""docs/why.md says which reasons are tried on which engine."""

from pathlib import Path

from causes_cases import table


def test_the_table_of_reasons_is_the_one_of_the_tests():
    text = (Path(__file__).parent.parent / "docs" / "why.md").read_text(encoding="utf-8")
    assert table() in text, "put what `python tests/causes_cases.py` prints into docs/why.md"
