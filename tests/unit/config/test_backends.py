"""Backends in the settings, and what a trigger may say of them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from scaler.config.server import ServerSettings
from scaler.config.sources import load_settings
from scaler.config.trigger import parse_trigger
from scaler.errors import ConfigError
from scaler.model import LabelMatcher

Problems = Callable[..., tuple[str, ...]]
URL = "https://mimir.example/prometheus"
REFUSED = (
    "is not allowed: the operator of the scaler chooses the Prometheus, not a trigger; give the name of one that is"
    " known: default, eu-1, us-1"
)


def settings(**file: Any) -> ServerSettings:
    return load_settings({}, {}, file).settings


def problems_of(**file: Any) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        load_settings({}, {}, file)
    return caught.value.problems


def of_eu(**keys: Any) -> tuple[str, ...]:
    return problems_of(backends={"eu": {"url": URL, **keys}})


def test_without_backends_there_is_the_default_alone() -> None:
    found = settings(prometheus_url="http://a:9090", query_timeout="5s", query_concurrency="8").every_backend()
    assert list(found) == ["default"]
    default = found["default"]
    assert (default.url, default.timeout, default.concurrency) == ("http://a:9090", 5.0, 8)
    assert (default.ca_file, default.headers, default.external) == (None, {}, ())


def test_the_default_has_the_settings_beside_its_url() -> None:
    default = settings(
        prometheus_url=URL,
        prometheus_ca_file="/ca",
        prometheus_client_cert_file="/crt",
        prometheus_client_key_file="/key",
        prometheus_bearer_token_file="/token",
        prometheus_headers={"X-Scope-OrgID": "serving"},
        prometheus_external_labels={"region": "eu", "cluster": "eu-1"},
    ).every_backend()["default"]
    assert (default.ca_file, default.client_cert_file, default.client_key_file) == tuple(
        map(Path, ("/ca", "/crt", "/key"))
    )
    assert (default.bearer_token_file, default.headers) == (Path("/token"), {"X-Scope-OrgID": "serving"})
    assert default.external == (LabelMatcher("cluster", "=", "eu-1"), LabelMatcher("region", "=", "eu"))


def test_flags_and_environment_set_up_the_default() -> None:
    loaded = load_settings(
        {"prometheus_url": URL, "prometheus_ca_file": "/ca"}, {"VLLM_SCALER_PROMETHEUS_BEARER_TOKEN_FILE": "/token"}, {}
    )
    default = loaded.settings.every_backend()["default"]
    assert (default.ca_file, default.bearer_token_file) == (Path("/ca"), Path("/token"))


def test_a_backend_has_the_defaults_limits_where_it_gives_none() -> None:
    found = settings(
        query_timeout="5s",
        max_response_bytes="1MiB",
        backends={"eu": {"url": URL}, "us": {"url": URL, "timeout": "2s", "concurrency": "9", "ca_file": ""}},
    ).every_backend()
    assert list(found) == ["default", "eu", "us"]
    limits = {name: (one.timeout, one.concurrency, one.max_response_bytes) for name, one in found.items()}
    assert (limits["eu"], limits["us"]) == ((5.0, 4, 1 << 20), (2.0, 9, 1 << 20))


@pytest.mark.parametrize(
    ("keys", "sentence"),
    [
        ({"url": ""}, "file key backends.eu.url is missing: give an http or https URL without a query"),
        ({"url": "ftp://a"}, 'file key backends.eu.url "ftp://a" is not an http or https URL'),
        ({"url": "https://me:HUSH@a"}, 'file key backends.eu.url "***@a" must not hold a user name or password'),
        ({"token_file": "/a"}, "file key backends.eu.token_file is not known: did you mean bearer_token_file?"),
        ({"concurrency": "0"}, 'file key backends.eu.concurrency "0" is not a whole number from 1 to 64'),
        ({"timeout": "20s"}, 'file key backends.eu.timeout "20s" must be at most evaluation_interval 15 s'),
        ({"client_cert_file": "/a"}, 'file key backends.eu.client_cert_file "/a" needs client_key_file beside it'),
        ({"client_key_file": "/a"}, 'file key backends.eu.client_key_file "/a" needs client_cert_file beside it'),
        ({"basic_auth_user": "a"}, 'basic_auth_user "a" needs basic_auth_password_file beside it'),
        ({"basic_auth_password_file": "/a"}, 'basic_auth_password_file "/a" needs basic_auth_user beside it'),
        (
            {"basic_auth_user": "a:b", "basic_auth_password_file": "/a"},
            'basic_auth_user "a:b" has a colon, which no user of basic auth may have',
        ),
        (
            {"basic_auth_user": "a", "basic_auth_password_file": "/a", "bearer_token_file": "/b"},
            "file key backends.eu.bearer_token_file and basic auth are given together: keep one",
        ),
        ({"url": "http://a", "ca_file": "/a"}, 'ca_file has no effect: file key backends.eu.url "http://a" is without'),
        ({"headers": "HUSH"}, "file key backends.eu.headers is not a mapping of header names to values"),
        ({"headers": {"A B": "HUSH"}}, 'file key backends.eu.headers: "A B" is not a header\'s name'),
        ({"headers": {"A": "HUSH\nB: c"}}, "headers: the value of A is not one line of 1 to 1024 ASCII characters"),
        ({"headers": {"A": "HUSH" * 300}}, "headers: the value of A is not one line of 1 to 1024 ASCII characters"),
        ({"headers": {"A": ["HUSH"]}}, "headers: the value of A is not one line of 1 to 1024 ASCII characters"),
        ({"headers": {"A": "HUSH", "a": "HUSH"}}, "file key backends.eu.headers: a is there twice"),
        ({"headers": {f"A{n}": "HUSH" for n in range(17)}}, "headers has 17 headers, and 16 are allowed"),
        ({"headers": {"authorization": "Bearer HUSH"}}, "authorization does not belong here: give bearer_token_file"),
        ({"headers": {"Host": "HUSH"}}, "file key backends.eu.headers: Host is set by the service itself"),
        ({"external_labels": ["a"]}, "external_labels is not a mapping of label names to values"),
        ({"external_labels": {"1a": "b"}}, 'external_labels: "1a" is not a Prometheus label name'),
        ({"external_labels": {"__name__": "b"}}, 'external_labels: "__name__" is not a Prometheus label name'),
        ({"external_labels": {"namespace": "b"}}, "external_labels: namespace is a label that the queries themselves"),
        ({"external_labels": {"le": "1"}}, "external_labels: le is a label that the queries themselves need"),
        ({"external_labels": {"a": ""}}, "external_labels: the value of a is not one line of text"),
        ({"external_labels": {f"a{n}": "b" for n in range(17)}}, "external_labels has 17 labels, and 16 are allowed"),
    ],
)
def test_each_mistake_has_its_sentence_and_no_secret(keys: dict[str, Any], sentence: str) -> None:
    (problem,) = of_eu(**keys)
    assert sentence in problem
    assert "HUSH" not in problem


@pytest.mark.parametrize(
    ("written", "sentence"),
    [
        ("https://a", "file key backends is not a mapping of names to backends"),
        ({"eu": URL}, "file key backends.eu is not a mapping: give it a url and whatever else it needs"),
        ({"EU_1": {"url": URL}}, 'file key backends: the name "EU_1" is not 1 to 63 lower-case letters, digits and -'),
        ({"default": {"url": URL}}, "file key backends: default is what prometheus_url and the settings beside it"),
        ({f"b{n}": {"url": URL} for n in range(33)}, "file key backends has 33 backends, and 32 are allowed"),
    ],
)
def test_each_mistake_about_backends_has_its_sentence(written: object, sentence: str) -> None:
    (problem,) = problems_of(backends=written)
    assert sentence in problem


def test_all_that_is_wrong_with_all_backends_is_said_at_once() -> None:
    found = problems_of(
        grpc_port="x",
        prometheus_bearer_token_file="/a",
        prometheus_basic_auth_user="me",
        backends={"eu": {"ca_file": "/a", "headers": {"Host": "a", "A B": "c"}}, "us": {"url": "x", "bearer": "y"}},
    )
    # Two of the default, the port, three of "eu" and its headers' second, two of "us".
    assert len(found) == 9
    assert sum("backends.eu" in problem for problem in found) == 4


def test_the_default_is_checked_like_the_others_in_its_own_words() -> None:
    assert problems_of(prometheus_ca_file="/a") == (
        "file key prometheus_ca_file has no effect: prometheus_url http://127.0.0.1:9090 (the default) is without TLS",
    )
    with pytest.raises(ConfigError, match=r'flag --prometheus-client-cert-file "/a" needs prometheus_client_key_file'):
        load_settings({"prometheus_client_cert_file": "/a", "prometheus_url": URL}, {}, {})


def test_headers_are_not_in_the_log_of_all_settings() -> None:
    found = settings(
        prometheus_headers={"X-Tenant": "HUSH"}, backends={"eu": {"url": URL, "headers": {"X-Other": "HUSH"}}}
    )
    shown = str(found.model_dump(mode="json"))
    assert "HUSH" not in shown
    assert "X-Tenant" in shown
    assert "X-Other" in shown


def test_a_named_query_that_cannot_be_narrowed_is_refused_where_a_backend_has_external_labels() -> None:
    queries = {"depth": 'jobs{a="1" or a="2"}'}
    backends = {"eu": {"url": URL, "external_labels": {"cluster": "eu"}}}
    (problem,) = problems_of(queries=queries, backends=backends)
    assert problem.startswith("named query 'depth' on backend eu: external labels cannot be added to it")
    assert settings(queries=queries, backends={"eu": {"url": URL}})


def parsed_backend(name: str | None) -> str:
    keys = {"deployment": "vllm", "slotsPerReplica": "16", **({} if name is None else {"prometheus": name})}
    known = ("default", "eu-1", "us-1")
    return parse_trigger("serving", "vllm", keys, tick_s=15.0, backends=known).policy.locator.backend


@pytest.mark.parametrize(("written", "backend"), [(None, "default"), ("default", "default"), (" eu-1 ", "eu-1")])
def test_a_trigger_names_its_backend(written: str | None, backend: str) -> None:
    assert parsed_backend(written) == backend


@pytest.mark.parametrize(
    ("written", "sentence"),
    [
        (
            "eu1",
            (
                'prometheus "eu1" is not known, and the operator of the scaler has named: default, eu-1, us-1;'
                " did you mean eu-1?"
            ),
        ),
        ("", 'prometheus "" is not known, and the operator of the scaler has named: default, eu-1, us-1'),
        (
            "http://prometheus:9090",
            f'prometheus "http://prometheus:9090" {REFUSED}',
        ),
        (
            "prometheus.monitoring:9090",
            f'prometheus "prometheus.monitoring:9090" {REFUSED}',
        ),
    ],
)
def test_a_trigger_that_names_another_gets_the_names_that_are_known(written: str, sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parsed_backend(written)
    assert caught.value.problems == (sentence,)
