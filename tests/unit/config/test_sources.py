from pathlib import Path
from typing import Any

import pytest

from scaler.config.sources import load_settings, read_settings_file
from scaler.errors import ConfigError

CREDENTIALS = (
    "must not hold a user name or password, which process lists and logs would show: give them by basic auth's"
    " settings, the password in a file"
)
LABEL = "a Prometheus label name (letters, digits and _; not starting with a digit or __)"
URL = "an http or https URL without a query, such as http://prometheus.monitoring:9090"


def problems_of(
    flags: dict[str, object] | None = None, env: dict[str, str] | None = None, file: dict[str, object] | None = None
) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        load_settings(flags or {}, env or {}, file or {})
    return caught.value.problems


@pytest.mark.parametrize(
    ("flag", "env", "file", "port"),
    [
        ("1", "2", "3", 1),
        (None, "2", "3", 2),
        (None, None, "3", 3),
        (None, None, None, 50051),
        ("", " ", "3", 3),
    ],
)
def test_flag_goes_before_environment_before_file_before_default(
    flag: str | None, env: str | None, file: str | None, port: int
) -> None:
    environment = {} if env is None else {"VLLM_SCALER_GRPC_PORT": env}

    loaded = load_settings({"grpc_port": flag}, environment, {"grpc_port": file})

    assert loaded.settings.grpc_port == port


def test_durations_and_sizes_may_have_units() -> None:
    settings = load_settings({"evaluation_interval": "1m"}, {}, {"max_response_bytes": "1MiB"}).settings

    assert (settings.evaluation_interval, settings.max_response_bytes) == (60.0, 1 << 20)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"flags": {"grpc_port": "x"}}, 'flag --grpc-port "x" is not a port number from 0 to 65535'),
        (
            {"env": {"VLLM_SCALER_GRPC_PORT": "65536"}},
            'environment variable VLLM_SCALER_GRPC_PORT "65536" is not a port number from 0 to 65535',
        ),
        ({"file": {"grpc_port": ["1"]}}, "file key grpc_port \"['1']\" is not a port number from 0 to 65535"),
        ({"file": {"grpcPort": "1"}}, 'file key "grpcPort" is not known: did you mean grpc_port?'),
        (
            {"file": {"scale_up_windows": "1"}},
            'file key "scale_up_windows" is not known',
        ),
        (
            {"flags": {"evaluation_interval": "500ms"}},
            'flag --evaluation-interval "500ms" is not a duration from 1 s to 5 min, such as 90 or 1m30s',
        ),
        (
            {"flags": {"query_timeout": "20s"}},
            'flag --query-timeout "20s" must be at most evaluation_interval 15 s (the default)',
        ),
        (
            {"flags": {"query_timeout": "20s"}, "env": {"VLLM_SCALER_EVALUATION_INTERVAL": "10"}},
            'flag --query-timeout "20s" must be at most environment variable VLLM_SCALER_EVALUATION_INTERVAL "10"',
        ),
        (
            {"flags": {"max_hold_age": "20s"}},
            'flag --max-hold-age "20s" must be at least twice evaluation_interval 15 s (the default)',
        ),
        (
            {"flags": {"first_answer_timeout": "3"}},
            'flag --first-answer-timeout "3" is not a duration from 0.1 s to 2.9 s, such as 90 or 1m30s',
        ),
        (
            {"flags": {"max_message_bytes": "64MB"}},
            'flag --max-message-bytes "64MB" is not a size from 64 KiB to 1 MiB, such as 64MiB',
        ),
        ({"flags": {"tls_cert_file": "/a"}}, 'flag --tls-cert-file "/a" needs tls_key_file beside it'),
        ({"flags": {"tls_key_file": "/a"}}, 'flag --tls-key-file "/a" needs tls_cert_file beside it'),
        ({"flags": {"tls_client_ca_file": "/a"}}, 'flag --tls-client-ca-file "/a" needs tls_cert_file beside it'),
        ({"flags": {"log_level": "loud"}}, 'flag --log-level "loud" is not debug, info, warning or error'),
        (
            {"flags": {"pod_label": "1pod"}},
            f'flag --pod-label "1pod" is not {LABEL}',
        ),
        (
            {"flags": {"grpc_host": "10.0.0.1:80"}},
            'flag --grpc-host "10.0.0.1:80" is not an IP address or host name, without a port, such as 0.0.0.0',
        ),
        ({"flags": {"prometheus_url": "prometheus:9090"}}, f'flag --prometheus-url "prometheus:9090" is not {URL}'),
        ({"flags": {"prometheus_url": "ftp://a"}}, f'flag --prometheus-url "ftp://a" is not {URL}'),
        ({"flags": {"prometheus_url": "http://a:99999"}}, f'flag --prometheus-url "http://a:99999" is not {URL}'),
        ({"flags": {"prometheus_url": "http://a/?q=1"}}, f'flag --prometheus-url "http://a/?q=1" is not {URL}'),
        ({"flags": {"prometheus_url": "http://[::"}}, f'flag --prometheus-url "http://[::" is not {URL}'),
        (
            {"flags": {"prometheus_url": "https://me:HUSH@prom/x"}},
            f'flag --prometheus-url "***@prom/x" {CREDENTIALS}',
        ),
        ({"flags": {"prometheus_url": "me:HU/SH@prom"}}, f'flag --prometheus-url "***@prom" is not {URL}'),
    ],
)
def test_each_mistake_has_its_sentence_with_the_source_in_it(given: dict[str, Any], sentence: str) -> None:
    assert problems_of(**given) == (sentence,)


def test_all_mistakes_of_all_sources_are_in_one_error() -> None:
    problems = problems_of({"grpc_port": "x"}, {"VLLM_SCALER_LOG_FORMAT": "xml"}, {"tls": "yes", "max_pools": "0"})

    assert problems == (
        'file key "tls" is not known',
        'flag --grpc-port "x" is not a port number from 0 to 65535',
        'file key max_pools "0" is not a whole number from 1 to 1000000',
        'environment variable VLLM_SCALER_LOG_FORMAT "xml" is not json or console',
    )


def test_an_unknown_environment_variable_is_ignored_with_a_warning() -> None:
    loaded = load_settings({}, {"VLLM_SCALER_GRPCPORT": "1", "VLLM_SCALER_CONFIG": "x", "PATH": "/bin"}, {})

    assert loaded.warnings == (
        'environment variable "VLLM_SCALER_GRPCPORT" is not known: did you mean VLLM_SCALER_GRPC_PORT?; it is ignored',
    )


def test_what_kubernetes_sets_for_a_service_of_our_name_is_neither_a_setting_nor_a_warning() -> None:
    links = {
        "VLLM_SCALER_SERVICE_HOST": "10.0.0.1",
        "VLLM_SCALER_SERVICE_PORT": "50051",
        "VLLM_SCALER_SERVICE_PORT_GRPC": "50051",
        "VLLM_SCALER_PORT": "tcp://10.0.0.1:50051",
        "VLLM_SCALER_PORT_50051_TCP": "tcp://10.0.0.1:50051",
        "VLLM_SCALER_PORT_50051_TCP_ADDR": "10.0.0.1",
        "VLLM_SCALER_GRPC_PORT": "tcp://10.0.0.2:50051",
        "VLLM_SCALER_HTTP_PORT": "tcp://10.0.0.3:8080",
    }

    loaded = load_settings({}, links, {})

    assert loaded.warnings == ()
    assert (loaded.settings.grpc_port, loaded.settings.http_port) == (50051, 8080)


@pytest.mark.parametrize(
    ("content", "values"),
    [
        ("grpc_port: 50052\ngrpc_host: '::'\n", {"grpc_port": "50052", "grpc_host": "::"}),
        ("log_level: no\n", {"log_level": "no"}),
        ("", {}),
        ("# nothing set\n", {}),
        ("grpc_port:\n", {"grpc_port": ""}),
    ],
)
def test_a_settings_file_is_read_as_text(tmp_path: Path, content: str, values: dict[str, str]) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text(content)

    assert read_settings_file(file) == values


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"- a\n", "is not a mapping: write one setting a line, such as grpc_port: 50051"),
        (b"hello", "is not a mapping: write one setting a line, such as grpc_port: 50051"),
        (b"a: 1\nb: [1\nc: 2\n", "is not YAML: line 3, column 2: did not find expected ',' or ']'"),
        (b"a: 1\n---\nb: 2\n", "has several documents: write one, without a line ---"),
        (b"a: 1\n\tb: 2\n", "is not YAML: line 2, column 1: found character '\\t' that cannot start any token"),
        (b"\xff\xfe\xff", "is not YAML"),
        (b"[" * 100_000, "is nested too deeply"),
        (b"#" * (2 << 20), "is larger than 1 MiB, so it is hardly a settings file"),
    ],
)
def test_a_settings_file_that_cannot_be_used_says_where_and_why(tmp_path: Path, content: bytes, why: str) -> None:
    file = tmp_path / "s.yaml"
    file.write_bytes(content)

    with pytest.raises(ConfigError) as caught:
        read_settings_file(file)

    (problem,) = caught.value.problems
    assert problem.startswith("settings file ")
    assert why.split(": did not", maxsplit=1)[0] in problem


def test_a_settings_file_that_is_not_there_says_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"settings file .* cannot be read: No such file or directory"):
        read_settings_file(tmp_path / "none.yaml")
