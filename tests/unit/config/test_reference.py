from pathlib import Path

import pytest
import yaml
from pydantic.fields import FieldInfo

from scaler.config import metadata, reference, server
from scaler.config.sources import load_settings
from scaler.config.trigger import parse_trigger

DOCS = Path(__file__).parents[3] / reference.FOLDER

TRIGGER_EXAMPLES = [(key, example) for key, field in metadata.FIELDS.items() for example in field.examples or ()]
SETTINGS_EXAMPLES = [(key, example) for key, field in server.FIELDS.items() for example in field.examples or ()]


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

    parse_trigger("serving", "vllm", {**needed, **yaml.safe_load(f"{key}: '{example}'")}, tick_s=15.0)


def test_the_trigger_at_the_top_of_the_page_works() -> None:
    page = (DOCS / "trigger-metadata.md").read_text(encoding="utf-8")
    (trigger,) = yaml.safe_load(page.split("```yaml")[1].split("```")[0])["triggers"]

    assert parse_trigger("serving", "vllm", trigger["metadata"], tick_s=15.0).warnings == ()


@pytest.mark.parametrize(("key", "example"), SETTINGS_EXAMPLES)
def test_every_example_of_a_setting_works(key: str, example: str) -> None:
    files = {"tls_cert_file": "/a", "tls_key_file": "/b"} if key.startswith("tls_") else {}

    load_settings({}, {}, {**files, **yaml.safe_load(f"{key}: '{example}'")})
