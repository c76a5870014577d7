//! `gw console`.

use anyhow::{Result, anyhow};
use clap::{Args as ClapArgs, Subcommand};
use data_encoding::HEXLOWER;

use config::check_operator_name;
use gateway_console::token;

/// Arguments of `gw console`.
#[derive(Debug, ClapArgs)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Make the token of an operator, and the lines of gateways' configurations that go with it. It is shown this once, and
    /// kept nowhere.
    Token {
        /// By which name the operator's acts are recorded.
        #[arg(long)]
        name: String,
        /// Let the operator act; it may look in any case.
        #[arg(long)]
        acts: bool,
    },
}

/// Carries out one order.
///
/// # Errors
/// When the name cannot be an operator's.
pub fn run(args: Args) -> Result<()> {
    let Command::Token { name, acts } = args.command;
    check_operator_name(&name).map_err(|rule| anyhow!("--name {rule}"))?;
    let token = token::random();
    super::answer(&described(&name, acts, &token))
}

/// The token, and the section for it.
fn described(name: &str, acts: bool, token: &str) -> String {
    let digest = HEXLOWER.encode(&token::digest(token));
    format!(
        "The token, for the operator alone; it is shown this once:\n\n{token}\n\nFor the configuration of each gateway, \
         beside `[console] listen = \"127.0.0.1:8099\"` or the like:\n\n\
         [[console.operators]]\nname = \"{name}\"\ntoken_sha256 = \"{digest}\"\nacts = {acts}"
    )
}

#[cfg(test)]
mod tests {
    use config::ConsoleConfig;

    use super::*;

    #[test]
    fn the_lines_are_a_section_that_knows_the_token_and_does_not_hold_it() {
        #[derive(serde::Deserialize)]
        struct File {
            console: ConsoleConfig,
        }
        let token = token::random();
        let text = described("Zoë K.", true, &token);
        let (said, section) = text.split_once("the like:\n\n").unwrap();
        assert!(said.contains(&token) && !section.contains(&token));
        let file: File = toml::from_str(section).unwrap();
        let [operator] = &file.console.operators[..] else { panic!("one operator") };
        assert_eq!((operator.name.as_str(), operator.acts), ("Zoë K.", true));
        assert_eq!(operator.token_digest(), Some(token::digest(&token)));
    }
}
