"""Memory that training gives back and asks for again at every step."""

import ctypes
import sys

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # the names of glibc's malloc.h: M_TRIM_THRESHOLD, M_MMAP_THRESHOLD


def keep_freed_memory() -> None:
    """Tell glibc to keep large freed blocks for the next step instead of handing them back to the system.

    Otherwise every step maps its tensors afresh and pays a page fault for each 4 KB. Elsewhere than on glibc this does nothing.
    """
    if not sys.platform.startswith("linux"):
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(MMAP_THRESHOLD, 1 << 30)
        mallopt(TRIM_THRESHOLD, (1 << 31) - 1)
