//! Clocks of gateways that can be set: by libfaketime, where it is installed (Debian's package `libfaketime`; elsewhere
//! `GW_FAKETIME` names the library). What is set is the time of day: clocks that only run go on as they are.

use std::{
    fmt::Write,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use tempfile::TempDir;

use super::sandbox::script;

const LIBRARIES: [&str; 2] =
    ["/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1", "/usr/lib/aarch64-linux-gnu/faketime/libfaketimeMT.so.1"];

/// The clocks, each a file that says how far it is off.
pub struct Clocks {
    directory: TempDir,
}

impl Clocks {
    /// Clocks for gateways that are run by [`Clocks::program`]; `None` where there is no libfaketime.
    pub fn of(gateways: usize, gw: &Path) -> Result<Option<Self>> {
        let named = std::env::var_os("GW_FAKETIME").map(PathBuf::from);
        let mut libraries = named.into_iter().chain(LIBRARIES.iter().map(PathBuf::from));
        let Some(library) = libraries.find(|library| library.exists()) else { return Ok(None) };
        let this = Self { directory: TempDir::new()? };
        for gateway in 0..gateways {
            this.set(gateway, 0)?;
        }
        let mut text = String::from("#!/bin/sh\n");
        writeln!(text, "# serve --config …/gateway-N.toml runs by clock gateway-N.")?;
        writeln!(text, "if [ \"$1\" = serve ]; then")?;
        writeln!(text, "  clock={}/$(basename \"$3\" .toml)", this.directory.path().display())?;
        writeln!(text, "  export FAKETIME_TIMESTAMP_FILE=$clock FAKETIME_CACHE_DURATION=1")?;
        writeln!(text, "  export FAKETIME_DONT_FAKE_MONOTONIC=1 DONT_FAKE_MONOTONIC=1")?;
        writeln!(text, "  export LD_PRELOAD={}\nfi", library.display())?;
        writeln!(text, "exec {} \"$@\"", gw.display())?;
        script(&this.program(), &text)?;
        Ok(Some(this))
    }

    /// What runs `gw`.
    pub fn program(&self) -> PathBuf {
        self.directory.path().join("gw")
    }

    /// Sets the clock of a gateway so many seconds ahead of the others.
    pub fn set(&self, gateway: usize, seconds: i64) -> Result<()> {
        let path = self.directory.path().join(format!("gateway-{}", gateway + 1));
        // Never half of it.
        let next = path.with_extension("next");
        std::fs::write(&next, format!("{seconds:+}\n"))?;
        std::fs::rename(next, path).context("set a clock")
    }
}
