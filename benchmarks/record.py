"""Where a benchmark leaves its figures: results/NAME.json, with all that is needed to run it again."""

import json
import os
import platform
import subprocess
import sys
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "results"
PACKAGES = ("numpy", "scipy", "h5py", "pyamg", "torch", "triton")


def record(name: str, config: dict[str, object], figures: dict[str, object], folder: Path = RESULTS) -> None:
    """``config`` holds every option of the run, the seed among them."""
    told = os.environ.get("BENO_COMMIT")
    entry = {
        "figures": figures,
        "config": config,
        # A copy of the tree without its history is told which commit it is, unchanged.
        "commit": told or _git("rev-parse", "HEAD"),
        "changed_since_commit": [] if told else _git("diff", "--name-only", "HEAD", "--", "src").split(),
        "device": {"cpu": _cpu(), "cores": os.cpu_count(), "gpu": _gpu()},
        "versions": {"python": platform.python_version()} | {name: _version(name) for name in PACKAGES},
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    path = folder / f"{name}.json"
    path.parent.mkdir(exist_ok=True, parents=True)
    path.write_text(json.dumps(entry, indent=2, default=str) + "\n")
    print(f"written to {path}")


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _gpu() -> str | None:
    torch = sys.modules.get("torch")  # asked only where the benchmark itself uses it
    return torch.cuda.get_device_name() if torch and torch.cuda.is_available() else None


def _cpu() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor()
