"""What a computation needs of a device's memory, found out before it starts."""

from pathlib import Path

import torch

from beno.support.errors import BenoError

GIB = 2**30


def require_memory(needed: int, device: torch.device, what: str) -> None:
    """Refuse what does not fit in what is free now."""
    free = free_memory(device)
    if free is not None and needed > free:
        raise BenoError(f"{what} needs {needed / GIB:.2g} GiB of {device.type} memory; {free / GIB:.2g} are free")


def free_memory(device: torch.device) -> int | None:
    """In bytes; None where nobody tells."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return 1024 * int(line.split()[1])
    except (OSError, ValueError):
        pass
    return None
