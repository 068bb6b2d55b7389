//! Access tiers: how fast and at what price a blob can be read.

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$variant_doc])* $variant,)* }

        impl $name {
            /// `None` if there is no such word. Any case will do.
            pub fn parse(text: &str) -> Option<Self> {
                match text {
                    $(_ if text.eq_ignore_ascii_case($text) => Some(Self::$variant),)*
                    _ => None,
                }
            }

            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }
        }
    };
}
pub(super) use words;

words! {
    AccessTier {
        Hot = "Hot",
        Cool = "Cool",
        Cold = "Cold",
        Archive = "Archive",
        Smart = "Smart",
        P4 = "P4",
        P6 = "P6",
        P10 = "P10",
        P15 = "P15",
        P20 = "P20",
        P30 = "P30",
        P40 = "P40",
        P50 = "P50",
        P60 = "P60",
        P70 = "P70",
        P80 = "P80",
    }
}

impl AccessTier {
    /// Whether it is for page blobs of premium accounts.
    pub fn is_premium(self) -> bool {
        !matches!(self, Self::Hot | Self::Cool | Self::Cold | Self::Archive | Self::Smart)
    }
}

words! {
    /// How urgently an archived blob is wanted back.
    RehydratePriority {
        Standard = "Standard",
        High = "High",
    }
}

words! {
    /// Where an archived blob is on its way to.
    ArchiveStatus {
        ToHot = "rehydrate-pending-to-hot",
        ToCool = "rehydrate-pending-to-cool",
        ToCold = "rehydrate-pending-to-cold",
    }
}

/// What answers say of the tier of a block blob.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TierView {
    pub tier: AccessTier,
    /// It was not set: it is the account's.
    pub inferred: bool,
    pub changed: Option<crate::Timestamp>,
    pub archive_status: Option<ArchiveStatus>,
    pub rehydrate_priority: Option<RehydratePriority>,
}

impl Default for TierView {
    fn default() -> Self {
        Self {
            tier: AccessTier::Hot,
            inferred: true,
            changed: None,
            archive_status: None,
            rehydrate_priority: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiers() {
        for (text, expected) in [
            ("Hot", Some(AccessTier::Hot)),
            ("archive", Some(AccessTier::Archive)),
            ("P80", Some(AccessTier::P80)),
            ("P5", None),
            ("", None),
        ] {
            assert_eq!(AccessTier::parse(text), expected, "{text}");
        }
        assert!(AccessTier::P4.is_premium() && !AccessTier::Smart.is_premium());
    }
}
