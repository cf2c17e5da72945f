"""Queries that the operator names in the settings file, and triggers that ask for them."""

from collections.abc import Callable

import pytest
from pydantic import ValidationError

from scaler.config.server import ServerSettings
from scaler.config.sources import load_settings
from scaler.config.trigger import Trigger, parse_trigger
from scaler.errors import ConfigError

Parse = Callable[..., Trigger]
Problems = Callable[..., tuple[str, ...]]
KNOWN = "the operator of the scaler has named: embedding_backlog, gateway_queue"


@pytest.mark.parametrize("empty", [None, "", {}])
def test_without_queries_there_are_none(empty: object) -> None:
    assert load_settings({}, {}, {"queries": empty}).settings.queries == {}
    assert load_settings({}, {}, {}).settings.queries == {}


def test_queries_stand_in_the_settings_file_by_name() -> None:
    written = {"queries": {"gateway_queue": " sum by (namespace) (gateway_queue_size)\n", "q2": "up"}}

    settings = load_settings({}, {}, written).settings

    assert settings.queries == {"gateway_queue": "sum by (namespace) (gateway_queue_size)", "q2": "up"}


def test_the_log_of_settings_has_the_names_of_queries_alone() -> None:
    assert ServerSettings(queries={"b": "up", "a": "up"}).model_dump(mode="json")["queries"] == ["a", "b"]


def test_queries_given_in_code_are_checked_too() -> None:
    with pytest.raises(ValidationError, match="named query 'a' is not PromQL"):
        ServerSettings(queries={"a": "sum("})


@pytest.mark.parametrize(
    ("written", "problems"),
    [
        ("up", ['file key queries "up" is not a mapping of names to PromQL']),
        (["up"], ["file key queries \"['up']\" is not a mapping of names to PromQL"]),
        ({"a": ["up"]}, ["file key queries: named query 'a' is not text"]),
        (
            {"Gateway-Queue": "up"},
            [
                (
                    "file key queries: named query 'Gateway-Queue': a name is 1 to 63 of a-z, 0-9 and _, and begins"
                    " with a letter"
                )
            ],
        ),
        (
            {"a": "sum(", "b": "up[5m]"},
            [
                "file key queries: named query 'a' is not PromQL: unclosed left parenthesis",
                (
                    "file key queries: named query 'b' must give an instant vector, with a row for each pool, and not a"
                    " range vector"
                ),
            ],
        ),
        (
            {f"q{number}": "up" for number in range(101)},
            ["file key queries: there are 101 named queries: 100 are the most"],
        ),
    ],
)
def test_each_query_that_cannot_be_used_is_named_with_what_is_wrong(written: object, problems: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        load_settings({}, {}, {"queries": written})

    assert list(caught.value.problems) == problems


def test_bad_queries_are_reported_together_with_other_bad_settings() -> None:
    with pytest.raises(ConfigError) as caught:
        load_settings({"grpc_port": "x"}, {}, {"queries": {"a": "sum("}})

    assert len(caught.value.problems) == 2


def test_an_environment_variable_cannot_hold_queries_and_says_so() -> None:
    assert load_settings({}, {"VLLM_SCALER_QUERIES": "a: up"}, {}).warnings == (
        (
            "environment variable VLLM_SCALER_QUERIES is not known: queries stands in the settings file only; it is"
            " ignored"
        ),
    )


@pytest.mark.parametrize(
    ("keys", "sentence"),
    [
        (
            {"customQueries": "gateway_queu=20"},
            f'customQueries "gateway_queu=20" names gateway_queu, and {KNOWN}; did you mean gateway_queue?',
        ),
        ({"customQueries": "b=1,a=2"}, f'customQueries "b=1,a=2" names a, b, and {KNOWN}'),
        (
            {"customQueries": "gateway_queue"},
            (
                'customQueries "gateway_queue" must give gateway_queue a number from 0.001 to 1000000000, what one'
                ' replica carries, and not ""'
            ),
        ),
        (
            {"customQueries": "gateway_queue=0"},
            (
                'customQueries "gateway_queue=0" must give gateway_queue a number from 0.001 to 1000000000, what one'
                ' replica carries, and not "0"'
            ),
        ),
        (
            {"customQueries": "gateway_queue=1,gateway_queue=2"},
            'customQueries "gateway_queue=1,gateway_queue=2" names gateway_queue twice',
        ),
        (
            {"customQueries": "gateway_queue=1,"},
            'customQueries "gateway_queue=1," has no query\'s name in ""; write it like name=20,other=5',
        ),
        (
            {"customQueries": "sum(up)=1"},
            'customQueries "sum(up)=1" has no query\'s name in "sum(up)=1"; write it like name=20,other=5',
        ),
        (
            {"customQueries": ",".join(f"q{number}=1" for number in range(9))},
            (
                'customQueries "q0=1,q1=1,q2=1,q3=1,q4=1,q5=1,q6=1,q7=1,q8=1" is too long: 8 queries and 1024'
                " characters are allowed"
            ),
        ),
        (
            {"activationSignal": "query:gatewayqueue", "minReplicas": "0"},
            (f'activationSignal "query:gatewayqueue" names gatewayqueue, and {KNOWN}; did you mean gateway_queue?'),
        ),
        (
            {"activationSignal": "gateway_queue", "minReplicas": "0"},
            'activationSignal "gateway_queue" is not router, gateway or query:NAME',
        ),
    ],
)
def test_a_trigger_can_ask_only_for_queries_that_the_operator_has_named(
    problems: Problems, keys: dict[str, str], sentence: str
) -> None:
    assert problems(**keys) == (sentence,)


def test_where_no_query_is_named_the_error_says_so() -> None:
    metadata = {"deployment": "vllm", "slotsPerReplica": "16", "customQueries": "a=1"}

    with pytest.raises(ConfigError) as caught:
        parse_trigger("serving", "vllm", metadata, tick_s=15.0)

    assert caught.value.problems == ('customQueries "a=1" names a, and the operator of the scaler has named: none',)


def test_a_hundred_named_queries_do_not_make_a_long_error() -> None:
    metadata = {"deployment": "vllm", "slotsPerReplica": "16", "customQueries": "x=1"}
    queries = [f"query_{number:03}_{'a' * 50}" for number in range(100)]

    with pytest.raises(ConfigError) as caught:
        parse_trigger("serving", "vllm", metadata, tick_s=15.0, queries=queries)

    assert len(str(caught.value)) < 300
