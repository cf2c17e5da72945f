"""What a pool's rows mean: numbers, no traffic, or missing with a note that says why."""

import math
import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.errors import PrometheusTimeoutError
from scaler.model import Absent, PoolLocator, Workload, WorkloadKind
from scaler.promql import Sample
from tests.prometheus_rows import (
    BY_REASON,
    KV,
    LOCATOR,
    OLD_KV,
    POD_A,
    POD_B,
    POD_C,
    RUNNING,
    TTFT_COUNT,
    WAITING,
    count,
    counted,
    counts,
    engine,
    gauge,
    observe,
    scraped,
    signal,
)

MISSING, NO_TRAFFIC = Absent.MISSING, Absent.NO_TRAFFIC
THREE_PODS = [scraped(POD_A), scraped(POD_B), scraped(POD_C)]
SLOW = PrometheusTimeoutError("no answer in 10 s")


def has_note(notes: tuple[str, ...], *words: str) -> bool:
    return any(all(word in note for word in words) for note in notes)


class TestGauges:
    def test_engines_and_replicas_are_added_up(self) -> None:
        rows = [
            *engine(POD_A, "0", running=4, waiting=8, kv=0.25),
            *engine(POD_A, "1", running=4, waiting=8, kv=0.75),
            *engine(POD_B, "0", running=1, waiting=0, kv=0.125),
        ]
        seen = observe(replicas=rows, freshness=[scraped(POD_A), scraped(POD_B)])
        assert (seen.running, seen.waiting, seen.serving) == (9, 16, 2)
        # A replica is as full as its engines are on average; replicas are listed from the emptiest.
        assert seen.kv_usage_ratios == (0.125, 0.5)

    def test_requests_deferred_for_another_reason_than_capacity_do_not_wait_for_replicas(self) -> None:
        rows = [
            *engine(waiting=12),
            gauge(BY_REASON, 1, reason="deferred"),
            gauge(BY_REASON, 11, reason="capacity"),
        ]
        assert observe(replicas=rows, freshness=[scraped()]).waiting == 11

    def test_more_deferred_than_waiting_is_none_waiting(self) -> None:
        rows = [*engine(waiting=1), gauge(BY_REASON, 3, reason="deferred")]
        assert observe(replicas=rows, freshness=[scraped()]).waiting == 0

    def test_the_old_name_of_kv_usage_is_read_where_there_is_no_new_one(self) -> None:
        rows = [*engine(kv=None), gauge(OLD_KV, 0.5)]
        assert observe(replicas=rows, freshness=[scraped()]).kv_usage_ratios == (0.5,)

    def test_the_new_name_of_kv_usage_wins_where_both_are(self) -> None:
        rows = [*engine(kv=0.25), gauge(OLD_KV, 0.5)]
        assert observe(replicas=rows, freshness=[scraped()]).kv_usage_ratios == (0.25,)

    @pytest.mark.parametrize(("value", "clamped"), [(-0.3875, 0.0), (38.75, 1.0)])
    def test_kv_usage_out_of_range_is_clamped_and_said(self, value: float, clamped: float) -> None:
        seen = observe(replicas=engine(kv=value), freshness=[scraped()])
        assert seen.kv_usage_ratios == (clamped,)
        assert has_note(seen.notes, "clamped", f"{value:g}", POD_A)

    @pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
    def test_kv_usage_that_is_no_number_is_ignored_and_said(self, value: float) -> None:
        seen = observe(replicas=engine(kv=value), freshness=[scraped()])
        assert seen.kv_usage_ratios is MISSING
        assert has_note(seen.notes, KV, "unusable", f"{value:g}")

    @pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, -1.0])
    @pytest.mark.parametrize("first_tokens", [0, 9])
    def test_a_count_that_is_none_is_ignored_and_never_taken_for_idle(self, value: float, first_tokens: float) -> None:
        seen = observe(replicas=engine(running=value, first_tokens=first_tokens), freshness=[scraped()])
        assert (seen.running, seen.waiting) == (MISSING, 0)
        assert has_note(seen.notes, RUNNING, "unusable")

    def test_an_engine_that_never_worked_has_no_gauges_and_is_idle(self) -> None:
        rows = [
            *engine(POD_A, "0", running=None, waiting=None, kv=None, first_tokens=0),
            *engine(POD_A, "1", running=2, waiting=1, kv=0.5, first_tokens=0),
        ]
        seen = observe(replicas=rows, freshness=[scraped()])
        assert (seen.running, seen.waiting, seen.kv_usage_ratios) == (2, 1, (0.25,))

    def test_an_engine_that_has_worked_and_lost_its_gauge_makes_it_missing(self) -> None:
        rows = [*engine(POD_A, "0", running=None), *engine(POD_A, "1", running=2)]
        seen = observe(replicas=rows, freshness=[scraped()])
        assert (seen.running, seen.waiting) == (MISSING, 0)
        assert has_note(seen.notes, RUNNING, "only 0 of 1", "renamed")

    def test_replicas_that_do_not_report_are_taken_to_be_like_the_others(self) -> None:
        rows = [*engine(POD_A, running=4), *engine(POD_B, running=8), *engine(POD_C, running=None)]
        seen = observe(replicas=rows, freshness=THREE_PODS)
        assert seen.running == 18
        assert has_note(seen.notes, RUNNING, "2 of 3")

    def test_a_reading_that_less_than_half_of_the_replicas_report_is_missing(self) -> None:
        rows = [*engine(POD_A, running=4), *engine(POD_B, running=None), *engine(POD_C, running=None)]
        seen = observe(replicas=rows, freshness=THREE_PODS)
        assert (seen.running, seen.waiting) == (MISSING, 0)
        assert has_note(seen.notes, RUNNING, "only 1 of 3")

    def test_kv_usage_lists_only_the_replicas_that_report_it(self) -> None:
        rows = [*engine(POD_A, kv=0.5), *engine(POD_B, kv=0.25), *engine(POD_C, kv=None)]
        assert observe(replicas=rows, freshness=THREE_PODS).kv_usage_ratios == (0.25, 0.5)

    def test_a_sum_beyond_all_numbers_is_missing(self) -> None:
        rows = [*engine(POD_A, running=1.7e308), *engine(POD_B, running=1.7e308)]
        assert observe(replicas=rows, freshness=[scraped(POD_A), scraped(POD_B)]).running is MISSING

    def test_a_pod_scraped_twice_is_one_replica(self) -> None:
        rows = [*engine(running=4, instance="10.0.0.1:8000"), *engine(running=4, instance="vllm.serving:8000")]
        fresh = [scraped(instance="10.0.0.1:8000"), scraped(instance="vllm.serving:8000")]
        seen = observe(replicas=rows, freshness=fresh)
        assert (seen.running, seen.serving) == (4, 1)

    def test_replicas_without_a_pod_label_are_told_apart_by_their_address(self) -> None:
        rows = [
            *engine(running=1, pod="", instance="10.0.0.1:8000"),
            *engine(running=2, pod="", instance="10.0.0.2:8000"),
        ]
        fresh = [scraped("", instance="10.0.0.1:8000"), scraped("", instance="10.0.0.2:8000")]
        seen = observe(replicas=rows, freshness=fresh)
        assert (seen.running, seen.serving) == (3, 2)

    @given(st.randoms(use_true_random=False), st.lists(st.floats(allow_nan=True), max_size=4))
    def test_order_and_duplicates_change_nothing(self, shuffler: random.Random, odd: list[float]) -> None:
        rows = [
            *engine(POD_A, "0", running=4, waiting=0.1, kv=0.3),
            *engine(POD_A, "1", running=0.2, waiting=8, kv=-0.7),
            *engine(POD_B, "0", running=0.7, waiting=None, kv=0.1),
            *(gauge(RUNNING, value, POD_C) for value in odd),
        ]
        once = observe(replicas=rows, freshness=THREE_PODS, latency=[signal("ttft_p95", value) for value in odd])
        shuffled = [*rows, *rows[::2]]
        shuffler.shuffle(shuffled)
        again = observe(
            replicas=shuffled,
            freshness=[*THREE_PODS[::-1], scraped(POD_B)],
            latency=[signal("ttft_p95", value) for value in (*odd[::-1], *odd)],
        )
        assert again == once


class TestFreshness:
    def test_a_replica_whose_samples_stopped_does_not_count(self) -> None:
        rows = [*engine(POD_A, running=4), *engine(POD_B, running=20)]
        seen = observe(replicas=rows, freshness=[scraped(POD_A, 3), scraped(POD_B, 91)])
        assert (seen.running, seen.serving, seen.newest_sample_age_s) == (4, 1, 3)

    def test_the_age_at_which_a_replica_stops_counting_is_the_pools(self) -> None:
        patient = replace(LOCATOR, stale_after_s=120)
        assert observe(locator=patient, freshness=[scraped(POD_A, 120)]).serving == 1
        assert observe(locator=patient, freshness=[scraped(POD_A, 120.5)]).serving == 0

    def test_an_address_that_a_pod_had_before_its_restart_does_not_count(self) -> None:
        rows = [*engine(running=1, instance="new:8000"), *engine(running=20, instance="old:8000")]
        seen = observe(
            replicas=rows, freshness=[scraped(age_s=5, instance="new:8000"), scraped(age_s=200, instance="old:8000")]
        )
        assert (seen.running, seen.serving) == (1, 1)

    def test_replicas_that_all_went_stale_are_none_serving_and_their_age_is_said(self) -> None:
        seen = observe(replicas=engine(running=4), freshness=[scraped(age_s=200)])
        assert (seen.serving, seen.running, seen.kv_usage_ratios) == (0, MISSING, MISSING)
        assert seen.newest_sample_age_s == 200
        assert has_note(seen.notes, "1 replicas report", "3 min 20 s old")

    def test_nobody_reporting_is_none_serving_with_the_likely_causes(self) -> None:
        seen = observe(locator=replace(LOCATOR, model_name="llama"))
        assert (seen.serving, seen.running, seen.waiting, seen.kv_usage_ratios) == (0, MISSING, MISSING, MISSING)
        assert seen.newest_sample_age_s is MISSING
        assert has_note(
            seen.notes, "no vllm: series in namespace serving", "model llama", "deployment vllm", "--disable-log-stats"
        )

    def test_nobody_reporting_needs_no_explanation_where_no_replica_is_wanted(self) -> None:
        seen = observe(workload=[*counts(0, 0, 0, 0), counted()])
        assert (seen.serving, seen.requested, seen.notes) == (0, 0, ())

    def test_a_sample_from_the_future_is_fresh(self) -> None:
        seen = observe(freshness=[scraped(age_s=-2)])
        assert (seen.serving, seen.newest_sample_age_s) == (1, 0)

    def test_without_the_freshness_query_nothing_is_known_of_replicas(self) -> None:
        seen = observe(replicas=engine(running=4), freshness=SLOW)
        assert (seen.serving, seen.running) == (MISSING, MISSING)
        assert has_note(seen.notes, "no answer in 10 s")

    def test_without_the_replicas_query_the_serving_count_is_still_known(self) -> None:
        seen = observe(replicas=SLOW, freshness=[scraped()])
        assert (seen.serving, seen.running, seen.kv_usage_ratios) == (1, MISSING, MISSING)


class TestLatency:
    def test_what_happened_in_the_window_is_read(self) -> None:
        rows = [
            signal("ttft_p95", 0.48),
            signal("ttft_samples", 120.0),
            signal("generation_tokens", 5000.0),
            signal("preemptions", 2.0),
        ]
        seen = observe(latency=rows, freshness=[scraped()], replicas=engine())
        assert (seen.ttft_p95_s, seen.ttft_samples, seen.generation_tokens_per_s, seen.preemptions) == (
            0.48,
            120,
            5000,
            2,
        )

    def test_nan_without_first_tokens_is_no_traffic(self) -> None:
        seen = observe(latency=[signal("ttft_p95", math.nan), signal("ttft_samples", 0.0)])
        assert (seen.ttft_p95_s, seen.ttft_samples) == (NO_TRAFFIC, 0)

    def test_no_quantile_and_no_first_tokens_are_no_traffic_too(self) -> None:
        rows = [signal("ttft_samples", 0.0), signal("preemptions", 0.0), signal("generation_tokens", 0.0)]
        seen = observe(latency=rows)
        assert (seen.ttft_p95_s, seen.notes) == (
            NO_TRAFFIC,
            observe(latency=[*rows, signal("ttft_p95", math.nan)]).notes,
        )

    def test_no_quantile_in_spite_of_first_tokens_is_missing(self) -> None:
        assert observe(latency=[signal("ttft_samples", 7.0)]).ttft_p95_s is MISSING

    def test_nan_in_spite_of_first_tokens_is_a_broken_histogram(self) -> None:
        seen = observe(latency=[signal("ttft_p95", math.nan), signal("ttft_samples", 7.0)])
        assert (seen.ttft_p95_s, seen.ttft_samples) == (MISSING, 7)
        assert has_note(seen.notes, "buckets are incomplete")

    def test_nan_without_a_count_is_missing(self) -> None:
        assert observe(latency=[signal("ttft_p95", math.nan)]).ttft_p95_s is MISSING

    @pytest.mark.parametrize("value", [math.inf, -math.inf, -1.0])
    def test_a_quantile_that_is_no_time_is_missing(self, value: float) -> None:
        assert observe(latency=[signal("ttft_p95", value), signal("ttft_samples", 0.0)]).ttft_p95_s is MISSING

    def test_no_rates_at_all_of_replicas_that_report_means_too_few_scrapes(self) -> None:
        seen = observe(freshness=[scraped()], replicas=engine())
        assert (seen.ttft_p95_s, seen.preemptions) == (MISSING, MISSING)
        assert has_note(seen.notes, "fewer than two scrapes within the rate window of 1 min", "every 30 s")

    def test_one_rate_that_is_not_there_among_others_was_renamed(self) -> None:
        rows = [signal("ttft_p95", 0.48), signal("ttft_samples", 120.0), signal("generation_tokens", 5000.0)]
        seen = observe(latency=rows)
        assert seen.preemptions is MISSING
        assert has_note(seen.notes, "vllm:num_preemptions_total", "renamed")

    def test_a_rate_that_is_no_number_is_missing_and_said(self) -> None:
        seen = observe(latency=[signal("generation_tokens", math.inf)])
        assert seen.generation_tokens_per_s is MISSING
        assert has_note(seen.notes, "vllm:generation_tokens_total", "inf")

    def test_a_failed_latency_query_leaves_the_load_as_it_is(self) -> None:
        seen = observe(replicas=engine(running=4), freshness=[scraped()], latency=SLOW)
        assert (seen.running, seen.ttft_p95_s, seen.ttft_samples) == (4, MISSING, MISSING)
        assert has_note(seen.notes, "latency", "no answer in 10 s")


class TestWorkload:
    def test_replica_counts_are_read(self) -> None:
        seen = observe(workload=[*counts(requested=5, ready=3, total=6, updated=4), counted()])
        assert (seen.requested, seen.ready, seen.outdated) == (5, 3, 2)

    def test_more_updated_than_total_is_none_outdated(self) -> None:
        assert observe(workload=[*counts(5, 3, total=3, updated=4), counted()]).outdated == 0

    def test_of_two_kube_state_metrics_the_one_scraped_last_counts(self) -> None:
        rows = [
            *counts(5, 5, 5, 5, instance="gone"),
            counted(200, instance="gone"),
            *counts(2, 1, 2, 2, instance="new"),
            counted(3, instance="new"),
        ]
        seen = observe(workload=rows)
        assert (seen.requested, seen.ready) == (2, 1)

    def test_counts_that_are_no_longer_scraped_are_missing(self) -> None:
        seen = observe(workload=[*counts(5, 3, 5, 5), counted(age_s=91)])
        assert (seen.requested, seen.ready, seen.outdated) == (MISSING, MISSING, MISSING)
        assert has_note(seen.notes, "1 min 31 s old", "kube-state-metrics")

    def test_no_counts_are_missing_with_the_likely_causes(self) -> None:
        seen = observe()
        assert (seen.requested, seen.ready, seen.outdated) == (MISSING, MISSING, MISSING)
        assert has_note(seen.notes, "kube_deployment_spec_replicas of deployment vllm in namespace serving")

    @pytest.mark.parametrize("value", [math.nan, math.inf, -1.0])
    def test_a_count_that_is_none_is_missing_and_said(self, value: float) -> None:
        seen = observe(workload=[*counts(value, 3, 5, 5), counted()])
        assert (seen.requested, seen.ready, seen.outdated) == (MISSING, 3, 0)
        assert has_note(seen.notes, "kube_deployment_spec_replicas")

    def test_an_unknown_count_of_updated_replicas_leaves_the_others(self) -> None:
        rows = [row for row in counts(5, 3, 5, 5) if not row.labels["__name__"].endswith("updated")]
        seen = observe(workload=[*rows, counted()])
        assert (seen.requested, seen.outdated) == (5, MISSING)

    def test_a_failed_workload_query_leaves_the_load_as_it_is(self) -> None:
        seen = observe(replicas=engine(running=4), freshness=[scraped()], workload=SLOW)
        assert (seen.running, seen.requested) == (4, MISSING)

    def test_a_pool_without_a_workload_has_no_counts_and_no_note_about_them(self) -> None:
        by_model = PoolLocator("serving", "llama", None)
        rows = engine(running=4, model_name="llama")
        latency = [
            signal(name, 1.0, model_name="llama")
            for name in ("ttft_p95", "ttft_samples", "generation_tokens", "preemptions")
        ]
        seen = observe(locator=by_model, replicas=rows, freshness=[scraped(model_name="llama")], latency=latency)
        assert (seen.running, seen.requested, seen.notes) == (4, MISSING, ())

    @pytest.mark.parametrize(
        ("kind", "label", "metrics"),
        [
            (
                WorkloadKind.STATEFUL_SET,
                "statefulset",
                (
                    "kube_statefulset_replicas",
                    "kube_statefulset_status_replicas_ready",
                    "kube_statefulset_status_replicas",
                    "kube_statefulset_status_replicas_updated",
                ),
            ),
            (
                WorkloadKind.LEADER_WORKER_SET,
                "leaderworkerset",
                (
                    "kube_leaderworkerset_spec_replicas",
                    "kube_leaderworkerset_status_ready_replicas",
                    "kube_leaderworkerset_status_replicas",
                    "kube_leaderworkerset_status_updated_replicas",
                ),
            ),
        ],
    )
    def test_other_kinds_of_workload_have_their_own_series(
        self, kind: WorkloadKind, label: str, metrics: tuple[str, ...]
    ) -> None:
        common = {"namespace": "serving", label: "vllm", "instance": "ksm-0"}
        rows = [
            Sample({**common, "__name__": metric}, value, 0)
            for metric, value in zip(metrics, (5, 3, 6, 4), strict=True)
        ]
        when = Sample({**common, "signal": "sample_time"}, counted().value, 0)
        seen = observe(locator=PoolLocator("serving", None, Workload(kind, "vllm")), workload=[*rows, when])
        assert (seen.requested, seen.ready, seen.outdated) == (5, 3, 2)


class TestWhateverComes:
    metrics = st.sampled_from([RUNNING, WAITING, BY_REASON, KV, OLD_KV, TTFT_COUNT, "kube_deployment_spec_replicas"])
    labels = st.dictionaries(
        st.sampled_from(["namespace", "workload", "pod", "instance", "engine", "reason", "signal", "deployment"]),
        st.one_of(st.text(max_size=5), st.sampled_from(["serving", "vllm", POD_A, "deferred", "sample_time"])),
    )
    samples = st.builds(
        lambda labels, metric, value: Sample({"namespace": "serving", "__name__": metric, **labels}, value, 0.0),
        labels,
        metrics,
        st.floats(),
    )
    ours = st.one_of(
        st.builds(gauge, metrics, st.floats(), st.sampled_from([POD_A, POD_B]), st.sampled_from(["0", "1"])),
        st.builds(scraped, st.sampled_from([POD_A, POD_B]), st.floats()),
        st.builds(signal, st.sampled_from(["ttft_p95", "ttft_samples", "generation_tokens"]), st.floats()),
        st.builds(count, metrics, st.floats()),
        st.builds(counted, st.floats()),
    )
    rows = st.lists(st.one_of(samples, ours), max_size=30)

    @given(rows, rows, rows, rows)
    def test_no_answer_makes_anything_but_sound_readings(
        self, replicas: list[Sample], freshness: list[Sample], latency: list[Sample], workload: list[Sample]
    ) -> None:
        seen = observe(replicas=replicas, freshness=freshness, latency=latency, workload=workload)
        for reading in (
            seen.running,
            seen.waiting,
            seen.ttft_p95_s,
            seen.ttft_samples,
            seen.generation_tokens_per_s,
            seen.preemptions,
            seen.serving,
            seen.requested,
            seen.ready,
            seen.outdated,
            seen.newest_sample_age_s,
        ):
            assert isinstance(reading, Absent) or (math.isfinite(reading) and reading >= 0)
        if not isinstance(seen.kv_usage_ratios, Absent):
            assert list(seen.kv_usage_ratios) == sorted(seen.kv_usage_ratios)
            assert all(0 <= usage <= 1 for usage in seen.kv_usage_ratios)
        assert len(seen.notes) <= 11
        assert all(len(note) <= 300 for note in seen.notes)

    def test_notes_are_bounded_however_long_the_names_are(self) -> None:
        long = PoolLocator("serving", "m" * 10_000, Workload(WorkloadKind.DEPLOYMENT, "d" * 40))
        seen = observe(locator=long, latency=PrometheusTimeoutError("x" * 10_000))
        assert seen.notes
        assert all(len(note) <= 300 for note in seen.notes)

    def test_queries_that_fail_for_one_cause_make_one_note(self) -> None:
        seen = observe(replicas=SLOW, freshness=SLOW, latency=SLOW, workload=SLOW)
        assert len(seen.notes) == 1
        assert seen.notes[0].startswith("no answer in 10 s: replica counts are missing, it is not known which replicas")
