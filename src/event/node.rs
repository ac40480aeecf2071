//! Which step inside a tool an event came from.

use std::borrow::Cow;
use std::fmt;

use bytestring::ByteString;

/// The name of a step inside a tool.
///
/// Cheap to clone. A `&'static str` becomes a node without an allocation.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Node(ByteString);

impl Node {
    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub(crate) fn from_shared(name: ByteString) -> Self {
        Self(name)
    }

    pub(crate) fn into_owned(self) -> Self {
        Self(ByteString::from(&*self.0))
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl AsRef<str> for Node {
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}

impl PartialEq<str> for Node {
    fn eq(&self, other: &str) -> bool {
        self.as_str() == other
    }
}

impl PartialEq<&str> for Node {
    fn eq(&self, other: &&str) -> bool {
        self.as_str() == *other
    }
}

impl From<&'static str> for Node {
    fn from(name: &'static str) -> Self {
        Self(ByteString::from_static(name))
    }
}

impl From<String> for Node {
    fn from(name: String) -> Self {
        Self(ByteString::from(name))
    }
}

impl From<Cow<'static, str>> for Node {
    fn from(name: Cow<'static, str>) -> Self {
        match name {
            Cow::Borrowed(name) => Self::from(name),
            Cow::Owned(name) => Self::from(name),
        }
    }
}

/// What can name a node, or say that there is none: a `&'static str`, a `String`, a [`Node`], and
/// an `Option` of each.
///
/// Sealed: it stands for `Into<Option<Node>>`, which no crate can implement for strings.
pub trait IntoNode: sealed::Sealed {
    /// The node, if one was named.
    fn into_node(self) -> Option<Node>;
}

impl IntoNode for &'static str {
    fn into_node(self) -> Option<Node> {
        Some(self.into())
    }
}

impl IntoNode for String {
    fn into_node(self) -> Option<Node> {
        Some(self.into())
    }
}

impl IntoNode for Node {
    fn into_node(self) -> Option<Node> {
        Some(self)
    }
}

impl IntoNode for &Node {
    fn into_node(self) -> Option<Node> {
        Some(self.clone())
    }
}

impl<T: IntoNode> IntoNode for Option<T> {
    fn into_node(self) -> Option<Node> {
        self.and_then(IntoNode::into_node)
    }
}

mod sealed {
    #[expect(
        unnameable_types,
        reason = "what nobody can name, nobody can implement"
    )]
    pub trait Sealed {}
    impl Sealed for &'static str {}
    impl Sealed for String {}
    impl Sealed for super::Node {}
    impl Sealed for &super::Node {}
    impl<T: Sealed> Sealed for Option<T> {}
}
