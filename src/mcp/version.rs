//! The known protocol revisions.
//!
//! Owns their spelling and their order; must not know what they change. A revision that is not in
//! the list never compares with one that is.

use std::fmt;

/// A revision of the protocol, oldest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum ProtocolVersion {
    V2024_11_05,
    V2025_03_26,
    V2025_06_18,
    V2025_11_25,
}

impl ProtocolVersion {
    /// Every known revision, newest first.
    pub(crate) const ALL: [Self; 4] = [
        Self::V2025_11_25,
        Self::V2025_06_18,
        Self::V2025_03_26,
        Self::V2024_11_05,
    ];

    /// The newest revision that opens with a handshake.
    pub(crate) const NEWEST_LEGACY: Self = Self::V2025_11_25;

    pub(crate) fn parse(text: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|version| version.as_str() == text)
    }

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::V2024_11_05 => "2024-11-05",
            Self::V2025_03_26 => "2025-03-26",
            Self::V2025_06_18 => "2025-06-18",
            Self::V2025_11_25 => "2025-11-25",
        }
    }
}

impl fmt::Display for ProtocolVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_revision_reads_back_and_strangers_do_not() {
        for version in ProtocolVersion::ALL {
            assert_eq!(ProtocolVersion::parse(version.as_str()), Some(version));
        }
        for stranger in [
            "",
            "zzz",
            "1999-01-01",
            "2025-11-26",
            "DRAFT-2026-v1",
            " 2025-11-25",
        ] {
            assert_eq!(ProtocolVersion::parse(stranger), None, "{stranger}");
        }
    }

    #[test]
    fn the_list_is_newest_first() {
        assert!(ProtocolVersion::ALL.is_sorted_by(|a, b| a > b));
        assert!(ProtocolVersion::ALL.contains(&ProtocolVersion::NEWEST_LEGACY));
    }
}
