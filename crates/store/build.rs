//! Makes cargo notice a new migration file. Never generates code.

fn main() {
    println!("cargo:rerun-if-changed=migrations");
}
