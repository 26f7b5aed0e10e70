import threading

import pytest

from skillwright.core import Completion, ModelRefused, Purpose, Usage
from skillwright.models import Meter, metered

ASK = [{"role": "user", "content": "hi"}]


class Mind:
    identity = "mind"

    def __init__(self, clock, usage=None, error=None):
        self._clock = clock
        self._usage = usage
        self._error = error

    async def complete(self, messages, **settings):
        await self._clock.sleep(2)
        if self._error:
            raise self._error
        return Completion("ok", usage=self._usage)


async def test_calls_are_counted_by_their_purpose(clock):
    meter = Meter()
    usage = Usage(1, 10, 5, cost_usd=0.25)
    mind = metered(Mind(clock, usage), meter, clock=clock)
    assert mind.identity == "mind"
    await mind.complete(ASK, purpose=Purpose.ROLLOUT)
    await mind.complete(ASK, purpose=Purpose.ROLLOUT)
    await mind.complete(ASK, purpose=Purpose.MERGE)
    assert meter.usage(Purpose.ROLLOUT) == usage + usage
    assert meter.usage(Purpose.JUDGE) == Usage()
    snapshot = meter.snapshot()
    assert list(snapshot) == ["merge", "rollout", "total"]
    assert snapshot["rollout"] == {**(usage + usage).to_dict(), "seconds": 4.0}
    assert snapshot["total"]["cost_usd"] == pytest.approx(0.75)


async def test_a_failed_call_counts_its_attempts_and_its_time(clock):
    meter = Meter()
    error = ModelRefused("no")
    error.failed_calls = 4
    with pytest.raises(ModelRefused):
        await metered(Mind(clock, error=error), meter, clock=clock).complete(
            ASK, purpose=Purpose.RANK
        )
    assert meter.usage() == Usage(failed_calls=4)
    assert meter.snapshot()["rank"]["seconds"] == 2.0


def test_an_unknown_price_makes_the_sum_unknown():
    meter = Meter()
    meter.add(Purpose.JUDGE, Usage(1, cost_usd=0.5))
    meter.add(Purpose.USER, Usage(1, cost_usd=None))
    snapshot = meter.snapshot()
    assert snapshot["judge"]["cost_usd"] == 0.5
    assert snapshot["total"]["cost_usd"] is None


def test_threads_lose_no_count():
    meter = Meter()

    def count():
        for _ in range(500):
            meter.add(Purpose.USER, Usage(calls=1))

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert meter.usage().calls == 2000
