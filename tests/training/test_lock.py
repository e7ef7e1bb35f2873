import os
from pathlib import Path

import pytest

from transduce.errors import BusyError
from transduce.training.run_folder import lock


def test_a_folder_is_held_by_one_at_a_time_and_says_by_whom(tmp_path: Path) -> None:
    with (
        lock(tmp_path),
        pytest.raises(
            BusyError, match=rf"is in use by process {os.getpid()} on .*; wait until it ends"
        ),
        lock(tmp_path),
    ):
        pass
    with lock(tmp_path):
        pass


def test_the_lock_of_a_process_that_was_killed_does_not_count(tmp_path: Path) -> None:
    (tmp_path / "lock").write_text("process 1 on nowhere\n")
    with lock(tmp_path):
        assert (tmp_path / "lock").read_text().startswith(f"process {os.getpid()} ")
