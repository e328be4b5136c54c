"""A participant on LiveKit's own Python SDK (real libwebrtc), driven by JSON lines.

Every line on stdin is a command {"id": 1, "do": "join", ...}; every command is answered on stdout by
{"id": 1, "ok": ...} or {"id": 1, "error": "..."}. What happens by itself is told as {"event": "data", ...}.
It joins one room, speaks to nothing but that room, and ends with os._exit: the SDK may abort in its own teardown.
"""

import asyncio
import base64
import hashlib
import json
import os
import sys

import msgpack
import numpy as np
from livekit import rtc

FRAME_MS = 10


def tell(message):
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def dominant_hz(samples, rate):
    """The strongest frequency, between the bins of the transform by a parabola through the peak's neighbours."""
    spectrum = np.abs(np.fft.rfft(samples * np.hanning(len(samples)), 4 * len(samples)))
    peak = int(np.argmax(spectrum[1:-1])) + 1
    low, mid, high = np.log(spectrum[peak - 1 : peak + 2] + 1e-12)
    offset = 0.5 * (low - high) / (low - 2 * mid + high) if low - 2 * mid + high else 0.0
    return (peak + offset) * rate / (4 * len(samples))


def as_envelope(data):
    """An envelope of Sotto's protocol with the order of its keys, or None."""
    try:
        envelope = msgpack.unpackb(data)
    except Exception:  # whatever else travels in the room
        return None
    return {**envelope, "keys": list(envelope)} if isinstance(envelope, dict) else None


class Ear:
    """Listens to one remote audio track and keeps what it heard as frames of 10 ms."""

    def __init__(self, track, rate, channels):
        self.rate, self.channels = rate, channels
        self.frames = asyncio.Queue()
        self.stream = rtc.AudioStream(track, sample_rate=rate, num_channels=channels, frame_size_ms=FRAME_MS)
        self.task = asyncio.ensure_future(self.run())

    async def run(self):
        async for event in self.stream:
            samples = np.frombuffer(event.frame.data, dtype=np.int16).reshape(-1, self.channels)
            self.frames.put_nowait(samples.astype(np.float64) / 32768.0)

    async def measure(self, count, probe):
        """What the next `count` frames hold, the backlog thrown away first; `probe` are frequencies to look for."""
        while not self.frames.empty():
            self.frames.get_nowait()
        frames = [await self.frames.get() for _ in range(count)]
        sound = np.concatenate(frames)
        waves = np.exp(-2j * np.pi * np.outer(probe, np.arange(len(sound))) / self.rate)
        return {
            "channels": [
                {
                    "hz": float(dominant_hz(sound[:, c], self.rate)),
                    "level": float(np.sqrt(2 * np.mean(sound[:, c] ** 2))),
                    "probed": [float(2 * abs(value) / len(sound)) for value in waves @ sound[:, c]],
                    "frame_levels": [float(np.sqrt(2 * np.mean(frame[:, c] ** 2))) for frame in frames],
                }
                for c in range(self.channels)
            ]
        }


class Peer:
    def __init__(self):
        self.room = rtc.Room()
        self.tracks = {}
        self.ears = {}
        self.voices = {}
        self.tasks = set()
        self.types = []

    # --- what happens by itself ---

    def listen(self):
        room = self.room

        @room.on("data_received")
        def _(packet):
            tell({
                "event": "data",
                "from": packet.participant.identity if packet.participant else None,
                "topic": packet.topic,
                "payload": base64.b64encode(packet.data).decode(),
            })
            if (envelope := as_envelope(packet.data)) is not None:
                self.types.append(envelope.get("type"))
                tell({"event": "envelope", "envelope": envelope})

        @room.on("track_subscribed")
        def _(track, publication, participant):
            self.tracks[(participant.identity, publication.name)] = track
            tell({"event": "track_subscribed", "from": participant.identity, "name": publication.name,
                  "kind": "audio" if track.kind == rtc.TrackKind.KIND_AUDIO else "video"})

        @room.on("track_unsubscribed")
        def _(track, publication, participant):
            self.tracks.pop((participant.identity, publication.name), None)
            self.ears.pop((participant.identity, publication.name), None)
            tell({"event": "track_unsubscribed", "from": participant.identity, "name": publication.name})

        for name in ("track_muted", "track_unmuted"):
            room.on(name, lambda participant, publication, name=name: tell(
                {"event": name, "from": participant.identity, "name": publication.name}))
        for name in ("participant_connected", "participant_active", "participant_disconnected"):
            room.on(name, lambda participant, name=name: tell({"event": name, "from": participant.identity}))
        for name in ("reconnecting", "reconnected"):
            room.on(name, lambda name=name: tell({"event": name}))
        room.on("participant_attributes_changed", lambda changed, participant: tell(
            {"event": "attributes", "from": participant.identity, "changed": changed}))
        room.on("disconnected", lambda reason=None: tell({"event": "disconnected", "reason": str(reason)}))

        def on_stream(kind, topic):
            async def read(reader, sender):
                if kind == "text":
                    content = (await reader.read_all()).encode()
                else:
                    content = b"".join([chunk async for chunk in reader])
                tell({"event": "stream", "kind": kind, "from": sender, "topic": topic, "length": len(content),
                      "sha256": hashlib.sha256(content).hexdigest()})

            return lambda reader, sender: self.spawn(read(reader, sender))

        async def read_transcription(reader, sender):
            tell({"event": "transcription_begins", "from": sender, "attributes": reader.info.attributes})
            text = await reader.read_all()
            tell({"event": "transcription", "from": sender, "text": text, "attributes": reader.info.attributes})

        room.register_text_stream_handler("text", on_stream("text", "text"))
        for topic in ("bytes", "envelope"):
            room.register_byte_stream_handler(topic, on_stream("bytes", topic))
        room.register_text_stream_handler(
            "lk.transcription", lambda reader, sender: self.spawn(read_transcription(reader, sender)))

    def spawn(self, work):
        task = asyncio.ensure_future(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return task

    # --- commands ---

    async def do_join(self, url, token, single_peer_connection=None, auto_subscribe=True):
        self.listen()
        options = rtc.RoomOptions(auto_subscribe=auto_subscribe, single_peer_connection=single_peer_connection)
        await self.room.connect(url, token, options)
        return {"identity": self.room.local_participant.identity}

    async def do_send(self, payloads, topic="", reliable=True):
        for payload in payloads:
            await self.room.local_participant.publish_data(base64.b64decode(payload), topic=topic, reliable=reliable)

    async def do_send_envelope(self, stanza, kind, body):
        envelope = {"stanzaId": stanza, "conversationId": "", "type": kind, "meta": {}, "body": body}
        await self.room.local_participant.publish_data(msgpack.packb(envelope))

    async def do_envelope_types(self):
        """Which kinds of envelopes have come so far."""
        return self.types

    async def do_look(self, who):
        """How this participant sees another."""
        other = self.room.remote_participants[who]
        return {"name": other.name, "attributes": other.attributes,
                "is_agent": other.kind == rtc.ParticipantKind.PARTICIPANT_KIND_AGENT}

    async def do_send_text(self, text, topic):
        info = await self.room.local_participant.send_text(text, topic=topic)
        return {"id": info.stream_id}

    async def do_send_stream(self, kind, length, seed, topic=None):
        """A stream whose content both sides can compute: byte i is (i * 31 + seed) % 95 + 32, printable ASCII."""
        content = ((np.arange(length, dtype=np.int64) * 31 + seed) % 95 + 32).astype(np.uint8).tobytes()
        if kind == "text":
            await self.room.local_participant.send_text(content.decode(), topic=topic or "text")
        else:
            await self.room.local_participant.send_bytes(content, topic=topic or "bytes")
        return {"sha256": hashlib.sha256(content).hexdigest()}

    async def do_rpc_serve(self, method):
        async def upper(data):
            if data.payload == "fail":
                raise rtc.RpcError(1234, "asked to fail", "detail")
            return f"{data.caller_identity}:{data.payload.upper()}"

        self.room.local_participant.register_rpc_method(method, upper)

    async def do_rpc(self, to, method, payload):
        try:
            answer = await self.room.local_participant.perform_rpc(
                destination_identity=to, method=method, payload=payload)
            return {"answer": answer}
        except rtc.RpcError as error:
            return {"code": error.code, "message": error.message, "data": error.data}

    async def do_publish_tone(self, name, hz, level, rate=48000, channels=1, red=None, dtx=None):
        """One frequency per channel in `hz`."""
        source = rtc.AudioSource(rate, channels, queue_size_ms=100)
        track = rtc.LocalAudioTrack.create_audio_track(name, source)
        options = rtc.TrackPublishOptions(source=rtc.TrackSource.SOURCE_MICROPHONE)
        if red is not None:
            options.red = red
        if dtx is not None:
            options.dtx = dtx
        publication = await self.room.local_participant.publish_track(track, options)
        voice = {"sid": publication.sid, "track": track, "level": level}

        async def sing():
            count, start = rate * FRAME_MS // 1000, 0
            while True:
                time = (start + np.arange(count))[:, None] / rate
                frame = voice["level"] * 32767 * np.sin(2 * np.pi * time * np.array(hz)[None, :])
                await source.capture_frame(rtc.AudioFrame(frame.astype(np.int16).tobytes(), rate, channels, count))
                start += count

        voice["task"] = self.spawn(sing())
        self.voices[name] = voice
        return {"sid": publication.sid}

    async def do_set_level(self, name, level):
        self.voices[name]["level"] = level

    async def do_unpublish(self, name):
        voice = self.voices.pop(name)
        voice["task"].cancel()
        await self.room.local_participant.unpublish_track(voice["sid"])

    async def do_mute(self, name, muted):
        track = self.voices[name]["track"]
        track.mute() if muted else track.unmute()

    async def do_publish_video(self, name, width=320, height=240):
        source = rtc.VideoSource(width, height)
        track = rtc.LocalVideoTrack.create_video_track(name, source)
        publication = await self.room.local_participant.publish_track(
            track, rtc.TrackPublishOptions(source=rtc.TrackSource.SOURCE_CAMERA))

        async def film():
            shade = 0
            while True:
                shade = (shade + 8) % 256
                picture = bytes([shade, 128, 255 - shade, 255]) * (width * height)
                source.capture_frame(rtc.VideoFrame(width, height, rtc.VideoBufferType.RGBA, picture))
                await asyncio.sleep(1 / 15)

        self.voices[name] = {"sid": publication.sid, "track": track, "task": self.spawn(film())}
        return {"sid": publication.sid}

    async def do_hear(self, who, name, frames=50, rate=48000, channels=1, probe=()):
        key = (who, name)
        ear = self.ears.get(key)
        if ear is None or (ear.rate, ear.channels) != (rate, channels):
            ear = self.ears[key] = Ear(self.tracks[key], rate, channels)
        return await ear.measure(frames, np.array(probe, dtype=np.float64))

    async def do_leave(self):
        await self.room.disconnect()

    async def answer(self, command):
        number, name = command.pop("id"), command.pop("do")
        try:
            tell({"id": number, "ok": await getattr(self, "do_" + name)(**command)})
        except Exception as error:  # every failure is the test's to judge
            tell({"id": number, "error": f"{type(error).__name__}: {error}"})


async def main():
    peer = Peer()
    reader = asyncio.StreamReader(limit=64 * 1024 * 1024)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        peer.spawn(peer.answer(json.loads(line)))
    os._exit(0)


asyncio.run(main())
