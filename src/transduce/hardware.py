"""Properties of this machine: cores, device, precision of matrix products, memory allocation.

torch is imported inside the functions that need it, because CTranslate2 runs without torch.
"""

import ctypes
import os
import sys
from typing import TYPE_CHECKING

from transduce.errors import ConfigError

if TYPE_CHECKING:
    import torch

# Parameters of glibc's mallopt(3), numbered as in malloc.h.
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3


def count_cores() -> int:
    """Return the number of CPU cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def find_device() -> "torch.device":
    """Return the CUDA device of this local rank if there is CUDA, else the CPU.

    The CUDA path is implemented but not measured. Raise ConfigError if there are more local ranks
    than CUDA devices.
    """
    import torch

    if not torch.cuda.is_available():
        return torch.device("cpu")
    number = int(os.environ.get("LOCAL_RANK", "0"))
    if number >= torch.cuda.device_count():
        n_devices = torch.cuda.device_count()
        raise ConfigError(
            f"no CUDA device for process {number + 1} on this machine: {n_devices} available; "
            f"start at most {n_devices} processes here"
        )
    device = torch.device("cuda", number)
    torch.cuda.set_device(device)
    return device


def has_bfloat16(device: "torch.device") -> bool:
    """Return whether the device has instructions for matrix products in bfloat16.

    Emulated bfloat16 does not count: it is slower than float32.
    """
    import torch

    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    return torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()


def keep_freed_memory() -> None:
    """Make glibc keep large freed blocks instead of returning them to the operating system.

    Otherwise every training or search step maps its tensors again and pays a page fault per 4 KB.
    Does nothing without glibc.
    """
    if not sys.platform.startswith("linux"):
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(M_MMAP_THRESHOLD, 1 << 30)
        mallopt(M_TRIM_THRESHOLD, (1 << 31) - 1)
