//! Which targets are changed since they were fuzzed.

// A test may panic, and so may what helps it.
#![allow(clippy::unwrap_used)]

use std::fs;

use fuzz::{
    TARGETS, Target,
    sources::{ON_RECORD, digest, is_changed, repository},
};

const TARGET: Target = Target { name: "a", module: "m", run: |_| {}, bytes_max: 1, folders: &["reader/src"] };

/// A repository of a reader that uses `parser` by way of a crate, and of a crate `other` that uses `drawing`.
fn made() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &str| {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write("reader/Cargo.toml", "[package]\nname = \"reader\"\n");
    write("reader/src/lib.rs", "// What it is.\nfn read() {}\n");
    write("reader/src/tests/lib.rs", "fn a_test() {}\n");
    write("reader/src/more/tests.rs", "fn a_test() {}\n");
    write("tools/fuzz/src/m.rs", "fn a() {}\n");
    write(
        "Cargo.lock",
        "version = 4\n\n[[package]]\nname = \"drawing\"\nversion = \"1.0.0\"\nsource = \"r\"\n\n[[package]]\nname = \
         \"other\"\nversion = \"0.1.0\"\ndependencies = [\n \"drawing\",\n]\n\n[[package]]\nname = \"parser\"\nversion = \
         \"2.0.0\"\nsource = \"r\"\n\n[[package]]\nname = \"parser\"\nversion = \"3.0.0\"\nsource = \"r\"\n\n[[package]]\nname \
         = \"reader\"\nversion = \"0.1.0\"\ndependencies = [\n \"words\",\n]\n\n[[package]]\nname = \"words\"\nversion = \
         \"0.1.0\"\ndependencies = [\n \"parser 3.0.0\",\n]\n",
    );
    folder
}

fn edited(path: &str, from: &str, to: &str) -> bool {
    let folder = made();
    let before = digest(folder.path(), &TARGET).unwrap();
    let path = folder.path().join(path);
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains(from), "{from}");
    fs::write(path, text.replace(from, to)).unwrap();
    digest(folder.path(), &TARGET).unwrap() != before
}

#[test]
fn code_and_what_it_uses_change_a_digest() {
    assert!(edited("reader/src/lib.rs", "read()", "read(_: u8)"));
    assert!(edited("tools/fuzz/src/m.rs", "a()", "b()"));
    assert!(edited("Cargo.lock", "\"3.0.0\"\nsource", "\"3.0.1\"\nsource"), "the parser is gone");
}

#[test]
fn what_no_reader_runs_changes_no_digest() {
    assert!(!edited("reader/src/lib.rs", "// What it is.", "// What it is for.\n\n"));
    assert!(!edited("reader/src/tests/lib.rs", "a_test", "another_test"));
    assert!(!edited("reader/src/more/tests.rs", "a_test", "another_test"));
    assert!(!edited("Cargo.lock", "1.0.0", "1.0.1"), "what another crate uses");
    assert!(!edited("Cargo.lock", "2.0.0", "2.0.1"), "another version of what it uses");
}

#[test]
fn a_target_is_changed_until_its_digest_is_on_record() {
    let folder = made();
    assert!(is_changed(folder.path(), &TARGET).unwrap());
    let line = format!("a {}\n", digest(folder.path(), &TARGET).unwrap());
    fs::write(folder.path().join(ON_RECORD), line).unwrap();
    assert!(!is_changed(folder.path(), &TARGET).unwrap());
    fs::write(folder.path().join("reader/src/lib.rs"), "fn read(_: u8) {}").unwrap();
    assert!(is_changed(folder.path(), &TARGET).unwrap());
}

#[test]
fn every_target_has_a_digest() {
    for target in TARGETS {
        assert_eq!(digest(&repository(), target).unwrap().len(), 16, "{}", target.name);
    }
}
