from pathlib import Path

import pytest
from pydantic import ValidationError

from scaler.config.server import ServerSettings


def test_the_defaults_work_together() -> None:
    settings = ServerSettings()

    assert settings.prometheus_url == "http://127.0.0.1:9090"
    assert (settings.grpc_host, settings.grpc_port) == ("[::]", 50051)
    assert (settings.http_host, settings.http_port) == ("0.0.0.0", 8080)
    assert (settings.evaluation_interval, settings.query_timeout, settings.max_hold_age) == (15.0, 10.0, 600.0)
    assert settings.first_answer_timeout == 2.5
    assert settings.tls_cert_file is None
    assert (settings.log_level, settings.log_format) == ("info", "json")


def test_a_short_interval_shortens_the_query_timeout_that_nobody_set() -> None:
    assert ServerSettings(evaluation_interval=2).query_timeout == 2.0


@pytest.mark.parametrize(
    ("given", "grpc_host", "http_host"),
    [
        ("127.0.0.1", "127.0.0.1", "127.0.0.1"),
        ("::1", "[::1]", "::1"),
        ("[::1]", "[::1]", "::1"),
        ("localhost", "localhost", "localhost"),
    ],
)
def test_an_ipv6_address_may_be_written_with_or_without_brackets(given: str, grpc_host: str, http_host: str) -> None:
    settings = ServerSettings(grpc_host=given, http_host=given)

    assert (settings.grpc_host, settings.http_host) == (grpc_host, http_host)


def test_the_prometheus_url_may_have_a_path_and_loses_its_last_slash() -> None:
    assert ServerSettings(prometheus_url="https://mimir.example/prometheus/").prometheus_url == (
        "https://mimir.example/prometheus"
    )


def test_files_become_paths() -> None:
    settings = ServerSettings.model_validate({"tls_cert_file": "/tls/tls.crt", "tls_key_file": "/tls/tls.key"})

    assert settings.tls_cert_file == Path("/tls/tls.crt")


def test_settings_cannot_be_changed_afterwards() -> None:
    settings = ServerSettings()

    with pytest.raises(ValidationError):
        settings.grpc_port = 1  # type: ignore[misc]  # frozen is what this tests
