//! How muster talks to its own database: two engines behind one API, transactions, migrations and wake-ups. Never knows what a row means.

mod connect;
mod lane;
mod listen;
mod lock;
mod migrate;
mod open;
mod postgres;
mod probe;
mod sql;
mod stored;
mod tx;
mod value;
mod wake;

pub use connect::{Db, Engine, Prepared};
pub use lock::{HeldLock, Locks};
pub use open::{OpenError, Options};
pub use sql::{Scope, Sql, owned, owned_pair, system, system_pair};
pub use stored::Stored;
pub use tx::{Row, Tx};
pub use value::{Args, Bind, Value};
pub use wake::{Topic, Wakeups};

/// A future that a job returns; boxed so that one signature serves both engines.
pub type JobFuture<'t, T> = std::pin::Pin<Box<dyn Future<Output = T> + Send + 't>>;
