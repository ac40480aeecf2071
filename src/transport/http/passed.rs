//! Listening sockets that whoever started this process has opened for it, as `LISTEN_FDS` says.
//!
//! Owns the variables and the descriptors from the first look on, so that no child of this process
//! inherits any; must not know what is served on them.

use std::collections::VecDeque;
use std::env;
use std::io;
use std::net::{self, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::{Mutex, PoisonError};

use listenfd::ListenFd;
use tokio::net::{TcpListener, TcpSocket};

use crate::error::Error;

/// Those that nobody has asked for yet, in the order of their numbers.
static PASSED: Mutex<VecDeque<io::Result<net::TcpListener>>> = Mutex::new(VecDeque::new());

const VARIABLE: &str = "LISTEN_FDS";

/// Where systemfd begins, instead of at 3.
const FIRST: &str = "LISTEN_FDS_FIRST_FD";

/// More than anybody passes on. A number that is meant as something else is refused before room is
/// made for it.
const MAX_DESCRIPTORS: usize = 1024;

/// More than any process may have open.
const MAX_FIRST: i32 = 1 << 30;

/// Connections that wait until they are accepted, as many as tokio's own listeners have.
const BACKLOG: u32 = 1024;

/// The next socket that was passed on; none once all are taken, or if they are for another process.
///
/// # Errors
/// [`Error::Config`] for a variable that is no number, [`Error::Transport`] for a descriptor that
/// is no TCP socket, or one that cannot listen.
pub(crate) fn take() -> Result<Option<TcpListener>, Error> {
    let mut passed = PASSED.lock().unwrap_or_else(PoisonError::into_inner);
    // Only where there is something to take: it also removes the variables.
    if let Some(count) = env::var_os(VARIABLE) {
        let count = count.to_str().and_then(|text| text.parse().ok());
        if count.is_none_or(|count: usize| count > MAX_DESCRIPTORS) {
            return Err(Error::config(format!(
                "the environment variable {VARIABLE} is not a number of descriptors, which is at \
                 most {MAX_DESCRIPTORS}"
            )));
        }
        // What is counted from there has a number too.
        let is_first = |text: &str| matches!(text.parse(), Ok(3..=MAX_FIRST));
        if env::var_os(FIRST).is_some_and(|first| !first.to_str().is_some_and(is_first)) {
            return Err(Error::config(format!(
                "the environment variable {FIRST} is not the number of a descriptor from 3 to \
                 {MAX_FIRST}"
            )));
        }
        let mut given = ListenFd::from_env();
        for index in 0..given.len() {
            passed.extend(given.take_tcp_listener(index).transpose());
        }
    }
    let Some(next) = passed.pop_front() else {
        return Ok(None);
    };
    drop(passed);
    let listener = next.and_then(listening);
    listener.map(Some).map_err(|e| {
        let text = format!("a descriptor that {VARIABLE} passes on is no listening TCP socket");
        Error::transport_by(text, e)
    })
}

/// Lets the socket listen. Whether it does so already cannot be asked safely; told again it only
/// takes on another backlog, and a socket that is connected fails.
fn listening(listener: net::TcpListener) -> io::Result<TcpListener> {
    listener.set_nonblocking(true)?;
    let socket = TcpSocket::from_std_stream(TcpStream::from(OwnedFd::from(listener)));
    socket.listen(BACKLOG)
}
