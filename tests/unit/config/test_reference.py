import re
from pathlib import Path

import pytest
import yaml
from pydantic.fields import FieldInfo

from scaler.config import metadata, reference, server
from scaler.config.presets import PRESETS
from scaler.config.sources import load_settings, read_settings_file
from scaler.config.trigger import parse_trigger

HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
LINK = re.compile(r"\]\(#([^)]+)\)")
DOCS = Path(__file__).parents[3] / reference.FOLDER

TRIGGER_EXAMPLES = [(key, example) for key, field in metadata.FIELDS.items() for example in field.examples or ()]
SETTINGS_EXAMPLES = [(key, example) for key, field in server.FLAGS.items() for example in field.examples or ()]
BESIDE = {
    "gpuMemory": {"gpuUtilization": "0.95"},
    "thresholdScaleDownRatio": {"waitingPerReplica": "4"},
    "maxHourlyCost": {"replicaHourlyCost": "2.5"},
    "activationSignal": {"minReplicas": "0", "modelName": "llama"},
}
"""What an example needs beside it."""
SETTINGS_BESIDE = {
    "tls_": {"tls_cert_file": "/a", "tls_key_file": "/b"},
    "prometheus_client_": {
        "prometheus_url": "https://a",
        "prometheus_client_cert_file": "/a",
        "prometheus_client_key_file": "/b",
    },
    "prometheus_ca_file": {"prometheus_url": "https://a"},
    "prometheus_basic_auth_": {"prometheus_basic_auth_user": "me", "prometheus_basic_auth_password_file": "/a"},
}
"""The same for a setting, by what its name begins with."""


@pytest.mark.parametrize("name", reference.PAGES)
def test_the_reference_page_is_what_the_code_says(name: str) -> None:
    assert (DOCS / name).read_text(encoding="utf-8") == reference.PAGES[name](), (
        "run `python -m scaler.config.reference`"
    )


def test_pages_are_written_into_a_folder_that_is_made(tmp_path: Path) -> None:
    reference.write_pages(tmp_path / "new")

    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == ["settings.md", "trigger-metadata.md"]


@pytest.mark.parametrize("fields", [metadata.FIELDS, server.FIELDS], ids=["trigger", "settings"])
def test_every_key_is_described_and_has_an_example(fields: dict[str, FieldInfo]) -> None:
    bare = [key for key, field in fields.items() if not field.description or not field.examples]

    assert bare == []


@pytest.mark.parametrize(("key", "example"), TRIGGER_EXAMPLES)
def test_every_example_of_a_trigger_key_works(key: str, example: str) -> None:
    needed = {"slotsPerReplica": "16"}
    if key not in {"statefulSet", "leaderWorkerSet"}:
        needed["deployment"] = "vllm"

    written = yaml.safe_load(f"{key}: '{example}'")

    metadata = {**needed, **BESIDE.get(key, {}), **written}
    parse_trigger(
        "serving",
        "vllm",
        metadata,
        tick_s=15.0,
        queries=["gateway_queue", "embedding_backlog"],
        backends=["default", "eu-1"],
    )


def test_the_trigger_at_the_top_of_the_page_works() -> None:
    page = (DOCS / "trigger-metadata.md").read_text(encoding="utf-8")
    (trigger,) = yaml.safe_load(page.split("```yaml")[1].split("```")[0])["triggers"]

    assert parse_trigger("serving", "vllm", trigger["metadata"], tick_s=15.0).warnings == ()


@pytest.mark.parametrize(("key", "example"), SETTINGS_EXAMPLES)
def test_every_example_of_a_setting_works(key: str, example: str) -> None:
    needed = next((values for start, values in SETTINGS_BESIDE.items() if key.startswith(start)), {})

    load_settings({}, {}, {**needed, **yaml.safe_load(f"{key}: '{example}'")})


@pytest.mark.parametrize("name", sorted(server.FILE_ONLY))
def test_the_example_of_a_setting_that_only_a_file_can_hold_works_as_a_file(tmp_path: Path, name: str) -> None:
    file = tmp_path / "settings.yaml"
    page = (DOCS / "settings.md").read_text(encoding="utf-8")
    file.write_text(page.split(f"### `{name}`")[1].split("```yaml")[1].split("```")[0])

    assert getattr(load_settings({}, {}, read_settings_file(file)).settings, name)


@pytest.mark.parametrize("name", PRESETS)
def test_the_page_lists_each_value_of_each_preset_with_its_reason(name: str) -> None:
    page = (DOCS / "trigger-metadata.md").read_text(encoding="utf-8")
    section = page.split(f"#### Preset `{name}`")[1].split("\n#")[0]

    for key, value in PRESETS[name].values.items():
        assert f"| [`{key}`](#{key.lower()}) | {value.text} | {value.why} |" in section


def test_the_links_of_the_pages_lead_to_one_heading_each() -> None:
    for page in reference.PAGES.values():
        text = page()
        headings = [
            re.sub(r"[^a-z0-9 _-]", "", line.lower()).strip().replace(" ", "-") for line in HEADING.findall(text)
        ]

        assert sorted(set(headings)) == sorted(headings)
        assert set(LINK.findall(text)) <= set(headings)
