//! Streams of tokio as hyper wants them. Written here because the usual adapter brings along a crate, and this is all
//! that is needed of it.

use hyper::rt::{Read, ReadBufCursor, Write};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// As large as what hyper reads at first; larger pieces take several turns.
const BUFFER_BYTES: usize = 64 * 1024;

pub(super) struct HyperIo<S> {
    stream: S,
    /// What is read goes through it: without unsafe code, hyper's own buffer takes only whole slices.
    buffer: Box<[u8]>,
}

impl<S> HyperIo<S> {
    pub(super) fn new(stream: S) -> Self {
        Self { stream, buffer: vec![0; BUFFER_BYTES].into_boxed_slice() }
    }
}

impl<S: AsyncRead + Unpin> Read for HyperIo<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        mut out: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let Self { stream, buffer } = &mut *self;
        let room = out.remaining().min(buffer.len());
        let mut read = ReadBuf::new(&mut buffer[..room]);
        ready!(Pin::new(stream).poll_read(context, &mut read))?;
        out.put_slice(read.filled());
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> Write for HyperIo<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, pieces)
    }
}
