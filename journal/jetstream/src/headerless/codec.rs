//! Protocol of a NATS server to a client without headers: what it sends, read from the bytes.

use std::io;

use bytes::{Buf, Bytes, BytesMut};
use tokio_util::codec::Decoder;

use super::Message;

/// Most bytes of a line; the server bounds subjects far below.
const LINE_BYTES_MAX: usize = 128 * 1024;
/// Most bytes of a payload; nats.conf allows 64 KiB.
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

fn verb(line: &Bytes) -> io::Result<Verb> {
    let text = std::str::from_utf8(line).map_err(|_| malformed("a line is not UTF-8"))?;
    let (verb, rest) = text.split_once([' ', '\t']).unwrap_or((text, ""));
    let op = match verb.to_ascii_uppercase().as_str() {
        "MSG" => return message(rest),
        "INFO" => ServerOp::Info(line.slice(line.len() - rest.len()..)),
        "PING" => ServerOp::Ping,
        "PONG" => ServerOp::Pong,
        "+OK" => ServerOp::Taken,
        "-ERR" => ServerOp::Refused(rest.trim().trim_matches('\'').to_owned()),
        _ => return Err(malformed("the server sends what no client without headers is sent")),
    };
    Ok(Verb::Op(op))
}

/// `<subject> <subscription> [reply] <bytes>`.
fn message(rest: &str) -> io::Result<Verb> {
    let words: Vec<&str> = rest.split_ascii_whitespace().collect();
    let (subject, id, reply, length) = match words[..] {
        [subject, id, length] => (subject, id, None, length),
        [subject, id, reply, length] => (subject, id, Some(reply.to_owned()), length),
        _ => return Err(malformed("a message without subject, subscription and length")),
    };
    let (Ok(id), Ok(length)) = (id.parse(), length.parse::<usize>()) else {
        return Err(malformed("a message with a number that is none"));
    };
    if length > PAYLOAD_BYTES_MAX {
        return Err(malformed("a message that is longer than any"));
    }
    Ok(Verb::Message(id, subject.to_owned(), reply, length))
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
