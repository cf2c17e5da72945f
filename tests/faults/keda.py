"""A KEDA that asks one service or several, as the real one does: in a loop, over one channel, without a deadline.

Its HPA sets what it hears at once.
"""

import asyncio
import math
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final, TypeVar

import grpc

from scaler.protos import externalscaler_pb2_grpc as pb_grpc
from tests.fakes import eventually
from tests.faults.fleet import Fleet
from tests.grpc_service import metrics_of

_T = TypeVar("_T")

PATIENCE_S: Final = 30.0
"""A machine that is busy takes several times as long as an idle one."""
_POLL_S: Final = 0.1
# Ticks are a second apart, and conditions look at all metrics.
_LOOK_S: Final = 0.02
# As grpc-go's, but quicker, so that a test need not wait for it: KEDA's grows to 2 min.
_OPTIONS: Final = (
    ("grpc.lb_policy_name", "round_robin"),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 500),
)


async def until(condition: Callable[[], bool]) -> None:
    """Wait until ``condition`` holds; fail when it does not in time."""
    await eventually(condition, PATIENCE_S, pause_s=_LOOK_S)


def side_by_side(scenarios: Mapping[str, Coroutine[Any, Any, _T]]) -> dict[str, Callable[[], _T]]:
    """Run scenarios, most of which are waiting, at the same time.

    Args:
        scenarios: What to run, by name.

    Returns:
        By name what gives the result of a scenario, or raises what it has raised.
    """

    async def run() -> dict[str, asyncio.Task[_T]]:
        tasks = {name: asyncio.create_task(scenario) for name, scenario in scenarios.items()}
        await asyncio.wait(tasks.values())
        return tasks

    return {name: task.result for name, task in asyncio.run(run()).items()}


@dataclass(frozen=True)
class Heard:
    """One answer.

    Args:
        at: When it came, in monotonic seconds.
        value: The replicas; None where the call was refused.
        why: The status and text of the refusal.
    """

    at: float
    value: float | None
    why: str = ""


@dataclass
class Keda:
    """What KEDA has heard about one fleet, in order."""

    channel: grpc.aio.Channel
    stub: Any
    fleet: Fleet
    heard: list[Heard] = field(default_factory=list)

    @property
    def value(self) -> float | None:
        """The newest answer; None where it was a refusal, or nothing was asked yet."""
        return self.heard[-1].value if self.heard else None

    def lowered(self) -> list[tuple[float, float]]:
        """Return each answer that was lower than the one before it, with that one; refusals change no replicas."""
        values = [one.value for one in self.heard if one.value is not None]
        return [(before, after) for before, after in pairwise(values) if after < before]

    def since(self, at: float) -> list[Heard]:
        """Return what was heard after an instant."""
        return [one for one in self.heard if one.at > at]

    async def hears(self, value: float) -> None:
        """Wait for an answer."""
        await until(lambda: self.value == value)

    async def hears_a_refusal(self, words: str = "") -> None:
        """Wait for a refusal that has these words."""
        await until(lambda: bool(self.heard) and self.heard[-1].value is None and words in self.heard[-1].why)

    async def ask(self) -> None:
        """Make the three calls of a poll, and note what came of them."""
        value, why = None, ""
        try:
            ref = self.fleet.ref()
            await self.stub.GetMetricSpec(ref)
            answer = await self.stub.GetMetrics(metrics_of(ref))
            await self.stub.IsActive(ref)
            value = answer.metricValues[0].metricValueFloat
            if self.fleet.is_followed:
                self.fleet.replicas = math.ceil(value)
        except grpc.aio.AioRpcError as error:
            why = f"{error.code().name}: {error.details()}"
        self.heard.append(Heard(time.monotonic(), value, why))

    async def _ask_on(self) -> None:
        while True:  # cancelled with the client
            await self.ask()
            await asyncio.sleep(_POLL_S)


@asynccontextmanager
async def keda(ports: Sequence[int], fleet: Fleet) -> AsyncIterator[Keda]:
    """Ask services on these ports of the loopback address in turn for a fleet, for as long as the context lasts."""
    target = "ipv4:" + ",".join(f"127.0.0.1:{port}" for port in ports)
    async with grpc.aio.insecure_channel(target, options=_OPTIONS) as channel:
        client = Keda(channel, pb_grpc.ExternalScalerStub(channel), fleet)
        asking = asyncio.create_task(client._ask_on())
        try:
            yield client
        finally:
            asking.cancel()
            with suppress(asyncio.CancelledError):
                await asking
