//! Deliberately broken variants of the engine, by which the simulation shows that it bites.
//!
//! [`mutant!`](crate::mutant) stands where a variant breaks something. It is `false` at compile time wherever debug assertions
//! are off, as in every release. Elsewhere nothing is broken before a thread asks for it with `choose`, which only tests
//! do: the simulation's own, and those of the engine. It is not a feature, as one would have nearly everything built twice.

/// Whether the broken variant of this name is in force in this thread.
#[cfg(not(debug_assertions))]
#[inline(always)]
pub const fn is_active(_: &str) -> bool {
    false
}

#[cfg(debug_assertions)]
mod chosen {
    use std::cell::Cell;

    thread_local! {
        static CHOSEN: Cell<Option<&'static str>> = const { Cell::new(None) };
    }

    /// Whether the broken variant of this name is in force in this thread.
    pub fn is_active(name: &str) -> bool {
        CHOSEN.get() == Some(name)
    }

    /// Breaks this thread's engine in the way of this name, or mends it.
    pub fn choose(name: Option<&'static str>) {
        CHOSEN.set(name);
    }
}

#[cfg(debug_assertions)]
pub use chosen::{choose, is_active};

/// Whether the named broken variant is in force; see [`mutants`](crate::mutants).
#[macro_export]
macro_rules! mutant {
    ($name:literal) => {
        $crate::mutants::is_active($name)
    };
}
