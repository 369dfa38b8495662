"""Which device to compute on."""

import torch

from beno.support.errors import BenoError

DEVICES = ("auto", "cpu", "cuda")


def choose_device(name: str) -> str:
    """The device of that name; "auto" is a GPU where there is one."""
    if name not in DEVICES:
        raise BenoError(f"there is no device {name!r}; there is {', '.join(DEVICES)}")
    if name == "cuda" and not torch.cuda.is_available():
        raise BenoError("the device cuda was asked for, but PyTorch sees no GPU here")
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    return name


def multiplies_in_half(device: torch.device) -> bool:
    """Whether the device gains by half precision: every GPU, and the CPUs that have instructions for it."""
    # Older releases of PyTorch do not tell.
    able: dict[str, bool] = getattr(torch.cpu, "get_capabilities", dict)()
    return device.type == "cuda" or bool(able.get("avx512_bf16") or able.get("amx_bf16"))
