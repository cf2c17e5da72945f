import re

import promql_parser
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from scaler.model import LabelMatcher
from scaler.promql.escape import literal_pattern, literal_replacement, matcher_problem, matcher_text, one_of, quote

NASTY = ['"', "\\", '"} or vector(1) #', "\n", "\0", "a|b", ".*", "$1", "\ufffd", "é漢😀", "}", "'", "`", "", "a{1,2}"]


def matchers_of(text: str) -> list[tuple[str, str, str]]:
    selector = promql_parser.parse(f"metric{{{text}}}")
    assert isinstance(selector, promql_parser.VectorSelector)
    return [(item.name, str(item.op), item.value) for item in selector.matchers.matchers]


@pytest.mark.parametrize("value", NASTY)
def test_a_nasty_label_value_stays_inside_its_own_string(value: str) -> None:
    assert matchers_of(f"model_name={quote(value)}") == [("model_name", str(promql_parser.MatchOp.Equal), value)]


@given(st.text())
def test_any_label_value_comes_back_from_the_parser_as_it_went_in(value: str) -> None:
    assert matchers_of(one_of("model_name", [value]))[0][2] == value


@given(st.lists(st.text(), min_size=2, max_size=5, unique=True), st.text())
@example(["a.c", "x"], "abc")
@example(["a|b", "x"], "a")
@example(["a\n", "x"], "a")
def test_alternatives_match_the_values_and_nothing_else(values: list[str], other: str) -> None:
    ((_, operator, pattern),) = matchers_of(one_of("model_name", values))
    assert operator == str(promql_parser.MatchOp.Re)
    for text in (*values, other):
        # Python reads what we write for RE2 in the same way: only escaped characters and bars.
        assert (re.fullmatch(pattern, text) is not None) == (text in values)


def test_a_single_value_needs_no_pattern() -> None:
    assert one_of("namespace", ["a.b", "a.b"]) == 'namespace="a.b"'


def test_the_order_of_values_changes_nothing() -> None:
    assert one_of("namespace", ["b", "a", "b"]) == one_of("namespace", ["a", "b"]) == 'namespace=~"a|b"'


@given(st.text())
def test_a_quoted_pattern_is_plain_text_to_a_regular_expression(text: str) -> None:
    assert re.fullmatch(literal_pattern(text), text)


def test_a_dollar_sign_in_a_replacement_is_no_group() -> None:
    assert literal_replacement("a$1") == "a$$1"


def test_a_matcher_is_written_with_its_value_escaped() -> None:
    assert matcher_text(LabelMatcher("job", "!~", 'a"b')) == 'job!~"a\\"b"'


@pytest.mark.parametrize(
    ("matcher", "fault"),
    [
        (LabelMatcher("job", "=", "x"), None),
        (LabelMatcher('x="y",z', "=", "x"), "is not a label name"),
        (LabelMatcher("1x", "=", "x"), "is not a label name"),
        (LabelMatcher("x\n", "=", "x"), "is not a label name"),
        (LabelMatcher("job", "==", "x"), "is not a matcher's operator"),
    ],
)
def test_what_cannot_be_written_as_a_matcher_is_named(matcher: LabelMatcher, fault: str | None) -> None:
    problem = matcher_problem(matcher)
    assert problem is None if fault is None else problem is not None and fault in problem
