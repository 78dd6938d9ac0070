//! The four kinds of value a statement takes, the same on both engines. Never an engine's own type.

use muster_core::clock::Time;

/// One argument. The options are NULLs with a type, which Postgres wants to know.
#[derive(Debug, Clone)]
pub enum Value {
    /// A 64-bit integer: ids, counts, times in microseconds.
    Int(Option<i64>),
    /// Text.
    Text(Option<String>),
    /// A truth value: BOOLEAN on Postgres, 0 or 1 on SQLite.
    Bool(bool),
    /// Bytes.
    Bytes(Option<Vec<u8>>),
}

/// Something that can be bound to a placeholder.
pub trait Bind {
    /// The value to bind.
    fn value(self) -> Value;
}

macro_rules! bind {
    ($($from:ty => |$x:ident| $value:expr),+ $(,)?) => {$(
        impl Bind for $from {
            fn value(self) -> Value {
                let $x = self;
                $value
            }
        }
    )+};
}

bind! {
    i64 => |x| Value::Int(Some(x)),
    Option<i64> => |x| Value::Int(x),
    Time => |x| Value::Int(Some(x.micros())),
    Option<Time> => |x| Value::Int(x.map(Time::micros)),
    &str => |x| Value::Text(Some(x.to_owned())),
    Option<&str> => |x| Value::Text(x.map(str::to_owned)),
    String => |x| Value::Text(Some(x)),
    Option<String> => |x| Value::Text(x),
    bool => |x| Value::Bool(x),
    Vec<u8> => |x| Value::Bytes(Some(x)),
    &muster_core::TokenHash => |x| Value::Text(Some(x.as_str().to_owned())),
}

macro_rules! bind_ids {
    ($($id:ident),+ $(,)?) => {$(
        impl Bind for muster_core::ids::$id {
            fn value(self) -> Value {
                Value::Int(Some(self.get()))
            }
        }
        impl Bind for Option<muster_core::ids::$id> {
            fn value(self) -> Value {
                Value::Int(self.map(muster_core::ids::$id::get))
            }
        }
    )+};
}

bind_ids!(
    OwnerId,
    BrowserSessionId,
    PasskeyId,
    TokenId,
    PluginId,
    MessageId,
    DraftId,
    ChiefId,
    TurnId,
    AuditId,
    NoticeId,
    ProjectId,
    TaskId,
    WorktreeId,
    RunId,
    HostId,
    IntegrationId,
    ConnectionId,
    PolicyId,
    AskId
);

/// A tuple of arguments, `()` for none. The owner's `$1` is not part of it.
pub trait Args {
    /// The arguments in order.
    fn values(self) -> Vec<Value>;
}

impl Args for () {
    fn values(self) -> Vec<Value> {
        Vec::new()
    }
}

impl Args for Vec<Value> {
    fn values(self) -> Vec<Value> {
        self
    }
}

macro_rules! args {
    ($($name:ident)+) => {
        impl<$($name: Bind),+> Args for ($($name,)+) {
            #[expect(non_snake_case, reason = "the macro names each element after its type parameter")]
            fn values(self) -> Vec<Value> {
                let ($($name,)+) = self;
                vec![$($name.value()),+]
            }
        }
    };
}

args!(A);
args!(A B);
args!(A B C);
args!(A B C D);
args!(A B C D E);
args!(A B C D E F);
args!(A B C D E F G);
args!(A B C D E F G H);
args!(A B C D E F G H I);
args!(A B C D E F G H I J);
args!(A B C D E F G H I J K);
args!(A B C D E F G H I J K L);
args!(A B C D E F G H I J K L M);
args!(A B C D E F G H I J K L M N);
args!(A B C D E F G H I J K L M N O);
args!(A B C D E F G H I J K L M N O P);
