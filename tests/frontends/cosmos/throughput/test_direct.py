"""A refusal for want of throughput in direct mode."""

from __future__ import annotations

from frontends.cosmos.direct.wire import CREATE, ITEM, LSN, SESSION, Direct, Reply, names
from frontends.cosmos.service import Service, in_memory
from frontends.cosmos.throughput.watch import Watch


@in_memory
def test_a_refusal_names_its_time(service: Service, watch: Watch) -> None:
    box = names(service.container(offer_throughput=400))
    direct = Direct(service.url)
    replies: list[Reply] = []
    while not replies or (replies[-1].status == 201 and len(replies) < 50):
        replies.append(direct(ITEM, CREATE, box, {"id": str(len(replies)), "pk": "a", "x": "x" * 20_000}, pk="a"))
    direct.close()
    last, reply = replies[-2:]
    assert (reply.status, reply.substatus, reply.tokens[0x0C] > 0) == (429, 3200, True)
    # Without a version, clients would ask the other replicas instead of waiting.
    assert (reply.tokens[LSN], reply.tokens[SESSION]) == (last.tokens[LSN], last.tokens[SESSION])
