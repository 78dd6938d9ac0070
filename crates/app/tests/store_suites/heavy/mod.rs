//! Suites that fill disks and restart servers, one at a time. Never touches a disk or a server that was not made for it.

mod disk;
mod restart;
