"""Where a figure comes from: the commit, the machine, the versions and the time."""

import os
import platform
import subprocess
import sys
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

PACKAGES = ("numpy", "scipy", "h5py", "pyamg", "torch", "triton")


def provenance() -> dict[str, Any]:  # as JSON has it
    """The commit and what is changed since, the device, the versions of what figures depend on, and the date."""
    # A copy of the tree without its history is told which commit it is, unchanged.
    told = os.environ.get("BENO_COMMIT")
    return {
        "commit": told or _git("rev-parse", "HEAD"),
        "changed_since_commit": [] if told else _changed(),
        "device": {"cpu": _cpu(), "cores": os.cpu_count(), "gpu": _gpu()},
        "versions": {"python": platform.python_version()} | {name: _version(name) for name in PACKAGES},
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _changed() -> list[str]:
    """What a figure may depend on and the commit does not have, new files too."""
    lines = _git("status", "--porcelain", "--untracked-files=all", "--", ":/src", ":/benchmarks").splitlines()
    return [line.split(maxsplit=1)[1] for line in lines]


def _git(*words: str) -> str:
    """What git says of the checkout that this file is in; nothing if it is in none."""
    here = Path(__file__).resolve().parent
    try:
        return subprocess.run(["git", *words], cwd=here, capture_output=True, text=True, check=False).stdout.strip()
    except OSError:
        return ""


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _gpu() -> str | None:
    torch = sys.modules.get("torch")  # asked only where it is in use
    return torch.cuda.get_device_name() if torch and torch.cuda.is_available() else None


def _cpu() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor()
