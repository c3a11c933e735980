"""Test the pipeline in memory: the same engine, without AWS and without waiting."""

from piecework import TransientError
from piecework.testing import Piecework, failing, killed_in

from app import Text, count_words, word_count

ROWS = [Text(text="one two"), Text(text="three")]


async def test_each_text_is_counted(piecework: Piecework) -> None:
    run = await piecework.run(word_count, ROWS)

    assert run.results == {0: 2, 1: 1}
    assert run.join_value == 3


async def test_a_busy_service_is_called_again(piecework: Piecework) -> None:
    busy = failing("count_words", TransientError("busy"))

    run = await piecework.run(word_count, ROWS, faults=[busy])

    assert run.results == {0: 2, 1: 1}


async def test_a_killed_worker_loses_nothing(piecework: Piecework) -> None:
    run = await piecework.run(word_count, ROWS, faults=[killed_in("count_words")])

    assert run.results == {0: 2, 1: 1}


async def test_the_service_can_be_replaced(piecework: Piecework) -> None:
    fake = piecework.fake(count_words, 7)

    run = await piecework.run(word_count, ROWS)

    assert (run.join_value, fake.count) == (14, 2)
