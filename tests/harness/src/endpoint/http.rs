//! Just enough of HTTP/1.1, on sockets, to be as well or as badly behaved as a script asks.

use super::{
    End, Request, Shared,
    reply::{Head, Reply, Step},
};
use serde_json::Value;
use std::{io, sync::Arc, time::Instant};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    task::JoinSet,
    time::sleep,
};

/// A request beyond this is no prompt of a test.
const MAX_REQUEST: usize = 64 << 20;

pub(super) async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    // Ends the connections together with the endpoint.
    let mut connections = JoinSet::new();
    for number in 0.. {
        let Ok((socket, _)) = listener.accept().await else { return };
        shared.log.send_modify(|log| log.connections += 1);
        let shared = Arc::clone(&shared);
        connections.spawn(async move {
            // An error is a client that went away.
            let _ = serve(socket, number, &shared).await;
            shared.log.send_modify(|log| log.closed += 1);
        });
        while connections.try_join_next().is_some() {}
    }
}

async fn serve(socket: TcpStream, connection: usize, shared: &Shared) -> io::Result<()> {
    socket.set_nodelay(true)?;
    let (mut reader, mut writer) = socket.into_split();
    let mut received = Vec::new();
    while let Some(request) = read_request(&mut reader, &mut received, connection).await? {
        let (number, reply) = shared.receive(request);
        let wrote = |at| shared.log.send_modify(|log| log.requests[number].written.push(at));
        let outcome = tokio::select! {
            outcome = perform(&mut writer, &reply, wrote) => outcome,
            () = gone(&mut reader, &mut received) => Err(io::ErrorKind::ConnectionAborted.into()),
        };
        let end = if outcome.is_ok() { End::Scripted } else { End::ClosedByClient };
        shared.log.send_modify(|log| log.requests[number].end = Some(end));
        if !outcome? {
            return Ok(());
        }
    }
    Ok(())
}

/// The next request, or none when the client has closed the connection.
async fn read_request(
    reader: &mut OwnedReadHalf,
    received: &mut Vec<u8>,
    connection: usize,
) -> io::Result<Option<Request>> {
    let head_end = loop {
        if let Some(end) = received.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
            break end;
        }
        if received.len() > MAX_REQUEST || reader.read_buf(received).await? == 0 {
            return Ok(None);
        }
    };
    let head = String::from_utf8_lossy(&received[..head_end]).into_owned();
    let mut lines = head.split("\r\n");
    let target = lines.next().and_then(|line| line.strip_suffix(" HTTP/1.1")).unwrap_or_default().to_owned();
    let headers: Vec<_> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let length: usize = headers
        .iter()
        .find(|(name, _)| name == "content-length")
        .and_then(|(_, value)| value.parse().ok())
        .unwrap_or(0);
    let end = head_end + 4 + length.min(MAX_REQUEST);
    while received.len() < end {
        if reader.read_buf(received).await? == 0 {
            return Ok(None);
        }
    }
    let arrived = Instant::now();
    let body = serde_json::from_slice(&received[head_end + 4..end]).unwrap_or(Value::Null);
    received.drain(..end);
    Ok(Some(Request {
        connection,
        target,
        headers,
        body,
        prompt: 0,
        cached: 0,
        arrived,
        written: Vec::new(),
        end: None,
    }))
}

/// Returns when the client has closed its side.
async fn gone(reader: &mut OwnedReadHalf, received: &mut Vec<u8>) {
    while matches!(reader.read_buf(received).await, Ok(1..)) {}
}

/// Does what the script says; true if the connection can be used again.
async fn perform(writer: &mut OwnedWriteHalf, reply: &Reply, wrote: impl Fn(Instant)) -> io::Result<bool> {
    if let Some(Head { status, headers }) = &reply.head {
        let mut head = format!("HTTP/1.1 {status} Scripted\r\ntransfer-encoding: chunked\r\n");
        for (name, value) in headers {
            head.extend([name, ": ", value, "\r\n"]);
        }
        head.push_str("\r\n");
        writer.write_all(head.as_bytes()).await?;
    }
    for step in &reply.steps {
        match step {
            Step::Write(bytes) => {
                // The reader may have it before we are told that it is written.
                let at = Instant::now();
                write_chunk(writer, bytes).await?;
                wrote(at);
            }
            Step::Wait(gate) => {
                // An opened gate lets everything pass.
                if let Ok(permit) = gate.0.acquire().await {
                    permit.forget();
                }
            }
            Step::Pause(duration) => sleep(*duration).await,
            Step::Repeat(bytes, every) => loop {
                write_chunk(writer, bytes).await?;
                sleep(*every).await;
            },
            Step::Stall => std::future::pending().await,
            Step::Close => return Ok(false),
        }
    }
    writer.write_all(b"0\r\n\r\n").await?;
    Ok(true)
}

async fn write_chunk(writer: &mut OwnedWriteHalf, bytes: &[u8]) -> io::Result<()> {
    // An empty chunk would end the body.
    if bytes.is_empty() {
        return Ok(());
    }
    let mut framed = format!("{:x}\r\n", bytes.len()).into_bytes();
    framed.extend_from_slice(bytes);
    framed.extend_from_slice(b"\r\n");
    writer.write_all(&framed).await
}
