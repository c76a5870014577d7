//! Server-sent events: a reader of the stream's bytes, after WHATWG HTML, 9.2.6. It holds one event at a time, and of that no more
//! than [`EVENT_BYTES_MAX`].

use std::time::Duration;

/// Largest event that is read, in bytes.
pub(crate) const EVENT_BYTES_MAX: usize = 1024 * 1024;
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// An event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Event {
    /// The data, its lines joined.
    pub data: String,
    /// The last id that the stream has named so far.
    pub id: Option<String>,
}

/// The stream has an event that is larger than what is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an event of more than {EVENT_BYTES_MAX} bytes")]
pub(crate) struct TooLarge;

/// What was read of a stream.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    line: Vec<u8>,
    data: Vec<u8>,
    has_data: bool,
    id: Option<String>,
    pause: Option<Duration>,
    /// The line before ended with a carriage return, to which a line feed belongs.
    after_return: bool,
    begun: bool,
}

impl Reader {
    /// The events that are complete with these bytes.
    pub(crate) fn read(&mut self, bytes: &[u8]) -> Result<Vec<Event>, TooLarge> {
        let mut events = Vec::new();
        for byte in bytes {
            match byte {
                b'\n' if self.after_return => self.after_return = false,
                b'\n' | b'\r' => {
                    self.after_return = *byte == b'\r';
                    events.extend(self.end_line());
                }
                byte => {
                    self.after_return = false;
                    if self.line.len() + self.data.len() >= EVENT_BYTES_MAX {
                        return Err(TooLarge);
                    }
                    self.line.push(*byte);
                }
            }
        }
        Ok(events)
    }

    /// How long the stream wants to be left alone before it is opened again.
    pub(crate) fn pause(&self) -> Option<Duration> {
        self.pause
    }

    fn end_line(&mut self) -> Option<Event> {
        let mut line = std::mem::take(&mut self.line);
        if !std::mem::replace(&mut self.begun, true) && line.starts_with(BYTE_ORDER_MARK) {
            line.drain(..BYTE_ORDER_MARK.len());
        }
        if line.is_empty() {
            return self.end_event();
        }
        let (name, value) = match line.iter().position(|byte| *byte == b':') {
            Some(0) => return None,
            Some(colon) => (&line[..colon], &line[colon + 1..]),
            None => (&line[..], &[][..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match name {
            b"data" => {
                self.data.extend_from_slice(value);
                self.data.push(b'\n');
                self.has_data = true;
            }
            b"id" if !value.contains(&0) => self.id = Some(String::from_utf8_lossy(value).into_owned()),
            b"retry" if value.iter().all(u8::is_ascii_digit) => {
                let milliseconds = std::str::from_utf8(value).ok().and_then(|digits| digits.parse().ok());
                self.pause = milliseconds.map(Duration::from_millis).or(self.pause);
            }
            _ => {}
        }
        None
    }

    /// A block without data is nothing.
    fn end_event(&mut self) -> Option<Event> {
        let mut data = std::mem::take(&mut self.data);
        data.pop();
        let event = Event { data: String::from_utf8_lossy(&data).into_owned(), id: self.id.clone() };
        std::mem::take(&mut self.has_data).then_some(event)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const STREAM: &str = "\u{feff}: a beat\nretry: 1500\nid: 1.0\ndata: {\"a\":\ndata:  1}\n\nid: 2.0\r\ndata: b\r\n\r\n\
                          event: named\rdata\r\rid\ndata: c\n\n: nothing\n\nid: 9\n\ndata: cut o";

    fn event(data: &str, id: Option<&str>) -> Event {
        Event { data: data.to_owned(), id: id.map(str::to_owned) }
    }

    fn expected() -> Vec<Event> {
        vec![event("{\"a\":\n 1}", Some("1.0")), event("b", Some("2.0")), event("", Some("2.0")), event("c", Some(""))]
    }

    proptest! {
        /// However the bytes are cut on their way, the events are the same.
        #[test]
        fn events_are_the_same_however_the_bytes_come(cuts in proptest::collection::vec(0..STREAM.len(), 0..12)) {
            let mut cuts = cuts;
            cuts.extend([0, STREAM.len()]);
            cuts.sort_unstable();
            let mut reader = Reader::default();
            let mut events = Vec::new();
            for cut in cuts.windows(2) {
                events.extend(reader.read(&STREAM.as_bytes()[cut[0]..cut[1]]).unwrap());
            }
            prop_assert_eq!(events, expected());
            prop_assert_eq!(reader.pause(), Some(Duration::from_millis(1_500)));
        }

        /// No bytes make it panic.
        #[test]
        fn any_bytes_are_read(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let _ = Reader::default().read(&bytes);
        }
    }

    #[test]
    fn an_event_without_end_is_not_kept() {
        let mut reader = Reader::default();
        let line = [b'x'; 1024];
        let refused = (0..=EVENT_BYTES_MAX / line.len()).find_map(|_| reader.read(&line).err());
        assert_eq!(refused, Some(TooLarge));
        let mut reader = Reader::default();
        let refused =
            (0..=EVENT_BYTES_MAX / 1000).find_map(|_| reader.read(&[b"data: ", &line[..1000], b"\n"].concat()).err());
        assert_eq!(refused, Some(TooLarge));
    }
}
