"""Generate scaler/protos from protos/: ``make proto`` writes it in place, a test writes it aside and compares."""

import sys
from importlib.resources import files
from pathlib import Path

from grpc_tools import protoc

ROOT = Path(__file__).resolve().parent.parent


def generate(out: Path) -> None:
    """Write the Python code for every file in protos/.

    Args:
        out: The folder that is to hold scaler/protos/.

    Raises:
        SystemExit: The generator refused a file; it has printed why.
    """
    sources = sorted((ROOT / "protos").glob("*.proto"))
    code = protoc.main(
        [
            "protoc",
            # The generated imports follow this path: protos/x.proto becomes scaler.protos.x_pb2.
            f"-Iscaler/protos={ROOT / 'protos'}",
            f"-I{files('grpc_tools') / '_proto'}",
            f"--python_out={out}",
            f"--pyi_out={out}",
            f"--grpc_python_out={out}",
            *(f"scaler/protos/{source.name}" for source in sources),
        ]
    )
    if code != 0:
        sys.exit(f"protoc ended with exit code {code}; the lines above say which file and why")


if __name__ == "__main__":
    generate(ROOT)
