from transduce.training.plan import format_duration


def test_a_unit_is_used_from_two_of_it_on() -> None:
    for unit, size in (("days", 86_400.0), ("hours", 3_600.0), ("minutes", 60.0)):
        assert format_duration(2 * size) == f"about 2 {unit}"
        assert unit not in format_duration(2 * size - 1)
    assert format_duration(119.0) == "about 119 seconds"
