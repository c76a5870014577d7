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

/// The gateway's example with the set of verifiers that it shows, instead of the single one.
pub fn with_verifier_set(example: &str) -> String {
    let (head, rest) = example.split_once("[verifier]\n").unwrap_or((example, ""));
    let (_, rest) = rest.split_once("\n\n").unwrap_or_default();
    let single = "\nreleaser = \"0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC\"\n";
    let id = "\nreleaser = \"0xab6791deaeb7ebd31a72dd693fe88da12308ba25\"\n";
    format!("{head}{}\n{}", commented(example, "[verifier]"), rest.replace(single, id))
}

/// A section that stands in an example as a comment, as it could stand in the file. Empty when there is none.
pub fn commented(example: &str, header: &str) -> String {
    let line = |line: &str| line.strip_prefix("#   ").or(line.strip_prefix('#')).map(str::to_owned);
    let begin = format!("#   {header}");
    let lines: Vec<String> = example.lines().skip_while(|line| *line != begin).map_while(line).collect();
    lines.iter().map(|line| format!("{line}\n")).collect()
}
