//! Amounts as people read them: with the decimal point and the symbol that the configuration has for the asset.

use chains::config::AssetConfig;
use events::AssetId;

use super::texts::filled;
use crate::{docs::html::escape, state::HttpState};

/// An amount of an asset as HTML. `units` are of its smallest unit, decimal; of an asset that is not served they are shown as
/// they are.
pub(crate) fn amount(state: &HttpState, asset: &str, units: &str) -> String {
    match asset.parse::<AssetId>().ok().and_then(|asset| served(state, &asset)) {
        Some(served) => format!("{} {}", escape(&with_point(units, served.decimals)), escape(&served.symbol)),
        None => filled("field.unit", &[("amount", &escape(units)), ("asset", &escape(asset))]),
    }
}

/// The symbol of an asset, where it is served.
pub(crate) fn symbol<'a>(state: &'a HttpState, asset: &AssetId) -> Option<&'a str> {
    served(state, asset).map(|served| served.symbol.as_str())
}

fn served<'a>(state: &'a HttpState, asset: &AssetId) -> Option<&'a AssetConfig> {
    let served = &state.corridors.get(asset.chain())?.assets;
    served.iter().find(|served| served.asset_identifier == *asset)
}

/// Digits with the decimal point so many places from their end.
fn with_point(units: &str, decimals: u8) -> String {
    let places = usize::from(decimals);
    if units.is_empty() || !units.bytes().all(|c| c.is_ascii_digit()) {
        return units.to_owned();
    }
    let padded = format!("{units:0>width$}", width = places + 1);
    let (whole, fraction) = padded.split_at(padded.len() - places);
    match fraction.trim_end_matches('0') {
        "" => whole.to_owned(),
        fraction => format!("{whole}.{fraction}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_exact() {
        for (units, decimals, shown) in [
            ("25000000", 6, "25"),
            ("25500000", 6, "25.5"),
            ("1", 18, "0.000000000000000001"),
            ("1000000000000000001", 18, "1.000000000000000001"),
            ("7", 0, "7"),
            ("0", 6, "0"),
            ("", 6, ""),
            ("<b>", 6, "<b>"),
        ] {
            assert_eq!(with_point(units, decimals), shown);
        }
    }
}
