//! The known protocol revisions.
//!
//! Owns their spelling, their order and the user's choice among them; must not know what they
//! change. A revision that is not in the list never compares with one that is.

use std::fmt;

/// Which era of the protocol to speak with a server.
///
/// ```
/// use agent_hub_kit::Era;
///
/// assert_eq!(Era::default(), Era::Auto);
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Era {
    /// Find out: ask the server what it speaks, and open with a handshake if it does not
    /// understand the question. Costs a server of the handshake era one more request when it is
    /// connected first, and one that leaves the question unanswered
    /// [`Limits::discover_timeout`](crate::Limits::discover_timeout); a child process that ends at
    /// the question is started once more. What was found out is doubted when the server turns out
    /// to speak the other era, and forgotten when a connect fails.
    #[default]
    Auto,
    /// The handshake revisions, 2024-11-05 to 2025-11-25. Nothing else is tried, so a server that
    /// speaks only the others cannot be connected.
    Legacy,
    /// The stateless revisions, 2026-07-28 and later. Nothing else is tried.
    Modern,
}

/// A revision of the protocol, oldest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum ProtocolVersion {
    V2024_11_05,
    V2025_03_26,
    V2025_06_18,
    V2025_11_25,
    V2026_07_28,
}

impl ProtocolVersion {
    /// Every known revision, newest first.
    pub(crate) const ALL: [Self; 5] = [
        Self::V2026_07_28,
        Self::V2025_11_25,
        Self::V2025_06_18,
        Self::V2025_03_26,
        Self::V2024_11_05,
    ];

    /// The newest revision that opens with a handshake.
    pub(crate) const NEWEST_LEGACY: Self = Self::V2025_11_25;

    /// The newest revision without one.
    pub(crate) const NEWEST_MODERN: Self = Self::V2026_07_28;

    /// Whether a connection opens with a handshake.
    pub(crate) fn is_legacy(self) -> bool {
        self <= Self::NEWEST_LEGACY
    }

    /// The revisions of one kind, newest first.
    pub(crate) fn known(legacy: bool) -> impl Iterator<Item = Self> {
        let all = Self::ALL.into_iter();
        all.filter(move |version| version.is_legacy() == legacy)
    }

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
            Self::V2026_07_28 => "2026-07-28",
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

    // Covers R-301, R-1805.
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
        let newest = |legacy| ProtocolVersion::known(legacy).next();
        assert_eq!(newest(true), Some(ProtocolVersion::NEWEST_LEGACY));
        assert_eq!(newest(false), Some(ProtocolVersion::NEWEST_MODERN));
    }
}
