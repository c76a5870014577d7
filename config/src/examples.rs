//! The example files with what is commented out in them switched on, for tests of whoever reads configuration.

/// The chain of another family in an example, switched on: a section that could stand in the file as it is. Empty when
/// there is none.
pub fn section(example: &str, namespace: &str) -> String {
    let sections = example.split("#   [[chains]]").skip(1).map(|section| {
        let line = |line: &str| line.strip_prefix("#   ").or(line.strip_prefix('#')).map(str::to_owned);
        let lines: Vec<String> = section.lines().skip(1).map_while(line).collect();
        format!("\n[[chains]]\n{}\n", lines.join("\n"))
    });
    let id = format!("\nchain_id = \"{namespace}:");
    sections.into_iter().find(|section| section.contains(&id)).unwrap_or_default()
}

/// The Solana chain of an example.
pub fn solana_section(example: &str) -> String {
    section(example, "solana")
}

/// The gateway's example with its Solana chain and that chain's verifier.
pub fn with_solana(example: &str) -> String {
    let account = "[verifier]\nsolana_account = \"8SFqwqnq4whPhs8icwHA2hQg3hUoN1qrCLK1SBx3WKwe\"";
    format!("{}{}", example.replacen("[verifier]", account, 1), solana_section(example))
}

/// The gateway's example with its Tron chain and that chain's verifier.
pub fn with_tron(example: &str) -> String {
    let account = "[verifier]\ntron_account = \"TFTsyAaajS3DTEbekme2wm9fNcypguDHp4\"";
    format!("{}{}", example.replacen("[verifier]", account, 1), section(example, "tron"))
}
