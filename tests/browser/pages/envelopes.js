// A client of the protocol on livekit-client: sends what the test says, tells what arrives, judges nothing.
import { decode, encode } from '@msgpack/msgpack';
import { ParticipantKind, Room, RoomEvent } from 'livekit-client';
import { pack, unpack } from 'msgpackr';

// Both with their defaults: one writes undefined as nil and times as uint64, the other as extension 0 and as float64.
const codecs = { '@msgpack/msgpack': { encode, decode }, msgpackr: { encode: pack, decode: unpack } };

const connections = [];
window.RTCPeerConnection = class extends window.RTCPeerConnection {
  constructor(...options) {
    super(...options);
    connections.push(this);
  }
};

let room;
let codec;
let stanza = 0;

const described = (participant) => ({
  identity: participant.identity,
  kind: ParticipantKind[participant.kind],
  isAgent: participant.isAgent,
  state: participant.attributes['lk.agent.state'],
});

function arrived(via, from, bytes) {
  // JSON knows none; which of the two it was shows in what the test compares.
  const plain = (_, value) => (typeof value === 'bigint' ? `${value}n` : value);
  const envelope = JSON.parse(JSON.stringify(codec.decode(bytes), plain));
  window.tell({ event: 'envelope', via, from, length: bytes.length, envelope });
}

async function join({ url, token, codec: name, singlePeerConnection }) {
  codec = codecs[name];
  room = new Room({ singlePeerConnection });
  room.on(RoomEvent.DataReceived, (bytes, participant) => arrived('packet', participant?.identity, bytes));
  room.registerByteStreamHandler('envelope', async (reader, { identity }) => {
    const bytes = new Uint8Array(await new Blob(await reader.readAll()).arrayBuffer());
    arrived('stream', identity, bytes);
  });
  room.on(RoomEvent.ParticipantAttributesChanged, (_, participant) => {
    window.tell({ event: 'participant', ...described(participant) });
  });
  await room.connect(url, token);
  return [...room.remoteParticipants.values()].map(described);
}

// `undefined` cannot travel as JSON, so the test names the keys that shall have it.
async function send({ type, body, absent = [], as = 'packet' }) {
  stanza += 1;
  const whole = { ...body, timestamp: Date.now() };
  for (const key of absent) whole[key] = undefined;
  const envelope = { stanzaId: stanza, conversationId: room.name, type, meta: {}, body: whole };
  const bytes = new Uint8Array(codec.encode(envelope));
  if (as === 'packet') await room.localParticipant.publishData(bytes, { reliable: true });
  else if (as === 'bytes') await room.localParticipant.sendBytes(bytes, { topic: 'envelope' });
  else {
    const writer = await room.localParticipant.streamBytes({ topic: 'envelope' });
    await writer.write(bytes);
    await writer.close();
  }
  return { stanza, length: bytes.length };
}

// Answers like the Python peer: who called, and the payload in capitals.
function serve({ method }) {
  room.registerRpcMethod(method, async ({ callerIdentity, payload }) => `${callerIdentity}:${payload.toUpperCase()}`);
}

// The transport protocol that each connection uses: ICE over TCP would hide that UDP is broken.
async function protocol(connection) {
  const stats = await connection.getStats();
  const transport = [...stats.values()].find(({ type }) => type === 'transport');
  const pair = stats.get(transport?.selectedCandidatePairId);
  return stats.get(pair?.localCandidateId)?.protocol ?? null;
}

window.doing = {
  join,
  send,
  serve,
  protocols: () => Promise.all(connections.map(protocol)),
  leave: () => room.disconnect(),
};
