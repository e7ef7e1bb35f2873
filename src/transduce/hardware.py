"""What this machine computes with: the device, the precision of its matrix products, its memory."""

import ctypes
import os
import sys

import torch

from transduce.errors import ConfigError

TRIM_THRESHOLD, MMAP_THRESHOLD = (
    -1,
    -3,
)  # the names of glibc's malloc.h: M_TRIM_THRESHOLD, M_MMAP_THRESHOLD


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


def keep_freed_memory() -> None:
    """Tell glibc to keep large freed blocks for the next time instead of handing them back to the system.

    Otherwise every step of a training or a search maps its tensors afresh and pays a page fault for each 4 KB. Elsewhere than on
    glibc this does nothing.
    """
    if not sys.platform.startswith("linux"):
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(MMAP_THRESHOLD, 1 << 30)
        mallopt(TRIM_THRESHOLD, (1 << 31) - 1)
