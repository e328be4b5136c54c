//! Which of the machine's addresses a connection offers to its peer.
//!
//! The same choice as libwebrtc's: every interface that is up, IPv4 and IPv6, without loopback, IPv6 link-local
//! and the host-only networks of virtual machines. Loopback is used when it is asked for, and when there is nothing
//! else (a container without a network: every peer is then on this machine too).

use std::{
    net::IpAddr,
    sync::atomic::{AtomicBool, Ordering},
};

/// Set to anything but `0` to offer loopback addresses as well.
pub const LOOPBACK_VARIABLE: &str = "LIBWEBRTC_LOOPBACK";

/// libwebrtc's limit; machines with many temporary addresses would otherwise make many useless pairs.
const MAX_IPV6_ADDRESSES: usize = 5;
const HOST_ONLY_INTERFACES: [&str; 3] = ["vmnet", "vnic", "vboxnet"];

static OFFER_LOOPBACK: AtomicBool = AtomicBool::new(false);

/// Offer loopback addresses to peers from now on, in every connection of this process (or stop doing so).
///
/// Not part of the original API: there it is a compile-time choice. The environment variable
/// `LIBWEBRTC_LOOPBACK=1` does the same.
pub fn offer_loopback_addresses(offer: bool) {
    OFFER_LOOPBACK.store(offer, Ordering::Relaxed);
}

pub(crate) fn local_addresses() -> Vec<IpAddr> {
    let interfaces = match if_addrs::get_if_addrs() {
        Ok(interfaces) => interfaces,
        Err(error) => {
            log::error!("cannot read this machine's network interfaces: {error}");
            return Vec::new();
        }
    };
    let asked = OFFER_LOOPBACK.load(Ordering::Relaxed)
        || std::env::var_os(LOOPBACK_VARIABLE).is_some_and(|value| value != "0" && !value.is_empty());
    let named: Vec<_> = interfaces.iter().map(|i| (i.name.as_str(), i.ip())).collect();
    choose(&named, asked)
}

fn choose(interfaces: &[(&str, IpAddr)], loopback_asked: bool) -> Vec<IpAddr> {
    let usable = |loopback: bool| {
        let mut chosen: Vec<IpAddr> = Vec::new();
        for &(name, address) in interfaces {
            let host_only = HOST_ONLY_INTERFACES.iter().any(|prefix| name.starts_with(prefix));
            let known = chosen.contains(&address);
            if host_only || known || is_unusable(address) || (address.is_loopback() && !loopback) {
                continue;
            }
            let ipv6_so_far = chosen.iter().filter(|a| a.is_ipv6()).count();
            if address.is_ipv6() && ipv6_so_far >= MAX_IPV6_ADDRESSES {
                continue;
            }
            chosen.push(address);
        }
        chosen
    };
    let chosen = usable(loopback_asked);
    if chosen.is_empty() { usable(true) } else { chosen }
}

fn is_unusable(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.is_unspecified() || v4.is_multicast() || v4.is_broadcast(),
        IpAddr::V6(v6) => v6.is_unspecified() || v6.is_multicast() || v6.is_unicast_link_local(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(interfaces: &[(&str, &str)], loopback: bool) -> Vec<String> {
        let parsed: Vec<(&str, IpAddr)> =
            interfaces.iter().map(|(n, a)| (*n, a.parse().expect("a test address"))).collect();
        choose(&parsed, loopback).iter().map(ToString::to_string).collect()
    }

    const MACHINE: [(&str, &str); 7] = [
        ("lo", "127.0.0.1"),
        ("lo", "::1"),
        ("eth0", "192.0.2.7"),
        ("eth0", "2001:db8::7"),
        ("eth0", "fe80::1"),
        ("vboxnet0", "198.51.100.1"),
        ("eth1", "192.0.2.7"),
    ];

    #[test]
    fn real_addresses_only_unless_loopback_is_asked_for() {
        assert_eq!(chosen(&MACHINE, false), ["192.0.2.7", "2001:db8::7"]);
        assert_eq!(chosen(&MACHINE, true), ["127.0.0.1", "::1", "192.0.2.7", "2001:db8::7"]);
    }

    #[test]
    fn loopback_is_better_than_nothing() {
        assert_eq!(chosen(&MACHINE[..2], false), ["127.0.0.1", "::1"]);
    }

    #[test]
    fn many_ipv6_addresses_are_cut() {
        let names: Vec<String> = (1..20).map(|i| format!("2001:db8::{i}")).collect();
        let many: Vec<(&str, &str)> = names.iter().map(|a| ("eth0", a.as_str())).collect();
        assert_eq!(chosen(&many, false).len(), MAX_IPV6_ADDRESSES);
    }
}
