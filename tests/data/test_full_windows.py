import numpy as np
import pytest

from transduce.data.windows import windows_in_order


@pytest.mark.parametrize(("length", "n_windows"), [(8, 1), (14, 1), (15, 2), (16, 2), (22, 3)])
def test_a_text_has_as_many_windows_as_are_full_with_the_token_after_them(
    length: int, n_windows: int
) -> None:
    """Windows of 7: the last one needs one token more, which it predicts."""
    ids = np.arange(length, dtype=np.int32)
    found = [row for batch in windows_in_order(ids, 7, 14) for row in batch.target_out.tolist()]
    assert found == [list(range(7 * i + 1, 7 * i + 8)) for i in range(n_windows)]
