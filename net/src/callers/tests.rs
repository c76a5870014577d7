//! Callers: rate limits by address and kind, permits, long polls.

use super::*;

fn limits(change: impl FnOnce(&mut LimitsConfig)) -> LimitsConfig {
    let mut config = LimitsConfig::default();
    // One unit an hour is none during a test; rates are whole units a second, so bursts are what counts.
    for rate in [&mut config.reads, &mut config.writes, &mut config.unsigned, &mut config.accepted] {
        *rate = RateConfig { per_second: 1, burst: 20 };
    }
    change(&mut config);
    config
}

fn caller(callers: &Arc<Callers>, address: &str) -> Caller {
    callers.identify(Some(SocketAddr::new(address.parse().unwrap(), 4711)), &HeaderMap::new())
}

fn spent(caller: &Caller, kind: Kind, units: u32) -> u32 {
    let mut count = 0;
    while caller.spend(kind, units).is_ok() {
        count += 1;
    }
    count
}

#[test]
fn every_address_and_every_kind_has_a_budget_of_its_own() {
    let callers = Callers::new(&limits(|_| ()), 100);
    let one = caller(&callers, "198.51.100.1");
    assert!((2..=3).contains(&spent(&one, Kind::Unsigned, 10)));
    assert!((20..=22).contains(&spent(&one, Kind::Writes, 1)));
    assert!(one.spend(Kind::Reads, 1).is_ok());
    assert!(caller(&callers, "198.51.100.2").spend(Kind::Unsigned, 10).is_ok());
    // The same address again is the same caller.
    let again = caller(&callers, "198.51.100.1").spend(Kind::Unsigned, 10).unwrap_err();
    assert!(matches!(again, Refusal::Spent { kind: Kind::Unsigned, .. }));
    assert!((1..=10).contains(&again.retry_after_seconds()), "{again:?}");
}

#[test]
fn addresses_of_one_site_share_what_sixteen_of_them_have() {
    let callers = Callers::new(&limits(|_| ()), 100);
    let all: u32 = (0..40).map(|n| spent(&caller(&callers, &format!("2001:db8:1:{n:x}::1")), Kind::Unsigned, 20)).sum();
    assert!((16..=18).contains(&all), "{all}");
    assert!(caller(&callers, "2001:db8:2::1").spend(Kind::Unsigned, 20).is_ok());
}

#[test]
fn an_originator_is_counted_wherever_it_calls_from() {
    let callers = Callers::new(&limits(|config| config.accepted.burst = 2), 100);
    let from = |n: u32| caller(&callers, &format!("198.51.100.{n}"));
    from(1).accept("eip155:0xaa", 1).unwrap();
    from(2).accept("eip155:0xaa", 1).unwrap();
    assert!(matches!(from(3).accept("eip155:0xaa", 1), Err(Refusal::Spent { kind: Kind::Accepted, .. })));
    from(3).accept("eip155:0xbb", 1).unwrap();
}

#[test]
fn permits_are_counted_for_each_and_anonymous_long_polls_for_all_together() {
    let callers = Callers::new(
        &limits(|config| {
            config.event_streams_per_address_max = 1;
            config.writes_per_address_max = 1;
            config.holds_per_address_max = 2;
            config.connections_per_address_max = 1;
        }),
        6,
    );
    let one = caller(&callers, "198.51.100.1");
    let stream = one.stream().unwrap();
    assert_eq!(one.stream().unwrap_err(), Refusal::Crowded("event streams"));
    assert!(one.work().is_ok() && caller(&callers, "198.51.100.2").stream().is_ok());
    drop(stream);
    assert!(one.stream().is_ok());

    let held: Vec<_> =
        (1..=3).map(|n| caller(&callers, &format!("198.51.100.{n}")).long_poll(false).unwrap()).collect();
    assert!(caller(&callers, "198.51.100.4").long_poll(false).is_none());
    let proven = caller(&callers, "198.51.100.4");
    let _two = (proven.long_poll(true).unwrap(), proven.long_poll(true).unwrap());
    assert!(proven.long_poll(true).is_none());
    drop(held);
    assert!(one.long_poll(false).is_some());

    let peer = SocketAddr::from(([198, 51, 100, 1], 1));
    let _connection = callers.connection(peer).unwrap();
    assert!(callers.connection(peer).is_none());
}

#[test]
fn addresses_of_one_site_share_the_permits_of_four() {
    let callers = Callers::new(
        &limits(|config| {
            config.event_streams_per_address_max = 1;
            config.writes_per_address_max = 1;
            config.holds_per_address_max = 1;
            config.connections_per_address_max = 1;
        }),
        100,
    );
    let addresses = |site: u32| (0..32).map(move |n| format!("2001:db8:{site:x}:{n:x}::1"));
    let of_site = |site: u32| -> Vec<_> { addresses(site).map(|address| caller(&callers, &address)).collect() };
    let (attackers, others) = (of_site(1), of_site(2));
    let peer = |address: String| SocketAddr::new(address.parse().unwrap(), 1);
    let connections: Vec<_> = addresses(1).filter_map(|address| callers.connection(peer(address))).collect();
    let work: Vec<_> = attackers.iter().filter_map(|caller| caller.work().ok()).collect();
    let streams: Vec<_> = attackers.iter().filter_map(|caller| caller.stream().ok()).collect();
    let long_polls: Vec<_> = attackers.iter().filter_map(|caller| caller.long_poll(true)).collect();
    assert_eq!([connections.len(), work.len(), streams.len(), long_polls.len()], [4; 4]);
    // The control: who comes from another one has permits.
    let other = &others[0];
    assert!(other.work().is_ok() && other.stream().is_ok() && other.long_poll(true).is_some());
    assert!(callers.connection(peer("2001:db8:2::1".to_owned())).is_some());
    drop(work);
    assert!(attackers[31].work().is_ok());
}

#[test]
fn a_long_body_costs_more_than_a_short_one() {
    assert_eq!([0, 1, 4_096, 4_097, 8_192, 65_536].map(price::length), [0, 0, 0, 1, 1, 15]);
    let callers = Callers::new(&limits(|_| ()), 100);
    let accepted = |originator: &str, bytes: usize| {
        (0..100).take_while(|_| caller(&callers, "198.51.100.1").accept(originator, bytes).is_ok()).count()
    };
    assert!((20..=22).contains(&accepted("eip155:0xaa", 4_096)));
    assert_eq!(accepted("eip155:0xbb", 65_536), 1);
}

#[test]
fn who_is_exempt_is_not_counted_and_is_told_nothing() {
    let networks = |text: &str| super::limits::Networks::parse([text]).unwrap();
    let callers = Callers::new(
        &limits(|config| {
            config.exempt = networks("198.51.100.0/24");
            config.trusted_proxies = networks("10.0.0.0/8");
            config.connections_per_address_max = 1;
            config.event_streams_per_address_max = 1;
        }),
        0,
    );
    let exempt = caller(&callers, "198.51.100.1");
    for _ in 0..100 {
        exempt.spend(Kind::Unsigned, 20).unwrap();
        exempt.accept("eip155:0xaa", 1).unwrap();
    }
    let _streams = (exempt.stream().unwrap(), exempt.stream().unwrap());
    assert!(exempt.long_poll(false).is_some());
    let mut headers = HeaderMap::new();
    exempt.declare(&mut headers);
    assert!(headers.is_empty());
    // A trusted proxy connects for many, who are counted.
    let proxy = SocketAddr::from(([10, 0, 0, 1], 1));
    let _connections = (callers.connection(proxy).unwrap(), callers.connection(proxy).unwrap());
    headers.insert("x-forwarded-for", HeaderValue::from_static("203.0.113.5"));
    let behind = callers.identify(Some(proxy), &headers);
    assert!((1..=2).contains(&spent(&behind, Kind::Unsigned, 20)));
    headers.insert("x-forwarded-for", HeaderValue::from_static("198.51.100.1"));
    assert!(callers.identify(Some(proxy), &headers).is_exempt());
}

#[test]
fn the_headers_tell_what_is_left() {
    let callers = Callers::new(&limits(|config| config.unsigned.per_second = 2), 100);
    let one = caller(&callers, "198.51.100.1");
    one.spend(Kind::Unsigned, 5).unwrap();
    one.accept("eip155:0xaa", 1).unwrap();
    let mut headers = HeaderMap::new();
    one.declare(&mut headers);
    assert_eq!(headers[RATE_LIMIT_POLICY], r#""unsigned";q=20;w=10, "accepted";q=20;w=20"#);
    assert_eq!(headers[RATE_LIMIT], r#""unsigned";r=15;t=3, "accepted";r=19;t=1"#);
}
