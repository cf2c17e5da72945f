"""Adds label matchers to every selector of a query, so that a store of many clusters looks like that of one.

PromQL has no rule that would do it from outside, and the parser gives no positions, so the text is read token by token:
strings, comments, ranges and lists of labels are stepped over, braces get the matchers, and a bare metric gets braces.
``narrowing_problem`` compares the parsed forms before and after; no query of the operator runs that does not pass it.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

import promql_parser

from scaler.model import LabelMatcher
from scaler.promql.escape import matcher_text

_STRING: Final = r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\'|`[^`]*`'
_SPACE: Final = r"(?:\s|\#[^\n]*(?:\n|\Z))"
_TOKEN: Final = re.compile(
    rf"""
    (?P<string>{_STRING})
    | (?P<space>{_SPACE}+)
    | (?P<range>\[[^\]]*\])
    | \{{(?P<matchers>(?:[^{{}}"'`]|{_STRING})*)\}}
    | (?P<labels>\b(?:by|without|on|ignoring|group_left|group_right){_SPACE}*\([^)]*\))
    | (?P<function>[a-zA-Z_:][a-zA-Z0-9_:]*(?={_SPACE}*\())
    | (?P<aggregation>[a-zA-Z_]+(?={_SPACE}+(?:by|without)\b))
    | (?P<keyword>\b(?:and|or|unless|atan2|bool|offset|group_left|group_right|inf|nan)\b)
    | (?P<metric>[a-zA-Z_:][a-zA-Z0-9_:]*)(?P<braced>(?={_SPACE}*\{{))?
    | (?P<number>[0-9.][0-9a-zA-Z_.]*)
    | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)


def narrowed(expr: str, matchers: Sequence[LabelMatcher]) -> str:
    """Write ``expr`` with further matchers on each of its selectors.

    ``up + {a="b"}`` with ``cluster="eu"`` becomes ``up{cluster="eu"} + {cluster="eu",a="b"}``.

    Args:
        expr: Any PromQL.
        matchers: What each series must meet besides.
    """
    if not matchers:
        return expr
    text = ",".join(map(matcher_text, matchers))
    return "".join(_narrowed(token, text) for token in _TOKEN.finditer(expr))


def narrowing_problem(expr: str, matchers: Sequence[LabelMatcher]) -> str | None:
    """Say why ``narrowed`` does not do for a query of the operator, or None when it does."""
    wanted = Counter((matcher.label, matcher.operator, matcher.value) for matcher in matchers)
    before = list(_selectors(promql_parser.parse(expr)))
    try:
        after = list(_selectors(promql_parser.parse(narrowed(expr, matchers))))
    except ValueError:
        after = []
    if len(before) != len(after) or any(
        has_alternatives or now != was + wanted for (was, _), (now, has_alternatives) in zip(before, after, strict=True)
    ):
        return "external labels cannot be added to it: write each selector as metric{...}, and without `or` in braces"
    return None


def _narrowed(token: re.Match[str], text: str) -> str:
    if token["matchers"] is not None:
        rest = token["matchers"].strip()
        return f"{{{text},{rest}}}" if rest else f"{{{text}}}"
    if token["metric"] is not None and token["braced"] is None:
        return f"{token[0]}{{{text}}}"
    return token[0]


def _selectors(expr: object) -> Iterator[tuple[Counter[tuple[str, str, str]], bool]]:
    """Yield the matchers of each selector, the metric's name among them, and whether it has alternatives."""
    if isinstance(expr, promql_parser.VectorSelector):
        named = [("__name__", "=", expr.name)] if expr.name else []
        matchers = [(item.name, _OPERATORS[str(item.op)], item.value) for item in expr.matchers.matchers]
        yield Counter([*named, *matchers]), bool(expr.matchers.or_matchers)
    for child in ("lhs", "rhs", "param", "expr", "vector_selector"):
        if (inner := getattr(expr, child, None)) is not None:
            yield from _selectors(inner)
    for argument in getattr(expr, "args", ()):
        yield from _selectors(argument)


_OPERATORS: Final = {
    str(promql_parser.MatchOp.Equal): "=",
    str(promql_parser.MatchOp.NotEqual): "!=",
    str(promql_parser.MatchOp.Re): "=~",
    str(promql_parser.MatchOp.NotRe): "!~",
}
