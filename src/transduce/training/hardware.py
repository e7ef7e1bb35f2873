"""What this machine computes with: the device, and the precision of its matrix products."""

import os

import torch


def find_device() -> torch.device:
    """A CUDA device if there is one, each local rank its own; else the CPU. The road through CUDA is written, not measured."""
    if not torch.cuda.is_available():
        return torch.device("cpu")
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
    torch.cuda.set_device(device)
    return device


def has_bfloat16(device: torch.device) -> bool:
    """Whether the device multiplies matrices in bfloat16 faster than in float32: by instructions of its own, not by imitation."""
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    return torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
