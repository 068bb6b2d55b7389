//! Files that are written anew and then take the place of others. Some of them hold secrets.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::Path;

/// Who may read a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Readers {
    Everybody,
    /// It holds a secret.
    Owner,
}

/// Makes a file. What is there already is removed first, whoever left it: it would keep its owner, its rights, and those who
/// have it open.
pub fn create_new(path: &Path, readers: Readers) -> io::Result<File> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(
        &mut options,
        if readers == Readers::Owner { 0o600 } else { 0o644 },
    );
    #[cfg(not(unix))]
    let _ = readers;
    options.open(path)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::io::Write as _;
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};

    #[test]
    fn nothing_is_left_of_what_was_there() {
        let directory = tempfile::tempdir().unwrap();
        let (path, other) = (directory.path().join("new"), directory.path().join("other"));
        fs::write(&other, "theirs").unwrap();
        for (case, leave) in [
            ("nothing", &(|| {}) as &dyn Fn()),
            ("a file that all may read", &|| {
                fs::write(&path, "old").unwrap();
                fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
            }),
            ("a link to another file", &|| symlink(&other, &path).unwrap()),
            ("a link to nothing", &|| symlink(directory.path().join("gone"), &path).unwrap()),
        ] {
            for (readers, others) in [(Readers::Owner, 0o077), (Readers::Everybody, 0o022)] {
                leave();
                create_new(&path, readers).unwrap().write_all(b"ours").unwrap();
                let found = fs::symlink_metadata(&path).unwrap();
                assert!(found.is_file() && found.mode() & others == 0, "{case}: {:o}", found.mode());
                assert_eq!(fs::read(&path).unwrap(), b"ours", "{case}");
                fs::remove_file(&path).unwrap();
            }
        }
        assert_eq!(fs::read(&other).unwrap(), b"theirs");
        assert!(!directory.path().join("gone").exists());
    }
}
