"""The gRPC server: its limits, health and reflection, and how it stops.

All limits are on the server's side, because KEDA sets none: no deadline, no keepalive, one connection for everything.
"""

import socket
from typing import Final

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from scaler.config.server import ServerSettings
from scaler.errors import StartError
from scaler.protos import externalscaler_pb2 as pb
from scaler.protos import externalscaler_pb2_grpc as pb_grpc
from scaler.service.servicer import ExternalScaler
from scaler.service.tls import Certificates, TlsFiles

SERVICE_NAME: Final[str] = pb.DESCRIPTOR.services_by_name["ExternalScaler"].full_name
HEALTH_NAMES: Final = ("", SERVICE_NAME, "liveness", "readiness")
"""What a probe may ask for; all say the same, since liveness and readiness differ only while starting and stopping."""
_PING_AFTER_MS: Final = 60_000
"""A connection that is quiet for a minute is pinged: the peer may be gone without a word."""
_PING_TIMEOUT_MS: Final = 20_000
_PING_PERMITTED_MS: Final = 10_000
"""Clients may ping every 10 s, the shortest that grpc-go allows them; more often is taken for an attack."""
_HANDSHAKE_TIMEOUT_MS: Final = 10_000
_MAX_METADATA_BYTES: Final = 16 * 1024
# gRPC's own limit, below which it cancels nothing.
_LEAST_PENDING: Final = 1000
"""Headers of a call; KEDA sends none of its own."""


class GrpcServer:
    """Serves the external scaler, health and reflection on one port.

    Args:
        settings: Address, limits and certificates.
        servicer: What answers KEDA.

    Raises:
        StartError: The address cannot be bound, or the certificates cannot be used.
    """

    def __init__(self, settings: ServerSettings, servicer: ExternalScaler) -> None:
        self._servicer = servicer
        self._health = health.aio.HealthServicer()  # type: ignore[attr-defined]  # the stub lacks it
        self._server = grpc.aio.server(options=_options(settings), maximum_concurrent_rpcs=settings.max_concurrent_rpcs)
        pb_grpc.add_ExternalScalerServicer_to_server(servicer, self._server)
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        reflection.enable_server_reflection((SERVICE_NAME, health.SERVICE_NAME, reflection.SERVICE_NAME), self._server)
        self.port = self._bind(settings)

    async def start(self) -> None:
        """Accept calls."""
        await self._server.start()
        for name in HEALTH_NAMES:
            await self._health.set(name, health_pb2.HealthCheckResponse.SERVING)

    async def stop(self, grace_s: float) -> None:
        """Report NOT_SERVING, end all streams, and give calls that are under way time to finish.

        Args:
            grace_s: How long they have.
        """
        await self._health.enter_graceful_shutdown()
        self._servicer.end_streams()
        await self._server.stop(grace_s)

    def _bind(self, settings: ServerSettings) -> int:
        host, port = settings.grpc_host, settings.grpc_port
        _check_free(host, port)
        address = f"{host}:{port}"
        credentials = _credentials(settings)
        try:
            if credentials is None:
                return self._server.add_insecure_port(address)
            return self._server.add_secure_port(address, credentials)
        except RuntimeError as error:
            raise StartError(_cannot_serve(host, port, "the address cannot be bound")) from error


def _options(settings: ServerSettings) -> list[tuple[str, int]]:
    """Return gRPC's own settings; milliseconds and bytes."""
    return [
        # A second process on the same port must fail, not share it.
        # By default calls that wait to be taken up are cancelled at random from a thousand on, and KEDA asks for all
        # pools at once when either of the two has started.
        ("grpc.server.max_pending_requests", max(_LEAST_PENDING, settings.max_concurrent_rpcs)),
        ("grpc.server.max_pending_requests_hard_limit", max(_LEAST_PENDING, settings.max_concurrent_rpcs)),
        ("grpc.so_reuseport", 0),
        # KEDA looks for new replicas of this service only when a connection ends.
        ("grpc.max_connection_age_ms", round(settings.max_connection_age * 1000)),
        ("grpc.max_connection_age_grace_ms", round(settings.max_connection_age_grace * 1000)),
        ("grpc.max_receive_message_length", settings.max_message_bytes),
        ("grpc.max_send_message_length", settings.max_message_bytes),
        ("grpc.max_metadata_size", _MAX_METADATA_BYTES),
        # Above the limit on calls: beyond it a client is refused, while beyond this one it would wait, KEDA for ever.
        ("grpc.max_concurrent_streams", 2 * settings.max_concurrent_rpcs),
        ("grpc.server_handshake_timeout_ms", _HANDSHAKE_TIMEOUT_MS),
        ("grpc.keepalive_time_ms", _PING_AFTER_MS),
        ("grpc.keepalive_timeout_ms", _PING_TIMEOUT_MS),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.min_recv_ping_interval_without_data_ms", _PING_PERMITTED_MS),
    ]


def _credentials(settings: ServerSettings) -> grpc.ServerCredentials | None:
    if settings.tls_cert_file is None or settings.tls_key_file is None:
        return None
    return Certificates(
        TlsFiles(settings.tls_cert_file, settings.tls_key_file, settings.tls_client_ca_file)
    ).credentials()


def _check_free(host: str, port: int) -> None:
    """Bind the address once with a plain socket: gRPC does not say why it cannot."""
    bare = host.strip("[]")
    is_ipv6 = ":" in bare
    if is_ipv6 and not socket.has_dualstack_ipv6():
        # Where there is no IPv6, gRPC takes the wildcard for that of IPv4.
        return
    family = socket.AF_INET6 if is_ipv6 else socket.AF_INET
    try:
        socket.create_server((bare, port), family=family, dualstack_ipv6=is_ipv6).close()
    except OSError as error:
        raise StartError(_cannot_serve(host, port, error.strerror or str(error))) from error


def _cannot_serve(host: str, port: int, why: str) -> str:
    return (
        f"cannot serve gRPC on {host} port {port}: {why}; set --grpc-host or --grpc-port to an address of this machine"
        " and a free port"
    )
