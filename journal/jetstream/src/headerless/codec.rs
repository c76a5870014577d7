//! Codec: decoder of what a NATS server sends to a client without headers.

use std::io;

use bytes::{Buf, Bytes, BytesMut};
use tokio_util::codec::Decoder;

use super::Message;

/// Most bytes of a line; the server bounds subjects far below.
const LINE_BYTES_MAX: usize = 128 * 1024;
/// Most bytes of a payload: more than nats-server lets anybody publish. nats.conf allows 1 MB, and settlers 64 KiB.
const PAYLOAD_BYTES_MAX: usize = 64 * 1024 * 1024;

/// What a server sends.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ServerOp {
    /// What it is, in JSON.
    Info(Bytes),
    /// A message of the subscription of this number.
    Message(u64, Message),
    /// It asks whether the client is there.
    Ping,
    /// All that was asked before a ping is done.
    Pong,
    /// A request was taken.
    Taken,
    /// A request was refused, or the connection is about to end.
    Refused(String),
}

/// Reads [`ServerOp`]s.
#[derive(Debug, Default)]
pub(super) struct Codec {
    /// The message whose payload is still to come, and the payload's bytes.
    begun: Option<(u64, String, Option<String>, usize)>,
}

impl Decoder for Codec {
    type Item = ServerOp;
    type Error = io::Error;

    fn decode(&mut self, bytes: &mut BytesMut) -> io::Result<Option<ServerOp>> {
        if self.begun.is_none() {
            let Some(line) = line(bytes)? else { return Ok(None) };
            match verb(&line)? {
                Verb::Op(op) => return Ok(Some(op)),
                Verb::Message(id, subject, reply, length) => self.begun = Some((id, subject, reply, length)),
            }
        }
        let Some((_, _, _, length)) = &self.begun else { return Ok(None) };
        let whole = length + 2;
        if bytes.len() < whole {
            bytes.reserve(whole - bytes.len());
            return Ok(None);
        }
        let payload = bytes.split_to(*length).freeze();
        if bytes.split_to(2) != "\r\n" {
            return Err(malformed("a payload does not end where it should"));
        }
        let Some((id, subject, reply, _)) = self.begun.take() else { return Ok(None) };
        Ok(Some(ServerOp::Message(id, Message { subject, reply, payload })))
    }
}

enum Verb {
    Op(ServerOp),
    Message(u64, String, Option<String>, usize),
}

/// The next line without its end, once it is there.
fn line(bytes: &mut BytesMut) -> io::Result<Option<Bytes>> {
    let Some(end) = bytes.windows(2).position(|two| two == b"\r\n") else {
        return if bytes.len() > LINE_BYTES_MAX { Err(malformed("a line does not end")) } else { Ok(None) };
    };
    let line = bytes.split_to(end).freeze();
    bytes.advance(2);
    Ok(Some(line))
}

/// A line by its first word. A subject may hold any bytes but those that nats-server takes for the end of a word or line, since it
/// checks subjects for clients alone that ask for it; so nothing in one is an error here.
fn verb(line: &Bytes) -> io::Result<Verb> {
    let end = line.iter().position(|byte| is_blank(*byte)).unwrap_or(line.len());
    let rest = line.slice((end + 1).min(line.len())..);
    let op = match line[..end].to_ascii_uppercase().as_slice() {
        b"MSG" => return message(&rest),
        b"INFO" => ServerOp::Info(rest),
        b"PING" => ServerOp::Ping,
        b"PONG" => ServerOp::Pong,
        b"+OK" => ServerOp::Taken,
        b"-ERR" => ServerOp::Refused(String::from_utf8_lossy(&rest).trim().trim_matches('\'').to_owned()),
        _ => return Err(malformed("an unknown operation, or one with headers")),
    };
    Ok(Verb::Op(op))
}

/// Whether nats-server ends a word here. It does not at other white space, which a subject may hold.
fn is_blank(byte: u8) -> bool {
    byte == b' ' || byte == b'\t'
}

/// `<subject> <subscription> [reply] <bytes>`.
fn message(rest: &[u8]) -> io::Result<Verb> {
    let words: Vec<&[u8]> = rest.split(|byte| is_blank(*byte)).filter(|word| !word.is_empty()).collect();
    let (subject, id, reply, length) = match words[..] {
        [subject, id, length] => (subject, id, None, length),
        [subject, id, reply, length] => (subject, id, Some(reply), length),
        _ => return Err(malformed("a message without subject, subscription and length")),
    };
    let number = |word: &[u8]| std::str::from_utf8(word).ok().and_then(|word| word.parse::<u64>().ok());
    let (Some(id), Some(length)) = (number(id), number(length).and_then(|length| usize::try_from(length).ok())) else {
        return Err(malformed("the subscription or length of a message is not a number"));
    };
    if length > PAYLOAD_BYTES_MAX {
        return Err(malformed("a message is longer than a server sends"));
    }
    // What is not UTF-8 is no subject of ours, in whatever form it is shown.
    let text = |word: &[u8]| String::from_utf8_lossy(word).into_owned();
    Ok(Verb::Message(id, text(subject), reply.map(text), length))
}

fn malformed(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(codec: &mut Codec, bytes: &mut BytesMut) -> Vec<ServerOp> {
        std::iter::from_fn(|| codec.decode(bytes).unwrap()).collect()
    }

    fn said(subject: &str, reply: Option<&str>, payload: &'static str) -> Message {
        Message { subject: subject.to_owned(), reply: reply.map(str::to_owned), payload: payload.into() }
    }

    #[test]
    fn everything_is_read_however_it_is_cut() {
        let sent = "INFO {\"nonce\":\"n\"}\r\nMSG a.b 1 5\r\nMSG x\r\nMSG a 22 in.box 0\r\n\r\nPING\r\npong\r\n+OK\r\n\
                    -ERR 'Permissions Violation'\r\n";
        let expected = [
            ServerOp::Info("{\"nonce\":\"n\"}".into()),
            ServerOp::Message(1, said("a.b", None, "MSG x")),
            ServerOp::Message(22, said("a", Some("in.box"), "")),
            ServerOp::Ping,
            ServerOp::Pong,
            ServerOp::Taken,
            ServerOp::Refused("Permissions Violation".to_owned()),
        ];
        assert_eq!(read(&mut Codec::default(), &mut BytesMut::from(sent)), expected);
        for at in 0..sent.len() {
            let (mut codec, mut bytes) = (Codec::default(), BytesMut::from(&sent[..at]));
            let mut ops = read(&mut codec, &mut bytes);
            bytes.extend_from_slice(&sent.as_bytes()[at..]);
            ops.extend(read(&mut codec, &mut bytes));
            assert_eq!(ops, expected, "cut at {at}");
        }
    }

    #[test]
    fn a_subject_is_whatever_its_sender_wrote() {
        let sent = b"MSG a.\xff\xfe 1 1\r\nx\r\nMSG a.b\x0c22 1 2\r\nyy\r\nMSG a\x0b\0 3 r\x0c.\xff 0\r\n\r\n";
        let expected = [
            ServerOp::Message(1, said("a.\u{fffd}\u{fffd}", None, "x")),
            ServerOp::Message(1, said("a.b\u{c}22", None, "yy")),
            ServerOp::Message(3, said("a\u{b}\0", Some("r\u{c}.\u{fffd}"), "")),
        ];
        assert_eq!(read(&mut Codec::default(), &mut BytesMut::from(&sent[..])), expected);
    }

    #[test]
    fn what_no_server_sends_is_refused() {
        let endless = "x".repeat(LINE_BYTES_MAX + 1);
        for sent in [
            "HMSG a 1 12 12\r\nNATS/1.0\r\n\r\n\r\n",
            "MSG a 1\r\n",
            "MSG a b c d e\r\n",
            "MSG a one 5\r\n",
            "MSG a 1 -1\r\n",
            "MSG a 1 67108865\r\n",
            "MSG a 1 1\r\nab\r\n",
            "\r\n",
            &endless,
        ] {
            let mut bytes = BytesMut::from(sent);
            assert!(Codec::default().decode(&mut bytes).is_err(), "{sent:.40}");
        }
    }
}
