//! Single flight: one question that many ask at the same time.
//!
//! Who comes while an answer is on its way gets the one after it: a question that began before may be answered with
//! less than its asker was told elsewhere. Of each question one is on its way at a time, however many wait for it.
//!
//! The single flight of the verifier is another: a verdict need not be newer than the ask, so there an ask joins the judgement
//! that is under way.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    runtime::Handle,
    sync::watch,
    time::{Instant, sleep_until, timeout},
};

/// A question and its answers. Clones are the same question.
pub struct SingleFlight<T>(Arc<Inner<T>>);

struct Inner<T> {
    /// Where it is asked.
    runtime: Handle,
    /// Least time between the beginnings of two questions.
    pace: Duration,
    asking: Mutex<Asking>,
    /// Number of the last question that ended, and its answer.
    answered: watch::Sender<(u64, Option<T>)>,
}

#[derive(Default)]
struct Asking {
    /// Number of the last question that began.
    begun: u64,
    /// Number of the question that somebody waits for.
    wanted: u64,
    running: bool,
}

impl<T> Clone for SingleFlight<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T: Clone + Send + Sync + 'static> SingleFlight<T> {
    /// A question that nobody has asked yet, to be asked on `runtime`.
    pub fn new(runtime: Handle, pace: Duration) -> Self {
        Self(Arc::new(Inner { runtime, pace, asking: Mutex::default(), answered: watch::Sender::new((0, None)) }))
    }

    /// What `ask` answers when it begins after this call; `None` where it finds nothing, or nothing within `wait_max`.
    /// What was begun is brought to its end when nobody waits for it any more.
    pub async fn answer<A>(&self, wait_max: Duration, ask: impl Fn() -> A + Send + Sync + 'static) -> Option<T>
    where
        A: Future<Output = Option<T>> + Send + 'static,
    {
        let mut answered = self.0.answered.subscribe();
        // One that has begun may have been answered before this call.
        let number = self.want(&mut self.lock(), ask);
        // The question before this one may have to end first.
        let answer = timeout(wait_max, answered.wait_for(|(last, _)| *last >= number)).await;
        answer.ok()?.ok()?.1.clone()
    }

    /// Asks, without waiting for the answer, unless a question is on its way, or its pace is being kept.
    pub fn begin<A>(&self, ask: impl Fn() -> A + Send + Sync + 'static)
    where
        A: Future<Output = Option<T>> + Send + 'static,
    {
        let mut asking = self.lock();
        if !asking.running {
            self.want(&mut asking, ask);
        }
    }

    /// Has the next question asked, whose number is returned.
    fn want<A>(&self, asking: &mut Asking, ask: impl Fn() -> A + Send + Sync + 'static) -> u64
    where
        A: Future<Output = Option<T>> + Send + 'static,
    {
        asking.wanted = asking.begun + 1;
        if !std::mem::replace(&mut asking.running, true) {
            self.0.runtime.spawn(self.clone().run(ask));
        }
        asking.wanted
    }

    /// Asks for as long as anybody wants to know.
    async fn run<A>(self, ask: impl Fn() -> A + Send + Sync)
    where
        A: Future<Output = Option<T>> + Send,
    {
        // A question that panicked must not be the last one.
        let running = Running(&self.0.asking);
        loop {
            let number = {
                let mut asking = self.lock();
                if asking.wanted <= asking.begun {
                    asking.running = false;
                    std::mem::forget(running);
                    return;
                }
                asking.begun += 1;
                asking.begun
            };
            let began = Instant::now();
            let answer = ask().await;
            self.0.answered.send_replace((number, answer));
            sleep_until(began + self.0.pace).await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Asking> {
        lock(&self.0.asking)
    }
}

/// Says that nobody asks any more, when dropped.
struct Running<'a>(&'a Mutex<Asking>);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        lock(self.0).running = false;
    }
}

fn lock(asking: &Mutex<Asking>) -> MutexGuard<'_, Asking> {
    // Counters are whole whenever the lock is free.
    asking.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures::future::join_all;

    use super::*;

    const WAIT_MAX: Duration = Duration::from_secs(60);
    const TAKES: Duration = Duration::from_millis(100);

    /// Answers with how often it was asked before, which it looks at when it begins.
    #[derive(Clone, Default)]
    struct Counter(Arc<AtomicUsize>);

    impl Counter {
        fn asked(&self) -> usize {
            self.0.load(Ordering::SeqCst)
        }

        async fn ask(self) -> Option<usize> {
            let before = self.0.fetch_add(1, Ordering::SeqCst);
            tokio::time::sleep(TAKES).await;
            Some(before)
        }

        async fn answer(&self, shared: &SingleFlight<usize>) -> Option<usize> {
            let counter = self.clone();
            shared.answer(WAIT_MAX, move || counter.clone().ask()).await
        }
    }

    #[tokio::test(start_paused = true)]
    async fn who_comes_while_a_question_is_on_its_way_gets_the_next_one() {
        let (shared, counter) = (SingleFlight::new(Handle::current(), Duration::ZERO), Counter::default());
        let late = async {
            tokio::time::sleep(TAKES / 2).await;
            join_all((0..100).map(|_| counter.answer(&shared))).await
        };
        let (first, late) = tokio::join!(counter.answer(&shared), late);
        assert_eq!((first, late), (Some(0), vec![Some(1); 100]));
        assert_eq!(counter.asked(), 2);
        // Nobody asks when nobody wants to know.
        tokio::time::sleep(WAIT_MAX).await;
        assert_eq!(counter.asked(), 2);
        assert_eq!(counter.answer(&shared).await, Some(2));
    }

    #[tokio::test(start_paused = true)]
    async fn a_question_that_nobody_waits_for_is_asked_once_and_answers_whoever_comes_after_it() {
        let (shared, counter) = (SingleFlight::new(Handle::current(), Duration::ZERO), Counter::default());
        for _ in 0..100 {
            let counter = counter.clone();
            shared.begin(move || counter.clone().ask());
        }
        tokio::time::sleep(TAKES / 2).await;
        assert_eq!(counter.asked(), 1);
        // It began before this call.
        assert_eq!(counter.answer(&shared).await, Some(1));
        tokio::time::sleep(WAIT_MAX).await;
        assert_eq!(counter.asked(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn questions_keep_their_pace() {
        let (shared, counter) = (SingleFlight::new(Handle::current(), TAKES * 10), Counter::default());
        let started = Instant::now();
        for expected in 0..5 {
            assert_eq!(counter.answer(&shared).await, Some(expected));
        }
        assert_eq!(started.elapsed(), TAKES * 41);
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_takes_too_long_or_fails_is_none_and_the_next_is_asked_all_the_same() {
        let (shared, counter) = (SingleFlight::new(Handle::current(), Duration::ZERO), Counter::default());
        let asked = counter.clone();
        assert_eq!(shared.answer(TAKES / 2, move || asked.clone().ask()).await, None);
        assert_eq!(counter.answer(&shared).await, Some(1));
        assert_eq!(shared.answer(WAIT_MAX, || async { None }).await, None);
        let panics = || async { panic!("on purpose") };
        assert_eq!(shared.answer(TAKES, panics).await, None);
        assert_eq!(counter.answer(&shared).await, Some(2));
    }
}
