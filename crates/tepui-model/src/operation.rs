//! What operations of all services have in common.

/// Whether an operation may change anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    Read,
    Write,
}

/// Declares the `OperationKind` of a service: each kind, its name in logs, and its [`Effect`].
macro_rules! operation_kinds {
    ($($kind:ident = $name:literal, $effect:ident;)*) => {
        /// Which operation a request is, before anything else of it is known.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum OperationKind { $($kind,)* }

        impl OperationKind {
            pub const ALL: &[Self] = &[$(Self::$kind,)*];

            /// The operation's name in logs and metrics.
            pub fn name(self) -> &'static str {
                match self { $(Self::$kind => $name,)* }
            }

            pub fn effect(self) -> $crate::operation::Effect {
                match self { $(Self::$kind => $crate::operation::Effect::$effect,)* }
            }
        }
    };
}
pub(crate) use operation_kinds;
