//! Frames of the NATS client protocol, as both sides send them: operations with their payloads, read exactly and written as they
//! came.

use std::io;

use bytes::{Buf, BytesMut};

/// Most bytes of a line; a server's INFO and a client's CONNECT are the longest.
const LINE_BYTES_MAX: usize = 256 * 1024;
/// Most bytes of a payload with its headers, as a server's hard limit is.
const PAYLOAD_BYTES_MAX: usize = 64 * 1024 * 1024;

/// An operation by what a proxy has to know of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Op {
    /// A client says who it is, in JSON.
    Connect,
    /// A client publishes.
    Publish {
        /// The subject.
        subject: String,
        /// Where an answer goes.
        reply: Option<String>,
        /// Bytes of the payload that are headers.
        headers: usize,
    },
    /// A client subscribes.
    Subscribe {
        /// The subject, with wildcards.
        subject: String,
        /// Number of the subscription.
        sid: String,
    },
    /// A client ends a subscription, at once or after a number of messages.
    Unsubscribe {
        /// Number of the subscription.
        sid: String,
        /// Whether it ends later.
        is_later: bool,
    },
    /// A server delivers a message.
    Message {
        /// The subject.
        subject: String,
        /// Number of the subscription.
        sid: String,
        /// Where an answer goes.
        reply: Option<String>,
        /// Bytes of the payload that are headers.
        headers: usize,
    },
    /// INFO, PING, PONG, +OK and -ERR.
    Other,
}

/// An operation and the bytes it came in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Frame {
    pub op: Op,
    /// The line, with its end.
    pub line: Vec<u8>,
    /// The payload, with its end; empty where the operation has none.
    pub payload: Vec<u8>,
}

impl Frame {
    /// All its bytes, as they are sent.
    pub fn bytes(&self) -> Vec<u8> {
        [self.line.as_slice(), self.payload.as_slice()].concat()
    }

    /// Headers and body, without the payload's end.
    pub fn content(&self) -> &[u8] {
        &self.payload[..self.payload.len().saturating_sub(2)]
    }
}

/// A message as a server delivers it.
pub(super) fn message(subject: &str, sid: &str, reply: Option<&str>, headers: usize, content: &[u8]) -> Frame {
    let reply = reply.map(str::to_owned);
    let named = reply.as_ref().map_or_else(String::new, |reply| format!("{reply} "));
    let line = match headers {
        0 => format!("MSG {subject} {sid} {named}{}\r\n", content.len()),
        _ => format!("HMSG {subject} {sid} {named}{headers} {}\r\n", content.len()),
    };
    let op = Op::Message { subject: subject.to_owned(), sid: sid.to_owned(), reply, headers };
    Frame { op, line: line.into_bytes(), payload: [content, b"\r\n"].concat() }
}

/// Takes the next frame off `buffer`, once it is there whole.
///
/// # Errors
/// When neither a client nor a server sends the like.
pub(super) fn next(buffer: &mut BytesMut) -> io::Result<Option<Frame>> {
    let Some(end) = buffer.windows(2).position(|two| two == b"\r\n") else {
        return if buffer.len() > LINE_BYTES_MAX { Err(malformed("a line does not end")) } else { Ok(None) };
    };
    let (op, payload) = parse(&buffer[..end])?;
    let line = end + 2;
    let whole = line + payload.map_or(0, |bytes| bytes + 2);
    if buffer.len() < whole {
        return Ok(None);
    }
    let frame = Frame { op, line: buffer[..line].to_vec(), payload: buffer[line..whole].to_vec() };
    if payload.is_some() && !frame.payload.ends_with(b"\r\n") {
        return Err(malformed("a payload does not end where it should"));
    }
    buffer.advance(whole);
    Ok(Some(frame))
}

/// The operation in a line, and the length of the payload that follows.
fn parse(line: &[u8]) -> io::Result<(Op, Option<usize>)> {
    let text = String::from_utf8_lossy(line);
    let mut words = text.split([' ', '\t']).filter(|word| !word.is_empty());
    let verb = words.next().unwrap_or_default().to_ascii_uppercase();
    let words: Vec<&str> = match verb.as_str() {
        // What follows is JSON or text.
        "CONNECT" => return Ok((Op::Connect, None)),
        "INFO" | "PING" | "PONG" | "+OK" | "-ERR" => return Ok((Op::Other, None)),
        _ => words.collect(),
    };
    let named = |word: &str| Some(word.to_owned());
    let (op, payload) = match (verb.as_str(), words.as_slice()) {
        ("PUB", [subject, length]) => (publish(subject, None, 0), length),
        ("PUB", [subject, reply, length]) => (publish(subject, named(reply), 0), length),
        ("HPUB", [subject, headers, length]) => (publish(subject, None, number(headers)?), length),
        ("HPUB", [subject, reply, headers, length]) => (publish(subject, named(reply), number(headers)?), length),
        ("MSG", [subject, sid, length]) => (delivered(subject, sid, None, 0), length),
        ("MSG", [subject, sid, reply, length]) => (delivered(subject, sid, named(reply), 0), length),
        ("HMSG", [subject, sid, headers, length]) => (delivered(subject, sid, None, number(headers)?), length),
        ("HMSG", [subject, sid, reply, headers, length]) => {
            (delivered(subject, sid, named(reply), number(headers)?), length)
        }
        ("SUB", [subject, sid] | [subject, _, sid]) => {
            return Ok((Op::Subscribe { subject: (*subject).to_owned(), sid: (*sid).to_owned() }, None));
        }
        ("UNSUB", [sid]) => return Ok((Op::Unsubscribe { sid: (*sid).to_owned(), is_later: false }, None)),
        ("UNSUB", [sid, _]) => return Ok((Op::Unsubscribe { sid: (*sid).to_owned(), is_later: true }, None)),
        _ => return Err(malformed("an unknown operation, or one with other arguments")),
    };
    let length = number(payload)?;
    if length > PAYLOAD_BYTES_MAX {
        return Err(malformed("a payload is longer than a server takes"));
    }
    Ok((op, Some(length)))
}

fn publish(subject: &str, reply: Option<String>, headers: usize) -> Op {
    Op::Publish { subject: subject.to_owned(), reply, headers }
}

fn delivered(subject: &str, sid: &str, reply: Option<String>, headers: usize) -> Op {
    Op::Message { subject: subject.to_owned(), sid: sid.to_owned(), reply, headers }
}

fn number(word: &str) -> io::Result<usize> {
    word.parse().map_err(|_| malformed("a length is not a number"))
}

fn malformed(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH_SIDES: &str = "INFO {\"a\":\"b c\"}\r\nCONNECT {\"user\":\"x y\"}\r\nPING\r\nPONG\r\n+OK\r\n-ERR 'Slow Consumer'\r\n\
        PUB a.b 5\r\nhello\r\nPUB a.b _INBOX.1 0\r\n\r\nHPUB a.b 12 14\r\nNATS/1.0\r\n\r\nok\r\n\
        HPUB a.b r.1 12 12\r\nNATS/1.0\r\n\r\n\r\nSUB a.> 7\r\nSUB a.> q 8\r\nUNSUB 7\r\nUNSUB 8 3\r\n\
        MSG a.b 7 3\r\nM\r\n\r\nMSG a.b 7 r.2 2\r\nhi\r\nHMSG a.b 7 12 13\r\nNATS/1.0\r\n\r\n!\r\nHMSG a.b 7 r.3 12 12\r\nNATS/1.0\r\n\r\n\r\n";

    fn read(bytes: &mut BytesMut) -> Vec<Frame> {
        std::iter::from_fn(|| next(bytes).unwrap()).collect()
    }

    #[test]
    fn both_sides_are_read_however_they_are_cut_and_written_as_they_came() {
        let whole = read(&mut BytesMut::from(BOTH_SIDES));
        let written: Vec<u8> = whole.iter().flat_map(Frame::bytes).collect();
        assert_eq!(String::from_utf8(written).unwrap(), BOTH_SIDES);
        assert_eq!(whole.len(), 18);
        for at in 0..BOTH_SIDES.len() {
            let mut bytes = BytesMut::from(&BOTH_SIDES[..at]);
            let mut frames = read(&mut bytes);
            bytes.extend_from_slice(&BOTH_SIDES.as_bytes()[at..]);
            frames.extend(read(&mut bytes));
            assert_eq!(frames, whole, "cut at {at}");
        }
    }

    #[test]
    fn what_is_said_is_understood() {
        let ops: Vec<Op> = read(&mut BytesMut::from(BOTH_SIDES)).into_iter().map(|frame| frame.op).collect();
        assert_eq!(ops[7], publish("a.b", Some("_INBOX.1".to_owned()), 0));
        assert_eq!(ops[9], publish("a.b", Some("r.1".to_owned()), 12));
        assert_eq!(ops[11], Op::Subscribe { subject: "a.>".to_owned(), sid: "8".to_owned() });
        assert_eq!(ops[13], Op::Unsubscribe { sid: "8".to_owned(), is_later: true });
        assert_eq!(ops[17], delivered("a.b", "7", Some("r.3".to_owned()), 12));
        let made = message("a.b", "7", Some("r.3"), 12, b"NATS/1.0\r\n\r\n");
        assert_eq!(read(&mut BytesMut::from(made.bytes().as_slice())), [made]);
    }

    #[test]
    fn what_nobody_sends_is_refused() {
        for sent in ["PUB a\r\n", "MSG a b c d e\r\n", "PUB a x\r\n", "PUB a 1\r\nab\r\n", "\r\n", "PUB a 67108865\r\n"]
        {
            assert!(next(&mut BytesMut::from(sent)).is_err(), "{sent}");
        }
        assert!(next(&mut BytesMut::from(&vec![b'x'; LINE_BYTES_MAX + 1][..])).is_err());
    }
}
