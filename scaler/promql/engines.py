"""Which series a serving engine exports, by name and label, over the releases that are supported."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class EngineSeries:
    """Names of one serving engine's series.

    Args:
        model_label: Label with the served model's name.
        engine_label: Label that tells the engines of one replica apart (data parallelism).
        not_an_engine: Matchers that keep out series of the same names from something else than an engine.
        running: Gauge of requests in the running list.
        waiting: Gauge of the waiting queue, with the deferred requests in it.
        waiting_by_reason: Gauge of the waiting queue by ``reason_label``.
        reason_label: Label with the reason.
        deferred_reason: The reason that more replicas do not help with.
        kv_usage: Gauges of KV-cache usage, 0 to 1; the newest name first.
        ttft: Histogram of time to first token; it is there from the start of an engine, which its gauges may not be.
        generation_tokens: Counter of tokens generated.
        preemptions: Counter of preempted requests.
        inter_token_latency: Histograms of the gap between tokens; the newest name first.
        queue_time: Histogram of the time in the queue, observed when a request ends.
        e2e_latency: Histogram of the time from a request to its end.
        rejections: Counter of requests that the engine's own limits on its queue refused.
        prompt_tokens: Counter of prompt tokens, whether computed or found in a cache.
        prompt_tokens_by_source: The same by ``source_label``.
        source_label: Label with where a prompt token came from.
        computed_source: The source that costs work.
    """

    model_label: str
    engine_label: str
    not_an_engine: tuple[str, ...]
    running: str
    waiting: str
    waiting_by_reason: str
    reason_label: str
    deferred_reason: str
    kv_usage: tuple[str, ...]
    ttft: str
    generation_tokens: str
    preemptions: str
    inter_token_latency: tuple[str, ...]
    queue_time: str
    e2e_latency: str
    rejections: str
    prompt_tokens: str
    prompt_tokens_by_source: str
    source_label: str
    computed_source: str

    @property
    def ttft_count(self) -> str:
        """Counter of first tokens."""
        return f"{self.ttft}_count"

    @property
    def ttft_bucket(self) -> str:
        """Buckets of the TTFT histogram."""
        return f"{self.ttft}_bucket"


VLLM: Final = EngineSeries(
    model_label="model_name",
    engine_label="engine",
    # The router of vLLM's production stack exports vllm:num_requests_running too: with `server`, without a model.
    not_an_engine=('model_name!=""', 'server=""'),
    running="vllm:num_requests_running",
    waiting="vllm:num_requests_waiting",
    waiting_by_reason="vllm:num_requests_waiting_by_reason",  # since 0.20
    reason_label="reason",
    deferred_reason="deferred",  # LoRA budget, remote KV, grammar compilation
    kv_usage=("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"),  # since 0.9.2; until 0.11
    ttft="vllm:time_to_first_token_seconds",
    generation_tokens="vllm:generation_tokens_total",
    preemptions="vllm:num_preemptions_total",
    # Since 0.10.2; until 0.14.
    inter_token_latency=("vllm:inter_token_latency_seconds", "vllm:time_per_output_token_seconds"),
    queue_time="vllm:request_queue_time_seconds",
    e2e_latency="vllm:e2e_request_latency_seconds",
    rejections="vllm:admission_rejections_total",  # since 0.32, without an engine label
    prompt_tokens="vllm:prompt_tokens_total",
    prompt_tokens_by_source="vllm:prompt_tokens_by_source_total",  # since 0.16
    source_label="source",
    computed_source="local_compute",
)
"""vLLM from 0.8.5 on."""
