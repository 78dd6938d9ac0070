//! Work documents and write scopes: what is imported, listed, exported, declared and found drifted. Never looks at a real repository.
#![cfg(test)]

mod documents;
mod drift;
mod export;
mod import;
mod scopes;

use std::path::{Path, PathBuf};

use muster_bus::limits::Limits;
use muster_bus::work::Place;
use muster_bus::{Home, SeatId};
use muster_core::Clock;

/// A bus and a repository beside it, in a folder that ends with the test.
struct World {
    home: Home,
    repo: PathBuf,
    _dir: tempfile::TempDir,
}

impl World {
    fn new(documents: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::open(&dir.path().join("bus"), Limits::default(), Clock::system()).unwrap();
        let repo = std::fs::canonicalize(dir.path()).unwrap().join("repo");
        std::fs::create_dir_all(repo.join("docs")).unwrap();
        let world = Self {
            home,
            repo,
            _dir: dir,
        };
        for (name, text) in documents {
            world.put(name, text);
        }
        world
    }

    fn put(&self, name: &str, text: &str) {
        std::fs::write(self.repo.join(name), text).unwrap();
    }

    fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.repo.join(name)).unwrap()
    }

    /// The repository named by the caller.
    fn named(&self) -> Place<'_> {
        Place {
            repo: Some(&self.repo),
            default_repo: None,
        }
    }

    fn declare(&self, scopes: &str) {
        std::fs::write(self.home.root().join("scopes.json"), scopes).unwrap();
    }
}

fn seat(id: &str) -> SeatId {
    SeatId::parse(id).unwrap()
}

/// Every file below a folder with its bytes, for a comparison of before and after.
fn all(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                files.push((path.clone(), std::fs::read(&path).unwrap()));
            }
        }
    }
    files.sort();
    files
}
