//! What operations of all services have in common.

/// Whether an operation may change anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    Read,
    Write,
}

/// Which operation of a service a request is.
pub trait Kind: Copy + Send + Sync + 'static {
    /// The operation's name in logs and metrics.
    fn name(self) -> &'static str;
    fn effect(self) -> Effect;
    /// Whether it asks how far the secondary endpoint is behind, which only that one answers.
    fn is_stats(self) -> bool;
}

/// Declares the `OperationKind` of a service: each kind, its name in logs, and its [`Effect`].
macro_rules! operation_kinds {
    ($($kind:ident = $name:literal, $effect:ident;)*) => {
        /// Which operation a request is, before anything else of it is known.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum OperationKind { $($kind,)* }

        impl OperationKind {
            pub const ALL: &[Self] = &[$(Self::$kind,)*];
        }

        impl $crate::operation::Kind for OperationKind {
            fn name(self) -> &'static str {
                match self { $(Self::$kind => $name,)* }
            }

            fn effect(self) -> $crate::operation::Effect {
                match self { $(Self::$kind => $crate::operation::Effect::$effect,)* }
            }

            fn is_stats(self) -> bool {
                self == Self::GetServiceStats
            }
        }
    };
}
pub(crate) use operation_kinds;
