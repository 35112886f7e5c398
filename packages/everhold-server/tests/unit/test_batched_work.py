"""Work of concurrent requests that is done together."""

import asyncio
import threading

from everhold_server.tables import BatchedWork


def test_what_waits_meanwhile_is_done_together_and_each_gets_its_own_result():
    seen, go_on = [], threading.Event()

    def squares(numbers):
        seen.append(numbers)
        go_on.wait(60)
        return [number**2 for number in numbers]

    async def asked():
        work = BatchedWork(squares)
        first = asyncio.create_task(work.of(1))
        while not seen:
            await asyncio.sleep(0.001)
        later = [asyncio.create_task(work.of(number)) for number in (2, 3, 4)]
        await asyncio.sleep(0)
        later[1].cancel()
        go_on.set()
        return await first, await asyncio.gather(*later, return_exceptions=True)

    first, (two, cancelled, four) = asyncio.run(asked())
    assert seen == [[1], [2, 3, 4]]  # never the first with the others: it was begun before they came
    assert (first, two, four) == (1, 4, 16)
    assert isinstance(cancelled, asyncio.CancelledError)


def test_a_fault_reaches_all_that_shared_it_and_nobody_later():
    def fail(numbers):
        if 0 in numbers:
            raise ValueError("no zero")
        return numbers

    async def asked():
        work = BatchedWork(fail)
        both = await asyncio.gather(work.of(0), work.of(1), return_exceptions=True)
        return both, await work.of(2)

    both, later = asyncio.run(asked())
    assert [str(each) for each in both] == ["no zero", "no zero"]
    assert later == 2
