//! One connection through the proxy: what either side sends, with the faults that strike it.

use std::{
    collections::HashMap,
    io,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::BytesMut;
use tokio::{
    io::AsyncReadExt,
    net::{TcpStream, tcp::OwnedReadHalf},
    sync::{mpsc, watch},
    time::{Instant, sleep},
};

use super::{
    Shared,
    frames::{self, Frame, Op},
    plan::{Dice, Fault},
    queue::{Held, Item, write},
    requests::{CERTAIN, CHANGING, Kind, UNCLEAR, is_status, lane, matches, refusal, status},
};

/// Most bytes read at a time.
const READ_BYTES: usize = 64 * 1024;

/// What is to become of the answer to a request.
struct Asked {
    kind: Kind,
    subject: String,
    /// The client has been answered already.
    is_answered: bool,
    lost: Option<Fault>,
    late: Option<(Fault, Duration)>,
    /// Messages of a Direct Get that the replica has; `None` for one that is level.
    has: Option<usize>,
    /// Which older answer a replica that is behind gives.
    pick: u64,
}

#[derive(Default)]
struct State {
    /// The client's subscriptions: pattern and number.
    subscriptions: Vec<(String, String)>,
    asked: HashMap<String, Asked>,
    counted: HashMap<&'static str, u64>,
}

struct Link {
    shared: Arc<Shared>,
    number: u64,
    state: Mutex<State>,
    sent: AtomicU64,
    ended: watch::Sender<bool>,
    /// To the client and to the server.
    down: mpsc::UnboundedSender<Item>,
}

/// Passes on what client and server say, until either ends the connection or a fault does.
pub(super) async fn run(shared: Arc<Shared>, client: TcpStream, number: u64) -> io::Result<()> {
    let server = TcpStream::connect(&shared.server).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
    let ((down, to_go_down), (up, to_go_up)) = (mpsc::unbounded_channel(), mpsc::unbounded_channel());
    let (ended, is_ended) = watch::channel(false);
    let link = Link { shared, number, state: Mutex::default(), sent: AtomicU64::new(0), ended, down };
    tokio::join!(
        async {
            // Whatever ends it, what was sent before may still arrive.
            let _ = link.read_client(from_client, up).await;
            link.ended.send_replace(true);
        },
        async {
            let _ = link.read_server(from_server).await;
            link.ended.send_replace(true);
        },
        write(to_go_up, to_server, None, &link.ended),
        write(to_go_down, to_client, Some(is_ended), &link.ended),
    );
    Ok(())
}

impl Link {
    fn state(&self) -> MutexGuard<'_, State> {
        // Every change is whole before the lock is let go.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The draws for the next of a kind on this connection.
    fn dice(&self, label: &'static str) -> Dice {
        let mut state = self.state();
        let counted = state.counted.entry(label).or_default();
        *counted += 1;
        self.shared.plan.dice(label, (self.number << 32) | *counted)
    }

    /// Whether `fault` strikes now. It counts once it is known to have had something to strike.
    fn strikes(&self, dice: &mut Dice, fault: Fault) -> bool {
        self.shared.plan.strikes(dice, fault) && self.shared.is_armed()
    }

    fn struck(&self, fault: Fault) {
        self.shared.coverage.struck(fault);
    }

    fn item(&self, bytes: Vec<u8>, at: Instant, is_last: bool) -> Item {
        let number = self.sent.fetch_add(1, Ordering::Relaxed);
        Item { at, number, bytes, is_last, _held: Held::new(&self.shared.under_way) }
    }

    /// Tells the client in the server's place.
    fn tell(&self, frame: &Frame) {
        // Nobody is told any more where the connection has ended.
        let _ = self.down.send(self.item(frame.bytes(), Instant::now(), false));
    }

    async fn read_client(&self, mut from: OwnedReadHalf, up: mpsc::UnboundedSender<Item>) -> io::Result<()> {
        let mut lanes: HashMap<String, Instant> = HashMap::new();
        let (mut buffer, mut is_ended) = (BytesMut::with_capacity(READ_BYTES), self.ended.subscribe());
        loop {
            while let Some(frame) = frames::next(&mut buffer)? {
                let now = Instant::now();
                let mut send = |bytes: Vec<u8>, lane: Option<String>, late: Duration, is_last: bool| {
                    let at = lane.map_or(now, |lane| {
                        let last = lanes.entry(lane).or_insert(now);
                        *last = (*last).max(now + late);
                        *last
                    });
                    // The writer ends with the connection to the server.
                    let _ = up.send(self.item(bytes, at, is_last));
                };
                match &frame.op {
                    Op::Connect => send(self.shared.introduced(&frame), None, Duration::ZERO, false),
                    Op::Subscribe { subject, sid } => {
                        self.state().subscriptions.push((subject.clone(), sid.clone()));
                        send(frame.bytes(), None, Duration::ZERO, false);
                    }
                    Op::Unsubscribe { sid, is_later } => {
                        if !is_later {
                            self.state().subscriptions.retain(|(_, known)| known != sid);
                        }
                        send(frame.bytes(), None, Duration::ZERO, false);
                    }
                    Op::Publish { subject, reply, .. } => {
                        if self.publish(&frame, subject, reply.as_deref(), &mut send) {
                            return Ok(());
                        }
                    }
                    Op::Message { .. } | Op::Other => send(frame.bytes(), None, Duration::ZERO, false),
                }
            }
            tokio::select! {
                read = from.read_buf(&mut buffer) => if read? == 0 { return Ok(()) },
                _ = is_ended.wait_for(|ended| *ended) => return Ok(()),
            }
        }
    }

    /// Passes a publish on as the faults will have it; whether the connection ends with it.
    fn publish(
        &self,
        frame: &Frame,
        subject: &str,
        reply: Option<&str>,
        send: &mut impl FnMut(Vec<u8>, Option<String>, Duration, bool),
    ) -> bool {
        let kind = Kind::of(subject, reply);
        let mut dice = self.dice(kind.label());
        let lane = Some(lane(subject, kind));
        if self.strikes(&mut dice, Fault::CutSending) {
            self.struck(Fault::CutSending);
            let mut bytes = frame.bytes();
            bytes.truncate(usize::try_from(dice.below(bytes.len() as u64)).unwrap_or(0));
            send(bytes, None, Duration::ZERO, true);
            return true;
        }
        let delay = self.shared.plan.delay(&mut dice);
        let (mut late, mut times) = (Duration::ZERO, 1);
        match kind {
            Kind::Pull => {}
            Kind::Message => {
                if self.strikes(&mut dice, Fault::MessageLost) {
                    self.struck(Fault::MessageLost);
                    return false;
                }
                if self.strikes(&mut dice, Fault::MessageLate) {
                    self.struck(Fault::MessageLate);
                    late = delay;
                }
                if self.strikes(&mut dice, Fault::MessageTwice) {
                    self.struck(Fault::MessageTwice);
                    times = 2;
                }
            }
            Kind::Store => {
                let Some(reply) = reply else { return false };
                match self.store(subject, reply, &mut dice) {
                    Passed::Not => return false,
                    Passed::Late => late = delay,
                    Passed::Twice => times = 2,
                    Passed::Once => {}
                }
            }
            Kind::LeaderGet | Kind::DirectBatch | Kind::DirectLast | Kind::Api => {
                if !reply.is_none_or(|reply| self.request(subject, reply, kind, &mut dice)) {
                    return false;
                }
            }
        }
        for _ in 0..times {
            send(frame.bytes(), lane.clone(), late, false);
        }
        false
    }

    /// What becomes of a publish into a stream; what becomes of its acknowledgement is noted.
    fn store(&self, subject: &str, reply: &str, dice: &mut Dice) -> Passed {
        let pick = dice.below(64);
        let one_of = |codes: &[(u16, u32, &'static str)]| codes[usize::try_from(pick).unwrap_or(0) % codes.len()];
        let sid = self.subscription(reply);
        if self.strikes(dice, Fault::PublishLost) {
            self.struck(Fault::PublishLost);
            return Passed::Not;
        }
        let answered = [Fault::PublishRefused, Fault::PublishDropped, Fault::PublishUnclear];
        let answered = answered.map(|fault| (fault, self.strikes(dice, fault)));
        if let (Some(sid), Some((fault, _))) = (&sid, answered.into_iter().find(|(_, strikes)| *strikes)) {
            self.struck(fault);
            let answer = match fault {
                Fault::PublishRefused if pick >= 48 => status(reply, sid, "503"),
                Fault::PublishRefused => refusal(reply, sid, one_of(&CERTAIN)),
                _ => refusal(reply, sid, one_of(&UNCLEAR)),
            };
            self.tell(&answer);
            if fault != Fault::PublishUnclear {
                return Passed::Not;
            }
            self.expect(subject, reply, Kind::Store, dice, true);
            return Passed::Once;
        }
        self.expect(subject, reply, Kind::Store, dice, false);
        if self.strikes(dice, Fault::PublishLate) {
            self.struck(Fault::PublishLate);
            return Passed::Late;
        }
        if self.strikes(dice, Fault::PublishTwice) {
            self.struck(Fault::PublishTwice);
            return Passed::Twice;
        }
        Passed::Once
    }

    /// Whether a request goes to the server; what becomes of its answer is noted.
    fn request(&self, subject: &str, reply: &str, kind: Kind, dice: &mut Dice) -> bool {
        let pick = usize::try_from(dice.below(64)).unwrap_or(0);
        let is_direct = matches!(kind, Kind::DirectBatch | Kind::DirectLast);
        let sid = self.subscription(reply);
        let answered = [Fault::NoResponders, Fault::ApiRefused];
        let answered = answered.map(|fault| (fault, self.strikes(dice, fault)));
        let fault =
            answered.into_iter().find(|(fault, strikes)| *strikes && (*fault == Fault::NoResponders || !is_direct));
        if let (Some(sid), Some((fault, _))) = (sid, fault) {
            self.struck(fault);
            let answer = match fault {
                Fault::NoResponders => status(reply, &sid, "503"),
                _ => refusal(reply, &sid, CHANGING[pick % CHANGING.len()]),
            };
            self.tell(&answer);
            return false;
        }
        self.expect(subject, reply, kind, dice, false);
        true
    }

    /// Notes what is to become of the answer to a request.
    fn expect(&self, subject: &str, reply: &str, kind: Kind, dice: &mut Dice, is_answered: bool) {
        let (lost, late) = match kind {
            Kind::Store => (Fault::AckLost, Fault::AckLate),
            _ => (Fault::AnswerLost, Fault::AnswerLate),
        };
        let lost = self.strikes(dice, lost).then_some(lost);
        let late = self.strikes(dice, late).then_some((late, self.shared.plan.delay(dice)));
        let is_stale = self.strikes(dice, Fault::DirectGetStale);
        let (few, pick) = (usize::try_from(dice.below(5)).unwrap_or(0), dice.below(1 << 32));
        let asked =
            Asked { kind, subject: subject.to_owned(), is_answered, lost, late, has: is_stale.then_some(few), pick };
        self.state().asked.insert(reply.to_owned(), asked);
    }

    /// Number of the client's subscription that takes an answer.
    fn subscription(&self, reply: &str) -> Option<String> {
        let state = self.state();
        let found = state.subscriptions.iter().find(|(pattern, _)| matches(pattern, reply));
        found.map(|(_, sid)| sid.clone())
    }

    async fn read_server(&self, mut from: OwnedReadHalf) -> io::Result<()> {
        let mut lanes: HashMap<String, Instant> = HashMap::new();
        let (mut buffer, mut is_ended) = (BytesMut::with_capacity(READ_BYTES), self.ended.subscribe());
        loop {
            while let Some(frame) = frames::next(&mut buffer)? {
                let Op::Message { sid, .. } = &frame.op else {
                    let _ = self.down.send(self.item(frame.bytes(), Instant::now(), false));
                    continue;
                };
                let sid = sid.clone();
                let mut dice = self.dice("delivered");
                if self.strikes(&mut dice, Fault::SlowConsumer) {
                    self.struck(Fault::SlowConsumer);
                    sleep(self.shared.plan.delay(&mut dice)).await;
                    let bytes = b"-ERR 'Slow Consumer'\r\n".to_vec();
                    let _ = self.down.send(self.item(bytes, Instant::now(), true));
                    return self.until_ended().await;
                }
                if self.strikes(&mut dice, Fault::CutReceiving) {
                    self.struck(Fault::CutReceiving);
                    let mut bytes = frame.bytes();
                    bytes.truncate(usize::try_from(dice.below(bytes.len() as u64)).unwrap_or(0));
                    let _ = self.down.send(self.item(bytes, Instant::now(), true));
                    return self.until_ended().await;
                }
                for (frame, late) in self.delivered(frame, &mut dice) {
                    let now = Instant::now();
                    // Of one subscription nothing overtakes another.
                    let last = lanes.entry(sid.clone()).or_insert(now);
                    *last = (*last).max(now + late);
                    let _ = self.down.send(self.item(frame.bytes(), *last, false));
                }
            }
            tokio::select! {
                read = from.read_buf(&mut buffer) => if read? == 0 { return Ok(()) },
                _ = is_ended.wait_for(|ended| *ended) => return Ok(()),
            }
        }
    }

    /// Reads nothing more, until the connection has ended.
    async fn until_ended(&self) -> io::Result<()> {
        // Its sender is in the link.
        let _ = self.ended.subscribe().wait_for(|ended| *ended).await;
        Ok(())
    }

    /// What the client gets of a message, and how late.
    fn delivered(&self, frame: Frame, dice: &mut Dice) -> Vec<(Frame, Duration)> {
        let Op::Message { subject, reply, headers, .. } = &frame.op else { return vec![(frame, Duration::ZERO)] };
        let mut state = self.state();
        if let Some(asked) = state.asked.get_mut(subject) {
            let is_end = asked.kind != Kind::DirectBatch || is_status(*headers, frame.content());
            let answer = self.answer(asked, &frame, *headers);
            if is_end {
                let subject = subject.clone();
                state.asked.remove(&subject);
            }
            return answer.into_iter().collect();
        }
        drop(state);
        let is_consumers = reply.as_ref().is_some_and(|reply| reply.starts_with("$JS.ACK."));
        let delay = self.shared.plan.delay(dice);
        let (is_lost, is_late) = (self.strikes(dice, Fault::MessageLost), self.strikes(dice, Fault::MessageLate));
        let again = if is_consumers { Fault::Redelivered } else { Fault::MessageTwice };
        let is_again = self.strikes(dice, again);
        // What answers somebody else's request, such as a receipt, is a message as any other.
        if is_lost {
            self.struck(Fault::MessageLost);
            return Vec::new();
        }
        let mut late = Duration::ZERO;
        if is_late {
            self.struck(Fault::MessageLate);
            late = delay;
        }
        let mut delivered = vec![(frame.clone(), late)];
        if is_again {
            self.struck(again);
            delivered.push((frame, late + delay));
        }
        delivered
    }

    /// What the client gets of an answer to a request.
    fn answer(&self, asked: &mut Asked, frame: &Frame, headers: usize) -> Option<(Frame, Duration)> {
        if asked.is_answered {
            return None;
        }
        if let Some(fault) = asked.lost {
            self.struck(fault);
            return None;
        }
        let late = asked.late.map_or(Duration::ZERO, |(fault, late)| {
            self.struck(fault);
            late
        });
        let is_status = is_status(headers, frame.content());
        match (asked.kind, &mut asked.has) {
            (Kind::DirectBatch, Some(0)) if !is_status => {
                self.struck(Fault::DirectGetStale);
                None
            }
            (Kind::DirectBatch, Some(has)) if !is_status => {
                *has -= 1;
                Some((frame.clone(), late))
            }
            (Kind::DirectLast, has) if !is_status => {
                let is_behind = has.is_some();
                let older = self.shared.older(&asked.subject, headers, frame.content(), asked.pick);
                let Op::Message { subject, sid, .. } = &frame.op else { return None };
                if !is_behind {
                    return Some((frame.clone(), late));
                }
                self.struck(Fault::DirectGetStale);
                let answer = match older {
                    Some((headers, content)) => frames::message(subject, sid, None, headers, &content),
                    None => status(subject, sid, "404 Message Not Found"),
                };
                Some((answer, late))
            }
            _ => Some((frame.clone(), late)),
        }
    }
}

/// How a publish into a stream goes on.
enum Passed {
    Not,
    Once,
    Late,
    Twice,
}
