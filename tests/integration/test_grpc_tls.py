"""TLS on the gRPC port: new certificates without a restart, and clients that must show theirs."""

from pathlib import Path

import grpc
import pytest

from scaler.protos import externalscaler_pb2_grpc as pb_grpc
from tests.certificates import Authority, authority
from tests.grpc_service import ref, serving


def trusting(ca: Authority, client: tuple[Path, Path] | None = None) -> grpc.ChannelCredentials:
    """A client's credentials: whom it trusts, and the certificate that it shows."""
    authorities = ca.certificate.read_bytes()
    if client is None:
        return grpc.ssl_channel_credentials(authorities)
    certificate, key = client
    return grpc.ssl_channel_credentials(authorities, key.read_bytes(), certificate.read_bytes())


async def is_answered(port: int, credentials: grpc.ChannelCredentials) -> bool:
    """Whether a new connection with these credentials is answered."""
    async with grpc.aio.secure_channel(f"localhost:{port}", credentials) as channel:
        try:
            await pb_grpc.ExternalScalerStub(channel).IsActive(ref(), timeout=5)
        except grpc.aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.UNAVAILABLE:
                raise
            return False
        return True


@pytest.fixture
def ca(tmp_path: Path) -> Authority:
    return authority(tmp_path / "ca")


async def test_calls_over_tls_are_answered(ca: Authority) -> None:
    certificate, key = ca.issue("server")
    async with serving(credentials=trusting(ca), tls_cert_file=certificate, tls_key_file=key) as served:
        assert (await served.stub.IsActive(ref())).result is True


async def test_plaintext_is_not_answered(ca: Authority) -> None:
    certificate, key = ca.issue("server")
    async with serving(tls_cert_file=certificate, tls_key_file=key) as served:
        code, _ = await served.refusal(served.stub.IsActive(ref(), timeout=5))
    assert code is grpc.StatusCode.UNAVAILABLE


async def test_a_renewed_certificate_is_shown_to_new_connections_and_old_ones_go_on(
    ca: Authority, tmp_path: Path
) -> None:
    certificate, key = ca.issue("server")
    other = authority(tmp_path / "other")
    async with serving(credentials=trusting(ca), tls_cert_file=certificate, tls_key_file=key) as served:
        await served.stub.IsActive(ref())
        assert not await is_answered(served.service.grpc_port, trusting(other))
        for new, mounted in zip(other.issue("server"), (certificate, key), strict=True):
            new.replace(mounted)
        assert await is_answered(served.service.grpc_port, trusting(other))
        assert not await is_answered(served.service.grpc_port, trusting(ca))
        assert await served.stub.IsActive(ref())


async def test_a_client_must_show_a_certificate_of_the_right_authority(ca: Authority, tmp_path: Path) -> None:
    certificate, key = ca.issue("server")
    clients = authority(tmp_path / "clients")
    own, foreign = clients.issue("keda"), ca.issue("stranger")
    async with serving(tls_cert_file=certificate, tls_key_file=key, tls_client_ca_file=clients.certificate) as served:
        port = served.service.grpc_port
        assert await is_answered(port, trusting(ca, own))
        assert not await is_answered(port, trusting(ca, foreign))
        assert not await is_answered(port, trusting(ca))
