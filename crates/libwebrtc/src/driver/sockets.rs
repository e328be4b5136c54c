//! The UDP sockets of one connection, one per local address.
//!
//! They are not shared between connections: a LiveKit server answers all its clients from one port and tells
//! them apart by the address they come from.

use std::{
    future::poll_fn,
    io::ErrorKind,
    net::{IpAddr, SocketAddr, UdpSocket},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::Poll,
    time::{Duration, Instant},
};

use tokio::{
    io::{Interest, unix::AsyncFd},
    time::sleep,
};

use super::runtime;
use crate::engine::Connection;

/// Larger than any datagram WebRTC peers send (they stay below 1,500 bytes).
pub(crate) const MAX_DATAGRAM: usize = 2048;

/// When to try again where the system cannot say that a socket can be written to.
const TRY_AGAIN: Duration = Duration::from_millis(10);

#[derive(Default)]
pub(crate) struct Sockets {
    list: Vec<Arc<Socket>>,
}

struct Socket {
    address: SocketAddr,
    /// Watched for what arrives alone: the kernel says that a socket can be written to after every single datagram that has
    /// left, and a thread would be woken for each.
    udp: AsyncFd<UdpSocket>,
    announced: AtomicBool,
}

impl Sockets {
    /// These sockets and one more for each address that has none. Addresses that cannot be bound are left out:
    /// an interface may have gone away since it was listed.
    pub(crate) fn with_new_addresses(&self, addresses: &[IpAddr]) -> (Self, Vec<SocketAddr>) {
        let mut list = self.list.clone();
        let mut opened = Vec::new();
        for ip in addresses.iter().filter(|ip| self.list.iter().all(|s| s.address.ip() != **ip)) {
            match Socket::bind(*ip) {
                Ok(socket) => {
                    opened.push(socket.address);
                    list.push(Arc::new(socket));
                }
                Err(error) => log::warn!("cannot open a UDP socket on {ip}: {error}"),
            }
        }
        (Self { list }, opened)
    }

    /// Addresses that the peer has not been told of, each returned once.
    pub(crate) fn unannounced(&self) -> impl Iterator<Item = SocketAddr> {
        self.list.iter().filter(|s| !s.announced.swap(true, Ordering::Relaxed)).map(|s| s.address)
    }

    /// Sends what the engine has queued, until done or until a socket is full.
    pub(crate) fn send(&self, connection: &mut Connection) {
        while let Some(transmit) = connection.peek_transmit() {
            let socket = self.list.iter().find(|s| s.address == transmit.source);
            let sent = socket.map(|s| s.udp.get_ref().send_to(&transmit.contents, transmit.destination));
            if matches!(&sent, Some(Err(error)) if error.kind() == ErrorKind::WouldBlock) {
                return;
            }
            // Any other failure is the network's: the packet is lost, as packets may be.
            connection.drop_transmit();
        }
    }

    /// Feeds the engine what has arrived, at most `limit` datagrams per socket.
    pub(crate) fn receive(&self, connection: &mut Connection, now: Instant, buffer: &mut [u8], limit: usize) {
        for socket in &self.list {
            for _ in 0..limit {
                match socket.udp.try_io(Interest::READABLE, |udp| udp.recv_from(buffer)) {
                    Ok((length, from)) => {
                        connection.handle_datagram(now, from, socket.address, &buffer[..length]);
                    }
                    // An ICMP error of an earlier datagram; the next read goes on.
                    Err(error) if error.kind() == ErrorKind::ConnectionRefused => {}
                    Err(_) => break,
                }
            }
        }
    }

    /// Waits until any socket has something to read. Never, when there are none.
    pub(crate) async fn readable(&self) {
        poll_fn(|cx| {
            // Each is polled, so that each wakes this task.
            let ready = self.list.iter().filter(|s| s.udp.poll_read_ready(cx).is_ready()).count();
            if ready > 0 { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    /// Waits until the socket of this address can be written to. The others do not matter: datagrams leave in
    /// order, so the first one that waits holds up the rest.
    pub(crate) async fn writable(&self, address: SocketAddr) {
        match self.list.iter().find(|socket| socket.address == address) {
            // An error shows at the next attempt to send.
            Some(socket) => match socket.when_writable() {
                Ok(udp) => drop(udp.writable().await),
                Err(_) => sleep(TRY_AGAIN).await,
            },
            None => std::future::pending().await,
        }
    }
}

impl Socket {
    fn bind(ip: IpAddr) -> std::io::Result<Self> {
        let socket = UdpSocket::bind((ip, 0))?;
        socket.set_nonblocking(true)?;
        let _context = runtime::handle()?.enter();
        let address = socket.local_addr()?;
        let udp = watched(socket, Interest::READABLE)?;
        Ok(Self { address, udp, announced: AtomicBool::new(false) })
    }

    /// The same socket, watched for whether it can be written to, for as long as somebody waits for that.
    fn when_writable(&self) -> std::io::Result<AsyncFd<UdpSocket>> {
        watched(self.udp.get_ref().try_clone()?, Interest::WRITABLE)
    }
}

/// Needs the shared runtime's context.
#[expect(
    deprecated,
    reason = "what replaces it is `unsafe` for the sake of types that do not own their descriptor; a socket does, and is never exchanged"
)]
fn watched(socket: UdpSocket, interest: Interest) -> std::io::Result<AsyncFd<UdpSocket>> {
    AsyncFd::with_interest(socket, interest)
}
