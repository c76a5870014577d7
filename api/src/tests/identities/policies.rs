//! Policies: what they decide by credentials and proofs.

use super::*;

#[tokio::test]
async fn policies_know_what_issuers_say() {
    let (alice, bank) = (holder(1), holder(9));
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, text: String| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let issuer = bank.did();
    let policies = file(
        "policies.cedar",
        format!(
            r#"@id("swiss") permit (principal, action, resource) when {{
                principal.proven_by == "envelope" &&
                principal.credentials.contains({{ issuer: "{issuer}", type: "KycCredential" }}) &&
                principal.claims.containsAll([
                    {{ issuer: "{issuer}", type: "KycCredential", name: "known", value: "true" }},
                    {{ issuer: "{issuer}", type: "KycCredential", name: "address.country", value: "LI" }}
                ])
            }};"#
        ),
    );
    let deny = file("deny.txt", format!("{}\n", holder(4).did()));
    let gateway = Gateway::configured(|config| {
        config.counterparty.policy_file = Some(policies);
        config.counterparty.deny_list = Some(deny);
    });
    let present = |holder: &Holder, credential: Value| {
        holder.envelope(&body(), Suite::EddsaJcs2022, &[credential], at(NOW)).unwrap()
    };
    let subject = |holder: &Holder| holder.did().to_string();
    let abroad = bank.credential(&subject(&alice), "KycCredential", &claims("US"), at(NOW)).unwrap();
    let own = alice.credential(&subject(&alice), "KycCredential", &claims("LI"), at(NOW)).unwrap();
    let other = bank.credential(&subject(&alice), "AgeCredential", &claims("LI"), at(NOW)).unwrap();
    for declined in [
        body(),
        enveloped(&alice, &body()),
        present(&alice, abroad),
        present(&alice, own),
        present(&alice, other),
        present(&holder(4), kyc(&bank, &holder(4))),
    ] {
        gateway.post(&declined).await.expect_error(403, "PAYMENT_DECLINED");
    }
    let answer = gateway.post(&present(&alice, kyc(&bank, &alice))).await.expect(200);
    let submitted = gateway.submitted(answer.body["payment_id"].as_str().unwrap()).await;
    assert_eq!(submitted.counterparty.unwrap().policies, ["swiss"]);
    // Who is denied is denied as a sender too, whoever asks for him.
    let mut sent = with("/request_id", json!("order-2"));
    let denied = holder(4);
    let auth = denied.carrier(Carrier::SenderAuth, &sent, &kyc(&bank, &denied)).unwrap();
    sent = alice.envelope(&sent, Suite::EddsaJcs2022, &[kyc(&bank, &alice)], at(NOW)).unwrap();
    set(&mut sent, "/sender_auth/verifiable_credential", auth);
    gateway.post(&sent).await.expect_error(403, "PAYMENT_DECLINED");
}
