"""A complete client of Sotto: joins a room, asks one question, prints the thinking and then the answer, sentence by sentence.

    pip install livekit msgpack
    export LIVEKIT_URL=ws://localhost:7880 LIVEKIT_TOKEN=$(sotto token my-room anna)
    python ask.py "What is 12*7?"

The agent must be in that room (`sotto join my-room`). docs/clients.md lists all messages; one above 15,000 bytes would come as
a byte stream on the topic `envelope`, which this client leaves out.
"""

import asyncio
import os
import sys
import uuid

import msgpack
from livekit import rtc

ERROR, USER_MESSAGE, REASONING_STEP, ASSISTANT_SENTENCE = 1, 2, 5, 16


async def main(question: str) -> None:
    room, answered = rtc.Room(), asyncio.Event()

    @room.on("data_received")
    def received(packet: rtc.DataPacket) -> None:
        message = msgpack.unpackb(packet.data)
        body = message["body"]
        if message["type"] == REASONING_STEP:
            print(f"({body['stepIndex']}) {body['content']}")
        elif message["type"] == ASSISTANT_SENTENCE:  # Joined as they are, the texts are the answer.
            print(body["text"], end="", flush=True)
        elif message["type"] == ERROR:
            print(f"Error {body['code']}: {body['message']}", file=sys.stderr)
        if body.get("isFinal") or message["type"] == ERROR:
            answered.set()

    await room.connect(os.environ["LIVEKIT_URL"], os.environ["LIVEKIT_TOKEN"])
    body = {"id": str(uuid.uuid4()), "content": question}
    # stanzaId counts what we send; a blank conversation is the room's own.
    envelope = {"stanzaId": 1, "conversationId": "", "type": USER_MESSAGE, "meta": {}, "body": body}
    await room.local_participant.publish_data(msgpack.packb(envelope))
    await answered.wait()
    await room.disconnect()
    print(flush=True)
    os._exit(0)  # All is done, and livekit 1.2 may abort the process if Python shuts down in its usual way.


asyncio.run(main(" ".join(sys.argv[1:]) or "What is 12*7?"))
