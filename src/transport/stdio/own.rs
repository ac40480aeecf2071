//! Our own standard streams.
//!
//! Owns how they are opened for each kind of descriptor; must not know what passes over them.
//!
//! tokio's own stdin reads on a thread that cannot be interrupted, so that a server told to stop
//! would hang until the next line. Pipes, sockets and terminals are read without a thread; files and
//! the like never wait. Pipes and terminals are opened anew where the system can, so that switching
//! them to non-blocking does not reach whoever shares them, such as our own stderr.

use std::io;

use tokio::io::{AsyncRead, AsyncWrite};

pub(crate) type Input = Box<dyn AsyncRead + Send + Unpin>;
pub(crate) type Output = Box<dyn AsyncWrite + Send + Unpin>;

/// Stdin and stdout.
pub(crate) fn streams() -> (Input, Output) {
    #[cfg(unix)]
    let (input, output) = (unix::input(), unix::output());
    #[cfg(not(unix))]
    let (input, output) = (None, None);
    (
        input.unwrap_or_else(|| Box::new(tokio::io::stdin())),
        output.unwrap_or_else(|| Box::new(tokio::io::stdout())),
    )
}

#[cfg(unix)]
mod unix {
    use std::os::fd::{AsFd, OwnedFd};

    use rustix::fs::{FileType, fstat};
    use tokio::net::UnixStream;
    use tokio::net::unix::pipe;

    use super::{Input, Output, io};

    pub(super) fn input() -> Option<Input> {
        let stdin = io::stdin();
        if is(&stdin, FileType::Socket) {
            return Some(Box::new(socket(&stdin)?));
        }
        // What may not be opened anew is read as it is; nobody else reads it.
        let pipe = pipe::OpenOptions::new()
            .unchecked(is(&stdin, FileType::CharacterDevice))
            .open_receiver("/dev/stdin")
            .or_else(|_| pipe::Receiver::from_owned_fd(clone(&stdin)?));
        Some(Box::new(pipe.ok()?))
    }

    pub(super) fn output() -> Option<Output> {
        let stdout = io::stdout();
        if is(&stdout, FileType::Socket) {
            return Some(Box::new(socket(&stdout)?));
        }
        let pipe = pipe::OpenOptions::new()
            .unchecked(is(&stdout, FileType::CharacterDevice))
            .open_sender("/dev/stdout");
        Some(Box::new(pipe.ok()?))
    }

    fn is(stream: &impl AsFd, kind: FileType) -> bool {
        fstat(stream).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == kind)
    }

    fn clone(stream: &impl AsFd) -> io::Result<OwnedFd> {
        stream.as_fd().try_clone_to_owned()
    }

    /// The socket behind a stream. It cannot be opened anew, so one that is also our stderr is left
    /// alone: who prints there does not expect to be told to wait.
    fn socket(stream: &impl AsFd) -> Option<UnixStream> {
        let (stat, stderr) = (fstat(stream).ok()?, fstat(io::stderr()));
        if stderr.is_ok_and(|stderr| (stderr.st_dev, stderr.st_ino) == (stat.st_dev, stat.st_ino)) {
            return None;
        }
        let socket = std::os::unix::net::UnixStream::from(clone(stream).ok()?);
        socket.set_nonblocking(true).ok()?;
        UnixStream::from_std(socket).ok()
    }
}
