//! Work on all of the machine's cores.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

/// Does `work` for each of `items`, one thread a core, and returns what each thread has gathered.
///
/// # Panics
/// When `work` does.
pub fn in_parallel<T: Sync, G: Default + Send>(items: &[T], work: impl Fn(&T, &mut G) + Sync) -> Vec<G> {
    let next = AtomicUsize::new(0);
    let threads = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(|| {
                    let mut gathered = G::default();
                    while let Some(item) = items.get(next.fetch_add(1, Ordering::SeqCst)) {
                        work(item, &mut gathered);
                    }
                    gathered
                })
            })
            .collect();
        workers.into_iter().map(|worker| worker.join().unwrap()).collect()
    })
}
