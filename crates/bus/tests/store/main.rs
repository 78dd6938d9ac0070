//! The bus's files under every mishap that was ever reported of such a directory: torn, damaged, raced for, killed over, full. Never is a message that was acknowledged lost or shown twice without a word.
#![cfg(test)]

mod attacks;
mod faults;
mod foreign;
mod heavy;
mod layout;
mod model;
mod odd;
mod pages;
mod support;
