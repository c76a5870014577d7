//! Crowds: many appends at a time, on any journal.

use futures::future::join_all;

use journal::{
    AppendError, Commit, Position, Recorded, StreamStore,
    conformance::{commit, fresh},
};

/// Appends at a time; many times what goes alone.
pub const CROWD: usize = 400;
/// Appends of one commit that are tried before the last, where the journal says that nothing is stored.
const TRIES_MAX: usize = 10;

pub async fn append_all(
    journal: &(impl StreamStore + Clone + 'static),
    commits: &[Commit],
) -> Vec<Result<Recorded, AppendError>> {
    let append = |commit: Commit| {
        let journal = journal.clone();
        tokio::spawn(async move {
            // On a machine that is busy with others its turn may not come in time; then nothing is stored, and it tries again.
            for _ in 0..TRIES_MAX {
                match journal.append(&commit).await {
                    Err(AppendError::Unavailable(_)) => {}
                    appended => return appended,
                }
            }
            journal.append(&commit).await
        })
    };
    let appended: Vec<_> = commits.iter().cloned().map(append).collect();
    join_all(appended).await.into_iter().map(Result::unwrap).collect()
}

/// What may not be stored is refused, and what is stored with it is stored.
pub async fn conflicts_cost_the_others_nothing(
    journal: &(impl StreamStore + Clone + 'static),
    other: &impl StreamStore,
) {
    let (mut commits, mut taken) = (Vec::new(), Vec::new());
    for number in 0..CROWD {
        let id = fresh();
        // Every seventh stream has begun, and of every eleventh commit a first try was stored.
        let mine = commit(&id, Position::START, "mine");
        taken.push(number % 7 == 0);
        if number % 7 == 0 {
            other.append(&commit(&id, Position::START, "other")).await.unwrap();
        } else if number % 11 == 0 {
            other.append(&mine).await.unwrap();
        }
        commits.push(mine);
    }
    let appended = append_all(journal, &commits).await;
    for ((commit, appended), taken) in commits.iter().zip(&appended).zip(&taken) {
        let stored = other.load(&commit.stream_id).await.unwrap();
        assert_eq!(stored.len(), 1);
        match appended {
            Ok(recorded) => {
                assert!(!taken);
                assert_eq!((&stored[0].commit_id, stored[0].position), (&commit.commit_id, recorded.position));
            }
            Err(error) => {
                assert!(*taken && matches!(error, AppendError::Conflict), "{error:?}");
                assert_ne!(stored[0].commit_id, commit.commit_id);
            }
        }
    }
}

/// Appends that are dropped keep no others waiting.
pub async fn whoever_gives_up_holds_nobody_up(journal: &(impl StreamStore + Clone + 'static)) {
    for _ in 0..20 {
        let appends: Vec<_> = (0..CROWD)
            .map(|number| {
                let journal = journal.clone();
                (number, tokio::spawn(async move { journal.append(&commit(&fresh(), Position::START, "x")).await }))
            })
            .collect();
        tokio::task::yield_now().await;
        for (number, append) in appends {
            if number % 3 == 0 {
                append.abort();
            } else {
                append.await.unwrap().unwrap();
            }
        }
    }
    journal.append(&commit(&fresh(), Position::START, "after all")).await.unwrap();
}
