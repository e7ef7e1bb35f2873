import os
from pathlib import Path

import pytest

from transduce.errors import BusyError
from transduce.training.run_folder import lock


def test_one_process_at_a_time_locks_a_folder_and_the_error_names_it(tmp_path: Path) -> None:
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


def test_a_lock_left_by_a_killed_process_is_ignored(tmp_path: Path) -> None:
    (tmp_path / "lock").write_text("process 1 on nowhere\n")
    with lock(tmp_path):
        assert (tmp_path / "lock").read_text().startswith(f"process {os.getpid()} ")
