//! The picture: whole payments a second, as bars.

use svg::{
    Document,
    node::element::{Group, Line, Rectangle, Style, Text, Title},
};

use bench::report::number;

use crate::figures::Figures;

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 360.0;
/// Where the bars stand, and how high the highest is.
const BASE: f64 = 300.0;
const HIGHEST: f64 = 230.0;
const MARGIN: f64 = 30.0;
const BAR: f64 = 44.0;
const COLOURS: [&str; 4] = ["#2563eb", "#c2410c", "#64748b", "#7c3aed"];
/// Readable on a light page and on a dark one.
const STYLE: &str = "text { font: 13px system-ui, sans-serif; fill: #64748b } .title { font-size: 15px; font-weight: 600 } \
                     .figure { font-size: 12px } line { stroke: #94a3b8 }";

/// Bars of `figures` in groups by payments in flight; `note` says where and when they come from.
pub fn picture(figures: &[Figures], note: &str) -> String {
    let mut in_flight: Vec<usize> = figures.iter().map(|figures| figures.in_flight).collect();
    in_flight.sort_unstable();
    in_flight.dedup();
    let mut stores: Vec<&str> = Vec::new();
    for figures in figures {
        if !stores.contains(&figures.store) {
            stores.push(figures.store);
        }
    }
    let most = figures.iter().map(|figures| figures.payments_per_second).fold(1.0, f64::max);
    let mut document = Document::new()
        .set("viewBox", (0, 0, WIDTH, HEIGHT))
        .set("role", "img")
        .add(Title::new("Whole payments a second of the same engine, by store and payments in flight"))
        .add(Style::new(STYLE))
        .add(text("Whole payments a second of the same engine, by store", MARGIN, 24.0).set("class", "title"))
        .add(Line::new().set("x1", MARGIN).set("x2", WIDTH - MARGIN).set("y1", BASE).set("y2", BASE));
    let group_width = (WIDTH - 2.0 * MARGIN) / in_flight.len().max(1) as f64;
    for (place, in_flight) in in_flight.iter().enumerate() {
        let middle = MARGIN + group_width * (place as f64 + 0.5);
        let left = middle - stores.len() as f64 * BAR / 2.0;
        let mut group = Group::new();
        for (index, store) in stores.iter().enumerate() {
            let found = figures.iter().find(|one| one.in_flight == *in_flight && one.store == *store);
            let Some(rate) = found.map(|figures| figures.payments_per_second) else { continue };
            let (x, height) = (left + index as f64 * BAR, HIGHEST * rate / most);
            let bar = Rectangle::new()
                .set("x", x + 3.0)
                .set("y", BASE - height)
                .set("width", BAR - 6.0)
                .set("height", height)
                .set("fill", colour(index));
            let figure = text(&number(rate.round()), x + BAR / 2.0, BASE - height - 6.0);
            group = group.add(bar).add(figure.set("class", "figure").set("text-anchor", "middle"));
        }
        let label = text(&format!("{} in flight", number(*in_flight as f64)), middle, BASE + 20.0);
        document = document.add(group.add(label.set("text-anchor", "middle")));
    }
    let mut x = MARGIN;
    for (index, store) in stores.iter().enumerate() {
        let mark = Rectangle::new().set("x", x).set("y", 34.0).set("width", 12).set("height", 12);
        document = document.add(mark.set("fill", colour(index))).add(text(store, x + 18.0, 45.0));
        x += 40.0 + 8.0 * store.len() as f64;
    }
    let note = text(note, MARGIN, HEIGHT - 14.0).set("class", "figure");
    format!("{}\n", document.add(note))
}

fn colour(index: usize) -> &'static str {
    COLOURS[index % COLOURS.len()]
}

fn text(content: &str, x: f64, y: f64) -> Text {
    Text::new(content).set("x", x).set("y", y)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::tests::round;

    #[test]
    fn the_highest_bar_has_the_whole_height_and_what_is_said_is_escaped() {
        let figures = |store, rate| Figures::of(store, &[&round(1_024, rate, 1.0)], 0.0).unwrap();
        let drawn = picture(&[figures("one", 1_000.0), figures("two", 2_500.0)], "a < b");
        assert!(drawn.contains("1,024 in flight") && drawn.contains("2,500") && drawn.contains("a &lt; b"), "{drawn}");
        assert!(drawn.contains(&format!("height=\"{HIGHEST}\"")), "{drawn}");
        assert!(drawn.contains(&format!("height=\"{}\"", HIGHEST * 0.4)), "{drawn}");
    }
}
