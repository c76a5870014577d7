//! The simulated chain: as a real node, and under the adapters that know only real nodes.

mod against_anvil;
mod faults;
mod payment;
mod reorganisations;
mod support;
