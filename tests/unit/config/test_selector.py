import pytest
from pydantic_core import PydanticCustomError

from scaler.config.selector import read_selector
from scaler.model import LabelMatcher


@pytest.mark.parametrize(
    ("text", "matchers"),
    [
        ('job="vllm"', [("job", "=", "vllm")]),
        (' { job = "vllm" , } ', [("job", "=", "vllm")]),
        ("job='vllm'", [("job", "=", "vllm")]),
        ('b!="x",a!~"y|z"', [("a", "!~", "y|z"), ("b", "!=", "x")]),
        ('a="x",a="x"', [("a", "=", "x")]),
        ('a=~"x",a=~"y"', [("a", "=~", "x"), ("a", "=~", "y")]),
        (r'a="q\"uote\\"', [("a", "=", 'q"uote\\')]),
        ('a="}"', [("a", "=", "}")]),
        ('a=""', [("a", "=", "")]),
        (r'a=~"vllm-\\d+(-[a-z]{1,3})?.*?|(?i:X)"', [("a", "=~", r"vllm-\d+(-[a-z]{1,3})?.*?|(?i:X)")]),
        (r'a=~"[]*+]+|\\++"', [("a", "=~", r"[]*+]+|\++")]),
        ('engine="0",model_name=~"a.*"', [("engine", "=", "0"), ("model_name", "=~", "a.*")]),
    ],
)
def test_label_matchers_are_read_sorted_and_without_duplicates(text: str, matchers: list[tuple[str, str, str]]) -> None:
    assert read_selector(text, namespace_label="namespace") == tuple(LabelMatcher(*matcher) for matcher in matchers)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "has no label matcher"),
        ("{}", "has no label matcher"),
        ("{", "cannot be read as label matchers"),
        ("job", "cannot be read as label matchers"),
        ("job=vllm", "cannot be read as label matchers"),
        ('up{job="vllm"}', "cannot be read as label matchers"),
        ('job="vllm"[5m]', "cannot be read as label matchers"),
        ('job="vllm"} or {job="other"', "is more than label matchers"),
        ('job="vllm" or job="other"', "is more than label matchers"),
        ('job="vllm"} offset 5m + up{job="x"', "is more than label matchers"),
        ('job="vllm"} #', "cannot be read as label matchers"),
        ('__name__="up"', "cannot be read as label matchers"),
        ('"up"', "cannot be read as label matchers"),
        ('__address__="x"', "names the label __address__, which the queries themselves need"),
        ('le="1"', "names the label le, which the queries themselves need"),
        ('namespace=~".*"', "names the label namespace, which always is the ScaledObject's own namespace"),
        ('"my.label"="x"', "names the label my.label, and a label is letters, digits and _"),
        (r'a="x\ny"', "has control characters in the value of a"),
        (",".join(f'l{number}="x"' for number in range(17)), "has 17 label matchers, and 16 are allowed"),
        ('a="' + "x" * 1100 + '"', "is longer than 1024 characters"),
    ],
)
def test_anything_else_is_refused_with_the_reason(text: str, why: str) -> None:
    with pytest.raises(PydanticCustomError) as caught:
        read_selector(text, namespace_label="namespace")

    assert caught.value.message().startswith(why)


@pytest.mark.parametrize(
    "pattern",
    [
        "(",
        "[z-a]",
        "*",
        "a**",
        "a*+",
        "a++",
        "a{2}{3}",
        "a?*",
        "a*??",
        "(?=x)",
        "(?<!x)",
        "(?>x)",
        "(?P<n>x)",
        "(?x)a",
        r"\1",
        r"\Z",
        r"\pN",
        r"\Qx\E",
        "a{1001}",
        "(a{100}){100}",
        "[a&&b]",
        "[a--b]",
        "[[:alpha:]]",
        "a(?i)b",
        "(" * 300 + ")" * 300,
    ],
)
def test_a_regular_expression_that_re2_may_refuse_is_refused(pattern: str) -> None:
    text = 'a=~"' + pattern.replace("\\", "\\\\") + '"'

    with pytest.raises(PydanticCustomError) as caught:
        read_selector(text, namespace_label="namespace")

    assert "regular expression" in caught.value.message() or "illegal regex" in caught.value.message()
