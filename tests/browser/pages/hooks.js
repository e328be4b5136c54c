// A front end on LiveKit's own React hooks and nothing of ours: tells what they show.
import {
  RoomAudioRenderer, SessionProvider, useAgent, useChat, useLocalParticipant, useSession, useSessionMessages,
  useTranscriptions, useVoiceAssistant,
} from '@livekit/components-react';
import { TokenSource } from 'livekit-client';
import { createElement, useEffect, useMemo } from 'react';
import { createRoot } from 'react-dom/client';

const told = [];

// Tells a value whenever it has changed.
function useTelling(event, value) {
  const text = JSON.stringify(value);
  useEffect(() => {
    told.push(text);
    window.tell({ event, value: JSON.parse(text) });
  }, [event, text]);
}

function FrontEnd({ session }) {
  const assistant = useVoiceAssistant();
  const agent = useAgent(session);
  const chat = useChat();
  const { messages } = useSessionMessages(session);
  const transcriptions = useTranscriptions();
  useTelling('microphone', useLocalParticipant().isMicrophoneEnabled);
  useTelling('useVoiceAssistant', { state: assistant.state, agent: assistant.agent?.identity ?? null });
  useTelling('useAgent', { state: agent.state, identity: agent.identity ?? null, name: agent.name ?? null, isConnected: agent.isConnected });
  useTelling('useTranscriptions', transcriptions.map(({ text, participantInfo, streamInfo }) => (
    { text, from: participantInfo.identity, attributes: streamInfo.attributes }
  )));
  useTelling('useSessionMessages', messages.map(({ type, message, from }) => ({ type, message, from: from?.identity ?? null })));
  window.doing.say = async ({ text }) => (await chat.send(text)).id;
  return createElement(RoomAudioRenderer);
}

function Page({ url, token }) {
  const source = useMemo(() => TokenSource.literal({ serverUrl: url, participantToken: token }), [url, token]);
  const session = useSession(source);
  useEffect(() => {
    // With its defaults, as front ends do: the microphone is on, and what it heard before the agent came is sent to it.
    session.start();
  }, []);
  return createElement(SessionProvider, { session }, createElement(FrontEnd, { session }));
}

window.doing = {
  join({ url, token }) {
    createRoot(document.querySelector('main')).render(createElement(Page, { url, token }));
  },
  everything: () => told,
};
