"""What this machine computes with: the device, and the precision of its matrix products."""

import os

import torch

from transduce.errors import ConfigError


def find_device() -> torch.device:
    """A CUDA device if there is one, each local rank its own; else the CPU. The road through CUDA is written, not measured."""
    if not torch.cuda.is_available():
        return torch.device("cpu")
    number = int(os.environ.get("LOCAL_RANK", "0"))
    if number >= torch.cuda.device_count():
        raise ConfigError(
            f"process {number + 1} on this machine wants a CUDA device of its own, and there are {torch.cuda.device_count()}: "
            "start no more processes than devices"
        )
    device = torch.device("cuda", number)
    torch.cuda.set_device(device)
    return device


def has_bfloat16(device: torch.device) -> bool:
    """Whether the device multiplies matrices in bfloat16 faster than in float32: by instructions of its own, not by imitation."""
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    return torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
