"""Presets: named sets of defaults, each for a kind of traffic, each value with its reason.

A preset sets nothing that only a measurement can tell, such as what one replica carries; where such a key belongs to
the kind of traffic, the preset asks for it. docs/reference/trigger-metadata.md shows all of this.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Final

from scaler.config.kinds import Kind, read_word
from scaler.config.problems import detail, nearest


@dataclass(frozen=True, slots=True)
class PresetValue:
    """One default of a preset: the value as a trigger would have it, and why it is this one."""

    text: str
    why: str


@dataclass(frozen=True, slots=True)
class Preset:
    """A named set of defaults.

    Args:
        purpose: What it is for, a sentence or two.
        values: Its defaults, by key.
        to_measure: Keys that belong to this kind of traffic and that only a measurement can fill, with the reason.
    """

    purpose: str
    values: Mapping[str, PresetValue]
    to_measure: Mapping[str, str] = field(default_factory=dict)

    @property
    def texts(self) -> dict[str, str]:
        """The values alone, by key."""
        return {key: value.text for key, value in self.values.items()}


PRESETS: Final[Mapping[str, Preset]] = {
    "chat": Preset(
        "People who wait for the first word: TTFT first. It keeps room for bursts, and is slow to give replicas up.",
        {
            "ttftP95Seconds": PresetValue(
                "1", "After about a second people notice that they wait. It is a bound of vLLM's histogram."
            ),
            "scaleUpSaturation": PresetValue(
                "0.85", "Leaves a part of the slots free, so that a burst is served at once and not queued."
            ),
            "scaleDownSaturation": PresetValue(
                "0.7", "Leaves a dead band, and the room that the scale-up value is there to keep."
            ),
            "latencyMinSaturation": PresetValue(
                "0.3",
                "With long answers a replica is slow to begin a new one well before half of its slots are in use.",
            ),
            "scaleDownWindows": PresetValue(
                "40",
                "10 min: conversations pause and go on, and a replica given up too soon is a cold start for someone.",
            ),
        },
    ),
    "batch": Preset(
        "Jobs that nobody waits for: cost first. Requests may queue, and a replica is added only for work that lasts.",
        {
            "ttftP95Seconds": PresetValue("off", "What counts is when the job is done, not when a request begins."),
            "scaleUpSaturation": PresetValue(
                "1.25", "A short queue keeps every slot busy; a longer one is work for another replica."
            ),
            "scaleDownSaturation": PresetValue(
                "1", "Fewer replicas will do as soon as their slots can hold everything, without room to spare."
            ),
            "scaleDownNoise": PresetValue("1", "A request too many waits a little, which does no harm here."),
            "kvCacheScaleUp": PresetValue(
                "0.95", "A full cache is well used; only preemptions cost, since what is preempted is computed again."
            ),
            "kvCacheScaleDown": PresetValue(
                "0.8", "Leaves a dead band, and room for the requests of one replica less."
            ),
            "scaleUpWindows": PresetValue("8", "2 min: work that is done sooner is not worth a cold start."),
            "scaleDownWindows": PresetValue(
                "12", "3 min: when a job ends, nothing follows that would need its replicas."
            ),
            "maxStepDown": PresetValue("2", "A large pool is given up in steps that do not take hours."),
        },
    ),
    "long-context": Preset(
        "Prompts of many thousand tokens: KV cache first. A replica's cache is full long before its slots are.",
        {
            "kvCacheScaleUp": PresetValue(
                "0.8", "One prompt takes a large part of a cache, so a fifth of it must be free for the next."
            ),
            "kvCacheScaleDown": PresetValue("0.6", "As far below the scale-up value as in the defaults."),
            "preemptionsPerSecond": PresetValue(
                "0.05", "Three a minute. Each throws away a prefill of many seconds, so even a few are too many."
            ),
            "ttftP95Seconds": PresetValue(
                "10",
                "Prefilling alone takes seconds, which more replicas do not shorten. It is a bound of the histogram.",
            ),
            "rateWindowSeconds": PresetValue(
                "120", "Long prompts mean few first tokens a minute, and a P95 needs at least 20 of them."
            ),
            "scaleDownWindows": PresetValue(
                "40", "10 min: one request lasts for minutes, so a lull of 5 min can be chance."
            ),
        },
    ),
    "prefill": Preset(
        "The prefill pool of a disaggregated deployment: waiting prompts, prompt tokens and TTFT.",
        {
            "waitingPerReplica": PresetValue(
                "4",
                "Prompts are computed one after the other: four of a quarter second are the second that TTFT may take.",
            ),
            "ttftP95Seconds": PresetValue(
                "1", "The first token is what this pool makes. It is a bound of vLLM's histogram."
            ),
            "kvCacheScaleUp": PresetValue(
                "off", "Caches hold prompts until the decode pool has fetched them: full ones tell of a slow transfer."
            ),
            "scaleDownNoise": PresetValue(
                "4", "A prompt is in flight for about a second, so what one scrape sees of them is a matter of luck."
            ),
        },
        to_measure={
            "promptTokensPerSecondPerReplica": "The pool's work is prompt tokens. How many a replica prefills a second"
            " depends on model and GPU by a factor of a hundred, so there is no default: measure it with"
            " `vllm bench serve` and long prompts, and give about nine tenths of it."
        },
    ),
    "decode": Preset(
        "The decode pool of a disaggregated deployment: KV cache, running requests and inter-token latency.",
        {
            "ttftP95Seconds": PresetValue(
                "off", "The first token comes from the prefill pool; the TTFT of the two pools' pods do not add up."
            ),
            "itlP95Seconds": PresetValue(
                "0.05", "20 tokens a second, faster than people read. It is a bound of vLLM's histogram."
            ),
            "kvCacheScaleUp": PresetValue(
                "0.85", "Caches fill further with each token; a preempted request has to go through prefill again."
            ),
            "kvCacheScaleDown": PresetValue("0.65", "As far below the scale-up value as in the defaults."),
            "scaleUpSaturation": PresetValue(
                "0.85", "A request that finds no free slot keeps its place in a prefill replica's cache meanwhile."
            ),
            "scaleDownSaturation": PresetValue(
                "0.7", "Leaves a dead band, and the room that the scale-up value is there to keep."
            ),
        },
    ),
}
"""Every preset by name, in the order of the reference page."""

_NAMES: Final = ", ".join(PRESETS)
PresetName = Annotated[str, Kind("one of a few words", f"one of {_NAMES}")]


def read_preset(value: object) -> str:
    """Read the name of a preset, in any case and trimmed.

    Raises:
        PydanticCustomError: There is none of that name; with the text that follows key and value in the problem's
            sentence.
    """
    name = read_word(value)
    if name not in PRESETS:
        meant = nearest(name, PRESETS)
        raise detail(f"is not known: did you mean {meant}?" if meant else f"is not known: there are {_NAMES}")
    return name
