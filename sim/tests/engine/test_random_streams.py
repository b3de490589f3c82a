"""Named streams: equal names give equal draws, and a new stream moves no other."""

from slurmtwin.engine.random_streams import RandomStreams


def draws(streams: RandomStreams, name: str, count: int = 2000) -> list[int]:
    stream = streams.uniform_ns(name, 0, 10**9)
    return [stream() for _ in range(count)]


def test_a_stream_depends_on_root_replication_and_name_alone() -> None:
    """Changing any of the three changes the draws; nothing else does."""
    base = draws(RandomStreams(1, 0), "launch")
    assert draws(RandomStreams(1, 0), "launch") == base
    assert draws(RandomStreams(2, 0), "launch") != base
    assert draws(RandomStreams(1, 1), "launch") != base
    assert draws(RandomStreams(1, 0), "epilog") != base


def test_drawing_from_one_stream_moves_no_other() -> None:
    """Interleaved draws equal separate ones."""
    streams = RandomStreams(5)
    one, two = streams.uniform_ns("one", 0, 10**9), streams.uniform_ns("two", 0, 10**9)
    mixed = [(one(), two()) for _ in range(100)]
    assert [a for a, _ in mixed] == draws(RandomStreams(5), "one", 100)
    assert [b for _, b in mixed] == draws(RandomStreams(5), "two", 100)


def test_an_empty_interval_always_gives_its_low_end() -> None:
    """low == high is a constant, not an error."""
    assert [RandomStreams(1).uniform_ns("x", 7, 7)() for _ in range(3)] == [7] * 3


def test_a_bootstrap_draws_only_measured_values() -> None:
    """choice_ns returns values of the list it was given."""
    stream = RandomStreams(1).choice_ns("x", [3, 5, 9])
    assert {stream() for _ in range(200)} == {3, 5, 9}


def test_the_size_of_a_block_does_not_show() -> None:
    """Many small draws from numpy's generator are the same numbers as one large one, narrow ranges and wide ones."""
    for span in (2, 20, 1000, 1 << 31, 1 << 33, 1 << 40):
        streams = RandomStreams(3)
        stream = streams.uniform_ns("x", 0, span)
        at_once = streams.generator("x").integers(0, span, 5000)
        assert [stream() for _ in range(5000)] == [int(x) for x in at_once]
