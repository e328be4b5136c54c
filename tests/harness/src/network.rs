//! Faults of a real network: packets lost on their way to and from one server, by netfilter in this process's own
//! network namespace. It never touches the machine's network; without a namespace the test is skipped, loudly.

use std::{
    io::Write,
    process::{Command, Output, Stdio},
};

use crate::{isolation, server::Server, skip};

/// A fault that lasts until it is dropped.
pub struct Fault {
    table: String,
}

impl Fault {
    /// Loses `percent` of all UDP packets to and from the server, each direction on its own.
    pub fn lose(server: &Server, percent: u32) -> Self {
        let share = format!("numgen random mod 100 < {percent} drop");
        let port = server.udp_port();
        Self::install(port, &format!("udp dport {port} {share}\nudp sport {port} {share}"))
    }

    /// Makes the server unreachable, media and signalling.
    pub fn cut(server: &Server) -> Self {
        let (udp, tcp) = (server.udp_port(), server.signal_address().port());
        let rules =
            format!("udp dport {udp} drop\nudp sport {udp} drop\ntcp dport {tcp} drop\ntcp sport {tcp} drop");
        Self::install(udp, &rules)
    }

    /// Makes only media and data unreachable.
    pub fn cut_media(server: &Server) -> Self {
        let port = server.udp_port();
        Self::install(port, &format!("udp dport {port} drop\nudp sport {port} drop"))
    }

    fn install(port: u16, rules: &str) -> Self {
        if !isolation::isolated() {
            skip("faults of the network need a private one");
        }
        let table = format!("fault_{port}");
        // Both ends are on this machine, so every packet passes the input hook exactly once.
        let script = format!(
            "table inet {table} {{\nchain input {{\ntype filter hook input priority 0;\n{rules}\n}}\n}}\n"
        );
        match nft(&script) {
            Ok(output) if output.status.success() => Self { table },
            Ok(output) => panic!("nft refused: {}", String::from_utf8_lossy(&output.stderr)),
            Err(error) => skip(&format!("nft is missing (package nftables): {error}")),
        }
    }
}

impl Drop for Fault {
    fn drop(&mut self) {
        // The namespace goes with the process anyway.
        let _ = nft(&format!("delete table inet {}\n", self.table));
    }
}

fn nft(script: &str) -> std::io::Result<Output> {
    let mut child = Command::new("nft")
        .args(["-f", "-"])
        .env("PATH", system_path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    child.stdin.take().expect("asked for a pipe").write_all(script.as_bytes())?;
    child.wait_with_output()
}

/// Delay that varies from packet to packet on everything this process sends, until it is dropped.
pub struct Jitter;

impl Jitter {
    /// Each packet is delayed by something between the two, so that some overtake others.
    pub fn between(least_ms: u32, most_ms: u32) -> Self {
        if !isolation::isolated() {
            skip("jitter needs a private network");
        }
        let (middle, half) = (u32::midpoint(least_ms, most_ms), (most_ms - least_ms) / 2);
        // Both ends are on this machine, so every packet leaves by loopback.
        let added = traffic_control(&format!("add dev lo root netem delay {middle}ms {half}ms"));
        match added {
            Ok(output) if output.status.success() => Self,
            Ok(output) => {
                skip(&format!("this kernel has no netem: {}", String::from_utf8_lossy(&output.stderr).trim()))
            }
            Err(error) => skip(&format!("tc is missing (package iproute2): {error}")),
        }
    }
}

impl Drop for Jitter {
    fn drop(&mut self) {
        // The namespace goes with the process anyway.
        let _ = traffic_control("del dev lo root");
    }
}

fn traffic_control(arguments: &str) -> std::io::Result<Output> {
    Command::new("tc").env("PATH", system_path()).arg("qdisc").args(arguments.split(' ')).output()
}

/// Where the tools of the network are, also for users whose path has no `sbin`.
fn system_path() -> String {
    format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default())
}
