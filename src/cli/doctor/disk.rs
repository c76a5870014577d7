//! Check of a directory that a role writes into: that it can, and how much room there is.

use std::{fs, path::Path};

use chains::diagnosis::Diagnosis;

/// Less room than this is warned of, bytes.
const FREE_WARNING: u64 = 5 << 30;
/// With less nothing should be started.
const FREE_MIN: u64 = 256 << 20;

/// Room in the file system of a directory, or of the nearest one above where it is not made yet.
pub(super) fn directory(path: &Path) -> Vec<Diagnosis> {
    let subject = format!("room in {}", path.display());
    let here = Path::new(".");
    let there = path.ancestors().map(|up| if up.as_os_str().is_empty() { here } else { up }).find(|up| up.exists());
    let there = there.unwrap_or(here);
    let mut found = Vec::new();
    match fs::metadata(there) {
        Ok(metadata) if !metadata.is_dir() => {
            let subject = format!("directory {}", path.display());
            found.push(Diagnosis::wrong(subject, format!("{} is a file", there.display()), "name another directory"));
        }
        Ok(_) if rustix::fs::access(there, rustix::fs::Access::WRITE_OK).is_err() => {
            let subject = format!("directory {}", path.display());
            let found_here = format!("this user may not write into {}", there.display());
            found.push(Diagnosis::wrong(
                subject,
                found_here,
                "run this as the role's own user, or give it the directory",
            ));
        }
        Ok(_) | Err(_) => {}
    }
    found.push(match rustix::fs::statvfs(there) {
        Ok(system) => judged(subject, system.f_bavail.saturating_mul(system.f_frsize)),
        Err(error) => Diagnosis::not_checked(subject, error, "see that the directory can be made"),
    });
    found
}

fn judged(subject: String, free: u64) -> Diagnosis {
    let found = format!("{} MiB are free", free >> 20);
    let remedy = "free some, or move the directory to another file system";
    match free {
        ..FREE_MIN => Diagnosis::wrong(subject, found, remedy),
        FREE_MIN..FREE_WARNING => Diagnosis::warning(subject, found, remedy),
        _ => Diagnosis::ok(subject, found),
    }
}

#[cfg(test)]
mod tests {
    use chains::diagnosis::Verdict;

    use super::*;

    #[test]
    fn room_is_judged_and_a_directory_need_not_be_there_yet() {
        let verdict = |free| judged("room".to_owned(), free).verdict;
        assert_eq!(verdict(FREE_MIN - 1), Verdict::Wrong);
        assert_eq!(verdict(FREE_MIN), Verdict::Warning);
        assert_eq!(verdict(FREE_WARNING), Verdict::Ok);

        let directory = tempfile::tempdir().unwrap();
        let found = super::directory(&directory.path().join("not/made/yet"));
        assert!(found.iter().any(|one| one.found.ends_with("MiB are free")), "{found:?}");
        let file = directory.path().join("file");
        std::fs::write(&file, "").unwrap();
        assert_eq!(super::directory(&file.join("below"))[0].verdict, Verdict::Wrong);
    }
}
