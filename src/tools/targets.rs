//! Which hosts and addresses tools may be connected to, and hooks.
//!
//! A tool's URL names its host; the tool reaches that origin and no other, on redirects as well. Addresses that are not
//! public (this machine, private networks, link-local ones and with them the metadata services of clouds) are refused after
//! the name was resolved, and what was checked is what is connected to: the client has no other resolver, and goes through no
//! proxy, which would resolve names by itself. A host that the configuration lists (`tools.allow_hosts`) may be anywhere; it is
//! still the only one that its tool reaches.
//!
//! So neither a name that is made to point into a private network, now or between two requests, nor a redirect gets a tool to
//! where its configuration did not send it.

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::redirect::{Attempt, Policy};
use reqwest::{Client, Url};
use rustls::ClientConfig;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;
use url_host::{host_of, ip_of};

/// More than any service needs.
const MAX_REDIRECTS: usize = 5;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The platform's address of Azure, which looks public and answers every machine there.
const AZURE_PLATFORM: Ipv4Addr = Ipv4Addr::new(168, 63, 129, 16);

/// Finds the addresses of a name; another one in tests.
type Lookup = Arc<dyn Fn(String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> + Send + Sync>;

/// The rule, and what is needed to follow it.
#[derive(Clone)]
pub struct Targets {
    allowed: Arc<[String]>,
    /// Where they are listed.
    list: &'static str,
    lookup: Lookup,
    tls: ClientConfig,
}

/// Why something is not connected to. Holds host names and addresses, never a URL.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TargetError {
    /// It is where tools must not get.
    #[error("{host} is at {address}, which is no public address; if that is meant, list {host:?} in {list}")]
    NotPublic {
        /// The host.
        host: String,
        /// Where it is.
        address: IpAddr,
        /// The key of the configuration that could allow it.
        list: &'static str,
    },
    /// The tool is configured for another one.
    #[error("{0} is not the host that is configured")]
    OtherHost(String),
    /// It has no host, or is of another kind.
    #[error("it must be an http:// or https:// URL with a host")]
    NoHost,
    /// A redirect leads away from where the tool is configured to go.
    #[error("the service redirects to {0}, which is not where it is configured to be")]
    Redirected(String),
    /// Redirects that come to no end.
    #[error("the service redirects more than {MAX_REDIRECTS} times")]
    TooManyRedirects,
    /// The name has no address.
    #[error("{0} has no address")]
    Unknown(String),
    /// No client could be made.
    #[error("no HTTP client can be made: {0}")]
    Client(String),
}

impl Targets {
    /// With these hosts allowed wherever they are, and `tls` for encrypted connections.
    pub fn new(allow_hosts: impl IntoIterator<Item = String>, tls: ClientConfig) -> Self {
        let allowed = allow_hosts.into_iter().map(|host| normal(&host)).collect();
        Self { allowed, list: "tools.allow_hosts", lookup: Arc::new(|name| system_lookup(name).boxed()), tls }
    }

    /// The same rule where the allowed hosts are listed under another key.
    #[must_use]
    pub fn listed_in(self, list: &'static str) -> Self {
        Self { list, ..self }
    }

    /// A client for requests to this URL's origin. It refuses every other.
    pub fn client(&self, url: &Url) -> Result<Client, TargetError> {
        let host = host_of(url).ok_or(TargetError::NoHost)?;
        self.check_literal(url)?;
        let resolver = Resolver { host, targets: self.clone() };
        let (origin, targets) = (url.clone(), self.clone());
        Client::builder()
            .tls_backend_preconfigured(self.tls.clone())
            .dns_resolver(Arc::new(resolver))
            .redirect(Policy::custom(move |attempt| targets.follow(&origin, attempt)))
            .no_proxy()
            .referer(false)
            .connect_timeout(CONNECT_TIMEOUT)
            .build()
            .map_err(|error| TargetError::Client(error.to_string()))
    }

    fn is_allowed(&self, host: &str) -> bool {
        self.allowed.iter().any(|allowed| allowed == host)
    }

    /// Addresses in the URL itself never come to the resolver.
    fn check_literal(&self, url: &Url) -> Result<(), TargetError> {
        let host = host_of(url).ok_or(TargetError::NoHost)?;
        match ip_of(url) {
            Some(address) if !self.is_allowed(&host) && !is_public(address) => {
                Err(TargetError::NotPublic { host, address, list: self.list })
            }
            _ => Ok(()),
        }
    }

    fn follow(&self, origin: &Url, attempt: Attempt<'_>) -> reqwest::redirect::Action {
        let next = attempt.url();
        let checked = if attempt.previous().len() > MAX_REDIRECTS {
            Err(TargetError::TooManyRedirects)
        } else if is_same_place(origin, next) {
            self.check_literal(next)
        } else {
            Err(TargetError::Redirected(host_of(next).unwrap_or_else(|| "elsewhere".to_owned())))
        };
        match checked {
            Ok(()) => attempt.follow(),
            Err(error) => attempt.error(error),
        }
    }

    async fn resolve(&self, host: &str, name: &str) -> Result<Vec<IpAddr>, TargetError> {
        let asked = normal(name);
        if asked != host {
            return Err(TargetError::OtherHost(asked));
        }
        let addresses = (self.lookup)(asked.clone()).await.unwrap_or_default();
        if addresses.is_empty() {
            return Err(TargetError::Unknown(asked));
        }
        // One bad address among good ones is refused as well: which of them would be taken is not ours to choose.
        match addresses.iter().find(|address| !self.is_allowed(host) && !is_public(**address)) {
            Some(&address) => Err(TargetError::NotPublic { host: asked, address, list: self.list }),
            None => Ok(addresses),
        }
    }
}

/// The only resolver of a tool's client.
struct Resolver {
    host: String,
    targets: Targets,
}

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let (targets, host) = (self.targets.clone(), self.host.clone());
        async move {
            let addresses = targets.resolve(&host, name.as_str()).await?;
            // The port is the URL's; zero says so.
            let addresses = addresses.into_iter().map(|address| SocketAddr::new(address, 0));
            Ok(Box::new(addresses) as Addrs)
        }
        .boxed()
    }
}

async fn system_lookup(name: String) -> io::Result<Vec<IpAddr>> {
    Ok(tokio::net::lookup_host((name, 0)).await?.map(|address| address.ip()).collect())
}

/// The same host and port, encrypted if it was; or the encrypted form of what was not.
fn is_same_place(origin: &Url, next: &Url) -> bool {
    let is_upgrade = (origin.scheme(), next.scheme()) == ("http", "https")
        && (origin.port_or_known_default(), next.port_or_known_default()) == (Some(80), Some(443));
    host_of(origin) == host_of(next)
        && (is_upgrade
            || (origin.scheme() == next.scheme()
                && origin.port_or_known_default() == next.port_or_known_default()))
}

/// A host's name as it is compared.
fn normal(host: &str) -> String {
    host.trim_end_matches('.').trim_matches(['[', ']']).to_ascii_lowercase()
}

/// Whether an address is one of the public internet. What is not known to be is not.
fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let special = match address.octets() {
        // This network; carriers' own (100.64/10); IETF's own; 6to4 relays; benchmarks; documentation is below.
        [0, ..] | [192, 0, 0, _] | [192, 88, 99, _] => true,
        [100, second, ..] => second & 0b1100_0000 == 64,
        [198, second, ..] if second & 0b1111_1110 == 18 => true,
        // Multicast, and what is reserved, broadcast included.
        [first, ..] if first >= 224 => true,
        _ => false,
    };
    !(special
        || address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_documentation()
        || address == AZURE_PLATFORM)
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    // Forms that mean an IPv4 address: mapped (::ffff:0:0/96), and translated by NAT64 (64:ff9b::/96).
    if let Some(mapped) = address.to_ipv4_mapped() {
        return is_public_v4(mapped);
    }
    let segments = address.segments();
    if let [0x64, 0xff9b, 0, 0, 0, 0, high, low] = segments {
        return is_public_v4(Ipv4Addr::from((u32::from(high) << 16) | u32::from(low)));
    }
    // Of what is unicast and global, without IETF's own (Teredo among it), documentation (twice) and 6to4.
    match segments {
        [0x2001, second, ..] => second >= 0x200 && second != 0xdb8,
        [0x2002, ..] => false,
        [0x3fff, second, ..] => second > 0xfff,
        [first, ..] => first & 0xe000 == 0x2000,
    }
}

/// Hosts of URLs, whichever way they are written: the parser has made one form of all of them.
mod url_host {
    use super::normal;
    use reqwest::Url;
    use std::net::IpAddr;

    pub(super) fn host_of(url: &Url) -> Option<String> {
        let is_http = matches!(url.scheme(), "http" | "https");
        url.host_str().filter(|_| is_http).map(normal)
    }

    pub(super) fn ip_of(url: &Url) -> Option<IpAddr> {
        host_of(url)?.parse().ok()
    }
}

#[cfg(test)]
mod tests;
