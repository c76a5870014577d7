//! Payloads of signed messages: handed on from the stored request to whoever quotes, delivers and verifies.

use events::event::Submitted;

use super::*;

/// The body of a submission with two payloads, and what is left of them on their way.
const REQUEST: &str = r#"{"request_id": "one", "sender_auth": {"message_scheme": "x", "signed_messages": [
    {"message": "0x11", "payload": {"order": 12345678901234567890123, "text": "a \" b"}}, {"message": "0x12"},
    {"message": "0x13", "payload": {}}]}}"#;
const SAID: &str = r#"[{"order":12345678901234567890123,"text":"a \" b"},{}]"#;

/// What each port was shown when the payment came to rest, driven as it is from what is stored.
async fn shown(world: World) -> (Vec<&'static str>, BTreeMap<&'static str, Vec<Payload>>) {
    let world = Arc::new(world);
    let submitted = Submitted { request: REQUEST.to_owned(), ..submission() };
    let payment = append(&world, PaymentEvent::Submitted(Box::new(submitted))).await;
    drive(&world, &payment).await;
    let events = history(&world, &payment).await;
    let PaymentEvent::Submitted(stored) = &events[0] else { panic!("{events:?}") };
    assert_eq!(stored.request, REQUEST, "what is stored stays as it came");
    let shown = world.state.lock().unwrap().payloads.clone();
    (types(&events), shown)
}

#[tokio::test]
async fn what_the_payer_says_of_its_messages_leaves_the_gateway_whoever_dies_in_between() {
    let said: Vec<Payload> = serde_json::from_str(SAID).unwrap();
    for (plot, expected, last) in
        [(Plot::Delivers, DELIVERED, "delivery"), (Plot::Vanishes, UNDELIVERED, "non-delivery")]
    {
        let to_whom: BTreeMap<_, _> = ["quotes", "award", last].map(|asked| (asked, said.clone())).into();
        assert_eq!(shown(World::new(plot)).await, (expected.to_vec(), to_whom.clone()), "{plot:?}");
        for number in 1..20 {
            let world = World { stop_at: Some((number, true)), ..World::new(plot) };
            assert_eq!(shown(world).await, (expected.to_vec(), to_whom.clone()), "{plot:?} died at {number}");
        }
    }
}
