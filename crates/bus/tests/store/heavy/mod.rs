//! Suites that start and kill processes, fill disks and take their time. One at a time.

mod disk;
mod many;
mod shared;
