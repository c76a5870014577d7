//! `gw settlers`: the records of a gateway's settlers, from its HTTP API.

use anyhow::{Result, bail};
use chrono::SecondsFormat;
use clap::Args as ClapArgs;

use events::{Did, time::Timestamp};
use gateway_client::{Gateway, Settler};

use super::pay::{plain, plain_error};

/// Pages that are read at most: a gateway that never comes to an end is not followed for ever.
const PAGES_MAX: usize = 1_000;
/// The head of the table. A DID may be long, so it is last.
const HEAD: [&str; 14] = [
    "ASKED",
    "OFFERED",
    "DECLINED",
    "WON",
    "ACKNOWLEDGED",
    "REFUSED",
    "UNANSWERED",
    "DELIVERED",
    "LATE",
    "MISSED",
    "MEDIAN",
    "LAST WON",
    "PASSED OVER UNTIL",
    "SETTLER",
];

/// Arguments of `gw settlers`.
#[derive(Debug, ClapArgs)]
pub struct Args {
    /// The gateway's address.
    #[arg(long, env = "GW_GATEWAY")]
    gateway: String,
    /// As JSON.
    #[arg(long)]
    json: bool,
    /// This settler alone; all that were ever asked unless named.
    #[arg(value_name = "DID")]
    settler: Option<Did>,
}

/// Shows the records.
///
/// # Errors
/// When the gateway does not answer, or knows no such settler.
pub async fn run(args: &Args) -> Result<()> {
    let shown = show(args).await.map_err(|error| plain_error(&error))?;
    super::answer(&shown)
}

async fn show(args: &Args) -> Result<String> {
    let gateway = Gateway::new(&args.gateway)?;
    if let Some(settler) = &args.settler {
        let settler = gateway.settler(settler).await?;
        return if args.json { Ok(serde_json::to_string_pretty(&settler)?) } else { Ok(table(&[settler])) };
    }
    let settlers = all(&gateway).await?;
    Ok(match args.json {
        true => serde_json::to_string_pretty(&settlers)?,
        false if settlers.is_empty() => "no settler was ever asked".to_owned(),
        false => table(&settlers),
    })
}

async fn all(gateway: &Gateway) -> Result<Vec<Settler>> {
    let (mut settlers, mut cursor) = (Vec::new(), None);
    for _ in 0..PAGES_MAX {
        let page = gateway.settlers(cursor.as_deref()).await?;
        settlers.extend(page.settlers);
        cursor = page.next_cursor;
        if cursor.is_none() {
            return Ok(settlers);
        }
    }
    bail!("the gateway lists more settlers than {PAGES_MAX} pages of them; name one by its DID")
}

/// The records, a line each, in columns that are as wide as what is in them.
fn table(settlers: &[Settler]) -> String {
    let rows: Vec<[String; HEAD.len()]> = settlers.iter().map(row).collect();
    let widths: Vec<usize> = (0..HEAD.len())
        .map(|column| rows.iter().map(|row| row[column].chars().count()).chain([HEAD[column].len()]).max().unwrap_or(0))
        .collect();
    let line = |cells: Vec<&str>| {
        let cells = cells.iter().zip(&widths).enumerate().map(|(column, (cell, width))| match column {
            // Numbers end where their head ends; nothing is behind the DID.
            0..=10 => format!("{cell:>width$}"),
            11 | 12 => format!("{cell:<width$}"),
            _ => (*cell).to_owned(),
        });
        cells.collect::<Vec<_>>().join("  ")
    };
    let head = line(HEAD.to_vec());
    let lines = rows.iter().map(|row| line(row.iter().map(String::as_str).collect()));
    [head].into_iter().chain(lines).collect::<Vec<_>>().join("\n")
}

fn row(settler: &Settler) -> [String; HEAD.len()] {
    let time =
        |at: Option<Timestamp>| at.map_or_else(|| "-".to_owned(), |at| at.to_rfc3339_opts(SecondsFormat::Secs, true));
    let counts = [
        settler.asked,
        settler.offered,
        settler.declined,
        settler.won,
        settler.acknowledged,
        settler.refused,
        settler.unanswered,
        settler.delivered,
        settler.late,
        settler.missed,
    ];
    let [asked, offered, declined, won, acknowledged, refused, unanswered, delivered, late, missed] =
        counts.map(|count| count.to_string());
    let median = settler.median_delivery_seconds.map_or_else(|| "-".to_owned(), |seconds| format!("{seconds} s"));
    [
        asked,
        offered,
        declined,
        won,
        acknowledged,
        refused,
        unanswered,
        delivered,
        late,
        missed,
        median,
        time(settler.last_won_at),
        time(settler.passed_over_until),
        plain(settler.settler.as_str()),
    ]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn settler(did: &str, delivered: u64, passed_over: bool) -> Settler {
        let mut record = json!({
            "settler": did, "asked": 1204, "offered": 7, "declined": 0, "won": 5, "acknowledged": 5, "refused": 0,
            "unanswered": 0, "delivered": delivered, "late": 0, "missed": 1,
        });
        if passed_over {
            record["median_delivery_seconds"] = json!(6);
            record["last_won_at"] = json!("2030-01-01T00:00:01.730Z");
            record["passed_over_until"] = json!("2030-01-01T00:01:01Z");
        }
        serde_json::from_value(record).unwrap()
    }

    #[test]
    fn a_table_has_a_line_a_settler_and_columns_in_line() {
        let text = table(&[settler("did:example:a", 1_000_000_000, true), settler("did:example:b", 4, false)]);
        let lines: Vec<&str> = text.lines().collect();
        let ends = |line: &str, word: &str| line.find(word).map(|at| at + word.len());
        assert_eq!(lines.len(), 3);
        assert_eq!(ends(lines[0], "ASKED"), ends(lines[1], "1204"));
        assert_eq!(ends(lines[0], "DELIVERED"), ends(lines[1], "1000000000"));
        for line in &lines[1..] {
            assert_eq!(line.find("did:example"), lines[0].find("SETTLER"), "{text}");
        }
        assert!(lines[1].contains("6 s  2030-01-01T00:00:01Z  2030-01-01T00:01:01Z"), "{text}");
    }
}
