"""The devices and processes that a training runs on."""

import os

from lightning_fabric import Fabric

from beno.nn.device import choose_device


def make_fabric(device: str = "auto") -> Fabric:
    """One device, or as many processes as torchrun has started."""
    world = int(os.environ.get("WORLD_SIZE", "1"))
    nodes = world // int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    fabric = Fabric(
        accelerator=choose_device(device),
        devices=world // nodes,
        num_nodes=nodes,
        strategy="ddp" if world > 1 else "auto",
    )
    fabric.launch()
    return fabric
