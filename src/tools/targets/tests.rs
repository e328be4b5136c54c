//! Addresses in all their forms, names that point elsewhere the second time, and redirects.

use super::*;
use std::collections::VecDeque;
use std::error::Error;
use std::sync::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

fn address(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

#[test]
fn addresses_that_are_not_public_are_known_in_every_form() {
    for public in [
        "1.1.1.1",
        "8.8.8.8",
        "100.63.255.255",
        "100.128.0.1",
        "172.15.0.1",
        "172.32.0.1",
        "192.0.1.1",
        "198.17.0.1",
        "198.20.0.1",
        "223.255.255.255",
        "2606:4700::1111",
        "2001:200::1",
        "2a00::1",
        "3fff:1000::1",
        "::ffff:8.8.8.8",
        "64:ff9b::8.8.8.8",
    ] {
        assert!(is_public(address(public)), "{public}");
    }
    for other in [
        "0.0.0.0",
        "0.1.2.3",
        "10.0.0.1",
        "100.64.0.1",
        "100.100.100.200",
        "127.0.0.1",
        "127.255.255.254",
        "169.254.169.254",
        "168.63.129.16",
        "172.16.0.1",
        "172.31.255.255",
        "192.0.0.192",
        "192.0.2.1",
        "192.88.99.1",
        "192.168.1.1",
        "198.18.0.1",
        "198.19.255.255",
        "198.51.100.1",
        "203.0.113.1",
        "224.0.0.1",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::127.0.0.1",
        "::8.8.8.8",
        "::ffff:127.0.0.1",
        "::ffff:7f00:1",
        "::ffff:10.0.0.1",
        "::ffff:169.254.169.254",
        "64:ff9b::10.0.0.1",
        "64:ff9b:1::1",
        "100::1",
        "2001::1",
        "2001:db8::1",
        "2002:7f00:1::1",
        "3fff::1",
        "fc00::1",
        "fd00:ec2::254",
        "fe80::1",
        "fec0::1",
        "ff02::1",
    ] {
        assert!(!is_public(address(other)), "{other}");
    }
}

/// The rule, with names that have these addresses, one answer after the other; the last one stays.
fn targets(allow_hosts: &[&str], answers: &[&[&str]]) -> Targets {
    let answers: VecDeque<Vec<IpAddr>> =
        answers.iter().map(|answer| answer.iter().map(|text| address(text)).collect()).collect();
    let answers = Mutex::new(answers);
    let lookup = move |_| {
        let mut answers = answers.lock().expect("nobody panics while holding it");
        let answer = if answers.len() > 1 { answers.pop_front() } else { answers.front().cloned() };
        std::future::ready(Ok(answer.unwrap_or_default())).boxed()
    };
    crate::tls::choose_provider();
    Targets {
        lookup: Arc::new(lookup),
        ..Targets::new(allow_hosts.iter().map(|host| (*host).to_owned()), crate::tls::client_config())
    }
}

fn url(text: &str) -> Url {
    Url::parse(text).expect("a URL")
}

#[test]
fn an_address_in_the_url_is_refused_however_it_is_written() {
    let targets = targets(&[], &[]);
    for written in [
        "http://127.0.0.1/",
        "http://127.1/",
        "http://0x7f.0.0.1/",
        "http://2130706433/",
        "http://017700000001/",
        "https://[::1]/",
        "https://[::ffff:127.0.0.1]/",
        "https://[0:0:0:0:0:ffff:a9fe:a9fe]/",
        "http://169.254.169.254/latest/meta-data/",
        "http://①②⑦.0.0.1/",
        "http://10.0.0.1.:80/",
    ] {
        let refused = targets.client(&url(written)).expect_err(written);
        assert!(matches!(refused, TargetError::NotPublic { .. }), "{written}: {refused:?}");
    }
    assert!(targets.client(&url("https://1.1.1.1/")).is_ok());
    assert_eq!(targets.client(&url("file:///etc/passwd")).expect_err("no host"), TargetError::NoHost);
}

#[test]
fn a_listed_address_may_be_reached() {
    let listed = targets(&["127.0.0.1", "::1"], &[]);
    assert!(listed.client(&url("http://127.0.0.1:3001/")).is_ok());
    assert!(listed.client(&url("http://[::1]:3001/")).is_ok());
    assert!(listed.client(&url("http://127.0.0.2/")).is_err());
}

#[tokio::test]
async fn a_name_is_refused_for_any_of_its_addresses_that_is_not_public() {
    let refused = targets(&[], &[&["8.8.8.8", "10.0.0.7"]]).resolve("a.example", "a.example").await;
    let not_public = TargetError::NotPublic {
        host: "a.example".to_owned(),
        address: address("10.0.0.7"),
        list: "tools.allow_hosts",
    };
    assert_eq!(refused, Err(not_public));
    let good = targets(&[], &[&["8.8.8.8"]]).resolve("a.example", "A.Example.").await;
    assert_eq!(good, Ok(vec![address("8.8.8.8")]));
    let listed = targets(&["A.example"], &[&["10.0.0.7"]]).resolve("a.example", "a.example").await;
    assert_eq!(listed, Ok(vec![address("10.0.0.7")]));
    let other = targets(&[], &[&["8.8.8.8"]]).resolve("a.example", "b.example").await;
    assert_eq!(other, Err(TargetError::OtherHost("b.example".to_owned())));
    let unknown = targets(&[], &[&[]]).resolve("a.example", "a.example").await;
    assert_eq!(unknown, Err(TargetError::Unknown("a.example".to_owned())));
}

/// A server on this machine that answers each connection with the next of these and closes it; how many came is what
/// its task ends with.
async fn server(answers: Vec<String>) -> (u16, JoinHandle<usize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let serving = tokio::spawn(async move {
        let mut served = 0;
        for answer in answers {
            let (mut connection, _) = listener.accept().await.expect("a connection");
            let mut request = [0; 4_096];
            let _ = connection.read(&mut request).await.expect("a request");
            connection.write_all(answer.as_bytes()).await.expect("an answer");
            served += 1;
        }
        served
    });
    (port, serving)
}

fn answer(status: &str, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\n{headers}content-length: {}\r\nconnection: close\r\n\r\n{body}", body.len())
}

/// What our own code said about it, which reqwest carries as the innermost cause.
fn refusal(error: &reqwest::Error) -> TargetError {
    let mut cause = error.source();
    while let Some(error) = cause {
        if let Some(refused) = error.downcast_ref::<TargetError>() {
            return refused.clone();
        }
        cause = error.source();
    }
    panic!("nothing was refused: {error:?}")
}

#[tokio::test]
async fn a_name_that_points_elsewhere_the_second_time_is_refused_then() {
    // First where the test's server is, which the list allows for the length of one request only.
    let (port, serving) = server(vec![answer("200 OK", "", "first")]).await;
    let first = targets(&["rebinding.example"], &[&["127.0.0.1"]]);
    let place = url(&format!("http://rebinding.example:{port}/"));
    let response =
        first.client(&place).expect("a client").get(place.clone()).send().await.expect("an answer");
    assert_eq!(response.text().await.expect("a body"), "first");
    assert_eq!(serving.await.expect("it served"), 1);

    // The connection is closed, so the name is asked for again; what it says now is what counts.
    let second = targets(&[], &[&["93.184.216.34"], &["127.0.0.1"]]);
    let checked = second.resolve("rebinding.example", "rebinding.example").await;
    assert_eq!(checked, Ok(vec![address("93.184.216.34")]));
    let client = second.client(&place).expect("a client");
    let refused = client.get(place).send().await.expect_err("it points to this machine");
    let host = "rebinding.example".to_owned();
    assert_eq!(
        refusal(&refused),
        TargetError::NotPublic { host, address: address("127.0.0.1"), list: "tools.allow_hosts" }
    );
}

#[tokio::test]
async fn redirects_stay_where_the_tool_was_sent() {
    let follow = async |location: &dyn Fn(u16) -> String, more: Vec<String>| {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        drop(listener);
        let redirect = answer("307 Temporary Redirect", &format!("location: {}\r\n", location(port)), "");
        let listener = TcpListener::bind(("127.0.0.1", port)).await.expect("the port again");
        let serving = tokio::spawn(async move {
            for answer in [vec![redirect], more].concat() {
                let (mut connection, _) = listener.accept().await.expect("a connection");
                let mut request = [0; 4_096];
                let _ = connection.read(&mut request).await.expect("a request");
                connection.write_all(answer.as_bytes()).await.expect("an answer");
            }
        });
        let rule = targets(&["localhost"], &[&["127.0.0.1"]]);
        let place = url(&format!("http://localhost:{port}/"));
        let response = rule.client(&place).expect("a client").get(place).send().await;
        serving.abort();
        response
    };
    let followed = follow(&|_| "/there".to_owned(), vec![answer("200 OK", "", "there")]).await;
    assert_eq!(followed.expect("the same place").text().await.expect("a body"), "there");
    for (location, host) in [
        ("http://169.254.169.254/latest/", "169.254.169.254"),
        ("http://127.0.0.1:PORT/", "127.0.0.1"),
        ("http://[::1]:PORT/", "::1"),
        ("https://localhost:PORT/", "localhost"),
        ("http://localhost:1/", "localhost"),
        ("http://evil.example/", "evil.example"),
        ("//evil.example/", "evil.example"),
    ] {
        let refused = follow(&|port| location.replace("PORT", &port.to_string()), Vec::new()).await;
        let refused = refusal(&refused.expect_err(location));
        assert_eq!(refused, TargetError::Redirected(host.to_owned()), "{location}");
    }
}

#[tokio::test]
async fn redirects_come_to_an_end() {
    let round = || answer("302 Found", "location: /\r\n", "");
    let (port, serving) = server((0..10).map(|_| round()).collect()).await;
    let rule = targets(&["localhost"], &[&["127.0.0.1"]]);
    let place = url(&format!("http://localhost:{port}/"));
    let refused = rule.client(&place).expect("a client").get(place).send().await.expect_err("it never ends");
    assert_eq!(refusal(&refused), TargetError::TooManyRedirects);
    serving.abort();
}

#[test]
fn an_upgrade_to_encryption_is_the_same_place_and_the_way_back_is_not() {
    let same = |one: &str, other: &str| is_same_place(&url(one), &url(other));
    assert!(same("http://a.example/x", "https://a.example/y"));
    assert!(same("https://A.example./", "https://a.example:443/"));
    assert!(!same("https://a.example/", "http://a.example/"));
    assert!(!same("http://a.example:8080/", "https://a.example/"));
    assert!(!same("https://a.example/", "https://a.example:8443/"));
    assert!(!same("https://a.example/", "https://b.a.example/"));
    assert!(!same("https://a.example/", "ftp://a.example/"));
}
