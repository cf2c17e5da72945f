import http.client
import json
import os
import socket
from pathlib import Path

import pytest

from scaler.demo.prometheus_process import PrometheusProcess, free_port
from scaler.errors import ScalerError
from tests.prometheus_server import StartPrometheus

CONFIG = "global: {scrape_interval: 1s}\n"


def retention(server_url: str) -> str:
    connection = http.client.HTTPConnection(server_url.removeprefix("http://"), timeout=5)
    try:
        connection.request("GET", "/api/v1/status/flags")
        flags: dict[str, str] = json.load(connection.getresponse())["data"]
    finally:
        connection.close()
    return flags["storage.tsdb.retention.time"]


def is_listening(url: str) -> bool:
    host, port = url.removeprefix("http://").split(":")
    with socket.socket() as probe:
        return probe.connect_ex((host, int(port))) == 0


def test_it_answers_with_the_flags_it_was_given_as_soon_as_start_returns(prometheus_server: StartPrometheus) -> None:
    server = prometheus_server(CONFIG, extra_args=["--storage.tsdb.retention.time=3h"])
    assert retention(server.url) == "3h"


def test_it_keeps_its_address_over_a_restart_and_over_a_crash(prometheus_server: StartPrometheus) -> None:
    server = prometheus_server(CONFIG)
    address = server.url

    server.restart()
    assert server.url == address
    assert is_listening(address)

    server.kill()
    assert not is_listening(address)
    server.start()
    assert server.url == address
    assert is_listening(address)


def test_two_of_them_run_side_by_side(prometheus_server: StartPrometheus) -> None:
    first, second = prometheus_server(CONFIG), prometheus_server(CONFIG)
    assert first.url != second.url
    assert is_listening(first.url)
    assert is_listening(second.url)


def test_leaving_the_with_block_ends_and_reaps_the_child(prometheus_bin: Path, tmp_path: Path) -> None:
    with PrometheusProcess(prometheus_bin, config=CONFIG, data_dir=tmp_path) as server:
        assert is_listening(server.url)
        assert server._process is not None
        pid = server._process.pid
    assert not is_listening(server.url)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)  # would find even a dead child that nobody has waited for


def test_settings_that_it_refuses_are_an_error_that_quotes_its_log(prometheus_bin: Path, tmp_path: Path) -> None:
    server = PrometheusProcess(prometheus_bin, config="global: {interval: 1s}\n", data_dir=tmp_path)
    with pytest.raises(ScalerError, match=r"ended with exit code 2 before it was ready[\s\S]*field interval not found"):
        server.start()


def test_a_port_that_another_has_is_an_error_even_if_the_other_is_a_prometheus_too(
    prometheus_server: StartPrometheus, prometheus_bin: Path, tmp_path: Path
) -> None:
    port = int(prometheus_server(CONFIG).url.rsplit(":", 1)[1])
    late = PrometheusProcess(prometheus_bin, config=CONFIG, data_dir=tmp_path / "late", port=port)
    with pytest.raises(ScalerError, match=f"port {port} on 127.0.0.1 cannot be used"):
        late.start()


def test_a_free_port_lost_between_choice_and_start_is_replaced_by_another(
    prometheus_bin: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as taker:
        taker.bind(("127.0.0.1", 0))
        taker.listen()
        lost: int = taker.getsockname()[1]
        choices = iter([lost])
        monkeypatch.setattr(
            "scaler.demo.prometheus_process.free_port", lambda wanted=0: next(choices, None) or free_port(wanted)
        )
        with PrometheusProcess(prometheus_bin, config=CONFIG, data_dir=tmp_path) as server:
            assert server.url != f"http://127.0.0.1:{lost}"
            assert is_listening(server.url)


def test_a_file_that_is_no_program_is_an_error_that_names_it(tmp_path: Path) -> None:
    server = PrometheusProcess(tmp_path / "nothing", config=CONFIG, data_dir=tmp_path)
    with pytest.raises(ScalerError, match=r"nothing could not be started: .*No such file"):
        server.start()
