//! Ports on loopback for the servers of tests, which run side by side as processes of their own.
//!
//! A port that the system picks (port 0) is free only for a moment: another test may be given the same before the server
//! listens, and an outgoing connection of anybody may take it, for good where a server is started again. So
//! ports are taken in turn from below the range of outgoing connections, and the turn is shared by all processes of the user.

use std::{
    fs::File,
    io::{Read, Seek, Write},
    net::{Ipv4Addr, TcpListener},
    ops::Range,
    os::unix::fs::MetadataExt,
};

use anyhow::{Context, Result, bail};

/// Neither the well-known ports nor those that Linux, macOS or Windows give to outgoing connections.
const RANGE: Range<u16> = 12_000..32_000;
/// Holds the port that is next in turn, as text; locked while it is read and written.
const TURN: &str = "gw-devkit-next-port";

/// A TCP port on loopback on which nobody listens, and which is given to nobody else until some 20,000 others were.
///
/// # Errors
/// When the turn cannot be kept in the directory for temporary files, or every port is taken.
pub fn free_port() -> Result<u16> {
    // Of each user's own, where that can be told: nobody may write another's.
    let user = std::fs::metadata("/proc/self").map_or(0, |process| process.uid());
    let path = std::env::temp_dir().join(format!("{TURN}-{user}"));
    let open = File::options().read(true).write(true).create(true).truncate(false).open(&path);
    let mut turn = open.with_context(|| format!("open {}", path.display()))?;
    // Freed when the file is closed, also by a process that is killed.
    turn.lock().with_context(|| format!("lock {}", path.display()))?;
    let mut text = String::new();
    turn.read_to_string(&mut text)?;
    // Whatever does not name a port of the range, such as a file that was just made, begins it anew.
    let mut port = text.trim().parse().ok().filter(|port| RANGE.contains(port)).unwrap_or(RANGE.start);
    for _ in RANGE {
        let next = if port + 1 < RANGE.end { port + 1 } else { RANGE.start };
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            turn.rewind()?;
            turn.set_len(0)?;
            write!(turn, "{next}")?;
            return Ok(port);
        }
        port = next;
    }
    bail!("every port from {} to {} is taken", RANGE.start, RANGE.end - 1)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn nobody_is_given_a_port_twice_or_one_that_is_taken() {
        let ports = || (0..50).map(|_| free_port().unwrap()).collect::<Vec<_>>();
        let threads: Vec<_> = (0..4).map(|_| std::thread::spawn(ports)).collect();
        let given: Vec<u16> = threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
        assert_eq!(given.iter().collect::<HashSet<_>>().len(), 200);
        assert!(given.iter().all(|port| RANGE.contains(port)));

        // The next in turn, held by another process.
        let next = |port: u16| if port + 1 < RANGE.end { port + 1 } else { RANGE.start };
        let held: Vec<_> = (0..20)
            .scan(free_port().unwrap(), |port, _| {
                *port = next(*port);
                Some(*port)
            })
            .filter_map(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).ok())
            .map(|listener| (listener.local_addr().unwrap().port(), listener))
            .collect();
        for _ in 0..20 {
            let port = free_port().unwrap();
            assert!(held.iter().all(|(taken, _)| *taken != port));
        }
    }
}
