"""A trigger's ``selector``: further label matchers, read strictly so that one trigger cannot break another's query.

Pools share batched queries, and Prometheus refuses a whole query for one bad regular expression. So a regular
expression must be one that RE2 is certain to take: what Rust's engine (in promql-parser) and Python's both accept, less
what they have beyond RE2.
"""

import math
import re
import string
import warnings
from typing import Annotated, Final

import promql_parser

from scaler.config.kinds import Kind
from scaler.config.problems import detail, escaped
from scaler.model import LabelMatcher

SELECTOR_LENGTH: Final = 1024
"""Characters of one selector; longer ones make queries that every pool of the batch pays for."""
MATCHER_LIMIT: Final = 16
"""Matchers of one selector; a pool is told apart by two or three."""
Selector = Annotated[
    tuple[LabelMatcher, ...],
    Kind("label matchers", f"label matchers in PromQL form (at most {SELECTOR_LENGTH} characters)"),
]
EXAMPLE: Final = 'job="vllm",cluster=~"a|b"'

_OPERATORS: Final = {
    str(promql_parser.MatchOp.Equal): "=",
    str(promql_parser.MatchOp.NotEqual): "!=",
    str(promql_parser.MatchOp.Re): "=~",
    str(promql_parser.MatchOp.NotRe): "!~",
}
_LABEL: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_BUCKET_LABEL: Final = "le"

# RE2's limit on repetitions, nested ones multiplied (regexp/syntax of Go, which Prometheus uses).
_RE2_REPEAT_LIMIT: Final = 1000
_RE2_ESCAPES: Final = frozenset(string.punctuation + "dDwWsSbBtnrfv")
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)
_CLASS: Final = re.compile(r"\[\^?\]?[^\]]*\]")
_REPEAT: Final = re.compile(r"\{([0-9]+)(?:,([0-9]*))?\}")
_OTHER_GROUP: Final = re.compile(r"\(\?(?!:|i\)|i:)")
_QUANTIFIER: Final = r"(?:[*+?]|\{[0-9]+(?:,[0-9]*)?\})"
# Possessive (a*+) and stacked (a{2}*) quantifiers; a lazy one (a*?) is fine.
_STACKED: Final = re.compile(rf"{_QUANTIFIER}(?:[*+]|\{{[0-9]|\?{_QUANTIFIER})")


def read_selector(value: object, *, namespace_label: str) -> tuple[LabelMatcher, ...]:
    """Read label matchers in PromQL form, with or without braces.

    Args:
        value: Such as ``job="vllm",cluster=~"a|b"``.
        namespace_label: The label that holds the namespace, which is always matched and may not be named here.

    Returns:
        The matchers, sorted and without duplicates, so that equal selectors make equal queries.

    Raises:
        PydanticCustomError: With the text that follows key and value in the problem's sentence.
    """
    text = str(value).strip()
    if len(text) > SELECTOR_LENGTH:
        raise detail(f"is longer than {SELECTOR_LENGTH} characters")
    matchers = [_checked(matcher, namespace_label) for matcher in _parsed(text)]
    if not matchers:
        raise detail(f"has no label matcher; write it like {EXAMPLE} or leave the key out")
    if len(matchers) > MATCHER_LIMIT:
        raise detail(f"has {len(matchers)} label matchers, and {MATCHER_LIMIT} are allowed")
    return tuple(sorted(set(matchers), key=lambda matcher: (matcher.label, matcher.operator, matcher.value)))


def _parsed(text: str) -> list[LabelMatcher]:
    body = text[1:-1] if text.startswith("{") and text.endswith("}") else text
    try:
        # A metric name outside the braces makes the parser refuse a second one inside, and the line break ends a
        # comment that would otherwise swallow our closing brace.
        selector = promql_parser.parse(f"probe{{{body}\n}}")
    except ValueError as error:
        raise detail(f"cannot be read as label matchers like {EXAMPLE}: {escaped(str(error))}") from error
    if not isinstance(selector, promql_parser.VectorSelector) or selector.matchers.or_matchers:
        raise detail(f"is more than label matchers; write it like {EXAMPLE}")
    return [LabelMatcher(item.name, _OPERATORS[str(item.op)], item.value) for item in selector.matchers.matchers]


def _checked(matcher: LabelMatcher, namespace_label: str) -> LabelMatcher:
    label = matcher.label
    if _LABEL.fullmatch(label) is None:
        raise detail(f"names the label {escaped(label)}, and a label is letters, digits and _")
    if label == namespace_label:
        raise detail(f"names the label {label}, which always is the ScaledObject's own namespace; leave it out")
    if label.startswith("__") or label == _BUCKET_LABEL:
        raise detail(f"names the label {escaped(label)}, which the queries themselves need; leave it out")
    if not matcher.value.isprintable():
        raise detail(f"has control characters in the value of {escaped(label)}")
    if matcher.operator in {"=~", "!~"} and (fault := _regex_fault(matcher.value)):
        raise detail(f"has a regular expression for {escaped(label)} that Prometheus may refuse: {fault}")
    return matcher


def _regex_fault(pattern: str) -> str | None:
    """Say why RE2 might not take ``pattern``, which Rust's engine has taken already; None when it will."""
    if odd := next((found[1] for found in _ESCAPE.finditer(pattern) if found[1] not in _RE2_ESCAPES), None):
        return f"the escape \\{odd}"
    plain = _CLASS.sub("x", _ESCAPE.sub("x", pattern))
    if _OTHER_GROUP.search(plain):
        return "a group other than (...), (?:...) and (?i)"
    if _STACKED.search(plain):
        return "a quantifier after a quantifier"
    repeats = (max(1, int(low), int(high or 0)) for low, high in _REPEAT.findall(plain))
    if math.prod(repeats) > _RE2_REPEAT_LIMIT:
        return f"more than {_RE2_REPEAT_LIMIT} repetitions"
    try:
        with warnings.catch_warnings():
            # Python warns of [[, --, && and || in a class, where engines differ.
            warnings.simplefilter("error")
            re.compile(pattern)
    except (re.error, FutureWarning) as error:
        return escaped(str(error))
    return None
