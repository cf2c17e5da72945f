import io
from collections.abc import Callable
from dataclasses import replace

import pytest
from rich.console import Console

from scaler.demo.record import Change
from scaler.demo.view import Frame, View, panel, plain_line
from scaler.model import Absent, Action, Decision, Reason, ReasonCode
from scaler.policy.decide import advance
from scaler.policy.history import History
from tests.builders import observation, policy


def decision(text: str = "8 replicas fit", **readings: object) -> Decision:
    seen = replace(observation(1, 40.0, 6), **readings)  # type: ignore[arg-type]  # names are given by the tests
    _, made = advance(policy(), History(), seen)
    reason = Reason(ReasonCode.NEED_ABOVE, text)
    return replace(made, action=Action.SCALE_UP, target=8, reasons=(reason,), limits=(), observation=seen)


def frame(**changes: object) -> Frame:
    usual = Frame(
        elapsed_s=42.3,
        duration_s=180.0,
        phase="burst",
        rate=19.0,
        running=49,
        waiting=12,
        slots=64,
        serving=6,
        starting=2,
        draining=1,
        requested=8,
        ttft_slo_s=1.0,
        decision=decision("in flight 61 > 0.9 x 8 slots x 6 replicas", ttft_p95_s=1.9, kv_usage_ratios=(0.3, 0.38)),
        polled_value=8.0,
        poll_error="",
        prometheus_up=True,
        changes=(Change(40.0, 6, 8, "burst", "in flight 61"),),
    )
    return replace(usual, **changes)  # type: ignore[arg-type]  # names are given by the tests


def drawn(shown: Frame, *, width: int = 140) -> str:
    console = Console(file=io.StringIO(), width=width, force_terminal=False)
    console.print(panel(shown))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_a_frame_is_one_plain_line() -> None:
    assert plain_line(frame()) == (
        "t=42s burst  in flight 61/64 waiting 12  ttft p95 1.90 s  kv 34%  replicas 6 serving, 8 requested, target 8"
        "  scale up: in flight 61 > 0.9 x 8 slots x 6 replicas"
    )


def test_what_is_not_known_is_said_and_never_zero() -> None:
    gone = decision(ttft_p95_s=Absent.MISSING, kv_usage_ratios=Absent.MISSING)
    idle = decision(ttft_p95_s=Absent.NO_TRAFFIC)

    assert "ttft p95 missing  kv missing" in plain_line(frame(decision=gone))
    assert "ttft p95 no traffic" in plain_line(frame(decision=idle))
    assert "target ?  not evaluated yet" in plain_line(frame(decision=None))


def test_an_outage_and_an_error_are_in_the_line() -> None:
    line = plain_line(frame(prometheus_up=False, poll_error="UNAVAILABLE: no data"))

    assert "PROMETHEUS DOWN" in line
    assert line.endswith("KEDA gets UNAVAILABLE: no data")


@pytest.mark.parametrize(
    "text",
    [
        "burst   0:42 of 3:00",
        "19.0 requests a second",
        "61 of 64 slots, 12 waiting",
        "1.90 s  objective 1 s",
        "34%",
        "■■■■■■□□▫ 6 serving, 2 starting, 1 draining, 8 requested, target 8",
        "scale up: in flight 61 > 0.9 x 8 slots x 6 replicas",
        "was told 8  (here every 2 s; in a cluster KEDA polls every 30 s and the HPA looks every 15 s)",
        "0:40 burst     6 -> 8   in flight 61",
        "Ctrl-C stops everything",
    ],
)
def test_the_panel_shows(text: str) -> None:
    assert text in drawn(frame())


def test_a_long_change_is_cut_and_a_long_decision_is_not() -> None:
    long = "cause " * 40 + "end"

    shown = drawn(
        frame(changes=(Change(1.0, 2, 3, "rise", long),), decision=decision("cause " * 40 + "whole")), width=100
    )

    assert "…" in shown
    assert "end" not in shown.partition("changes")[2]
    assert "whole" in shown


def test_the_panel_keeps_the_five_newest_changes() -> None:
    changes = tuple(Change(float(at), at, at + 1, "rise", f"cause {at}.") for at in range(10, 17))

    shown = drawn(frame(changes=changes))

    assert [at for at in range(10, 17) if f"cause {at}." in shown] == [12, 13, 14, 15, 16]


@pytest.mark.parametrize(
    "changes",
    [
        {"decision": None, "polled_value": None},
        {"slots": 0, "serving": 0, "changes": ()},
        {"running": 500, "waiting": 0},
        {"prometheus_up": False, "poll_error": "UNAVAILABLE: " + "x" * 900},
    ],
)
def test_the_panel_can_be_drawn_whatever_happens_and_however_narrow(changes: dict[str, object]) -> None:
    assert drawn(frame(**changes))
    assert drawn(frame(**changes), width=20)


@pytest.fixture
def lines() -> tuple[Console, Callable[[], list[str]]]:
    file = io.StringIO()
    return Console(file=file, width=80, force_terminal=False), lambda: file.getvalue().splitlines()


def test_without_a_terminal_a_line_comes_at_each_change_or_after_two_seconds(
    lines: tuple[Console, Callable[[], list[str]]],
) -> None:
    console, seen = lines
    with View(console) as view:
        view.show(frame(elapsed_s=1.0))
        view.show(frame(elapsed_s=1.25))
        view.show(frame(elapsed_s=1.5, requested=9))
        view.show(frame(elapsed_s=3.25, requested=9))
        view.show(frame(elapsed_s=3.5, requested=9))

    assert [line.split()[0] for line in seen()] == ["t=1s", "t=2s", "t=4s"]
    assert len(seen()[0]) > 80, "lines are not wrapped"


def test_on_a_terminal_the_panel_is_drawn_over_and_the_last_one_stays() -> None:
    file = io.StringIO()
    with View(Console(file=file, width=120, force_terminal=True)) as view:
        view.show(frame())
        view.show(frame(requested=9))

    assert "9 requested" in file.getvalue()
    assert "\x1b[?25h" in file.getvalue(), "the cursor is shown again"
