//! The first message of a request, before tonic reads it.
//!
//! In: the body of a request. Out: the bytes of its first message, and a body that begins with the
//! same bytes. Five bytes precede a message: a flag whether it is compressed, which is never set
//! here, and its length.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes, BytesMut};
use http_body::{Body as _, Frame, SizeHint};
use tonic::Status;
use tonic::body::Body;

/// The most bytes of a first message. A plan has some thousand bytes, and names every file that it
/// reads.
pub(crate) const LARGEST: usize = 64 << 20;

/// The bytes before a message.
const PREFIX: usize = 5;

/// A body whose beginning was read.
#[derive(Debug)]
struct Again {
    read: Option<Bytes>,
    rest: Body,
}

impl http_body::Body for Again {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        match self.read.take() {
            Some(read) => Poll::Ready(Some(Ok(Frame::data(read)))),
            None => Pin::new(&mut self.rest).poll_frame(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.read.is_none() && self.rest.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}

/// The first message of a body, and the whole body.
///
/// # Errors
/// If there is none, it is compressed or too long, or the body fails.
pub(super) async fn first_message(mut body: Body) -> Result<(Bytes, Body), Status> {
    let mut read = BytesMut::new();
    let message = loop {
        if let Some(mut prefix) = read.get(..PREFIX) {
            let is_compressed = prefix.get_u8() != 0;
            let length = usize::try_from(prefix.get_u32()).unwrap_or(usize::MAX);
            if is_compressed || length > LARGEST {
                return Err(Status::invalid_argument("a plan is too long, or compressed"));
            }
            if let Some(message) = read.get(PREFIX..PREFIX + length) {
                break Bytes::copy_from_slice(message);
            }
        }
        let frame = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await;
        match frame.transpose()?.map(Frame::into_data) {
            Some(Ok(data)) => read.extend_from_slice(&data),
            Some(Err(_)) | None => return Err(Status::invalid_argument("a request has no plan")),
        }
    };
    Ok((message, Body::new(Again { read: Some(read.freeze()), rest: body })))
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    struct Parts(VecDeque<Bytes>);

    impl http_body::Body for Parts {
        type Data = Bytes;
        type Error = Status;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
            Poll::Ready(self.0.pop_front().map(|part| Ok(Frame::data(part))))
        }
    }

    async fn whole(mut body: Body) -> Vec<u8> {
        let mut whole = Vec::new();
        while let Some(frame) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
            whole.extend(frame.unwrap().into_data().unwrap());
        }
        whole
    }

    #[tokio::test]
    async fn a_message_is_found_however_it_is_cut() {
        let text = b"\0\0\0\0\x04plan\0\0\0\0\x01x";
        for size in 1..=text.len() {
            let parts = text.chunks(size).map(Bytes::copy_from_slice).collect();
            let (message, body) = first_message(Body::new(Parts(parts))).await.unwrap();
            assert_eq!(&message[..], b"plan", "{size}");
            assert_eq!(whole(body).await, text, "{size}");
        }
        let (message, _) = first_message(one(b"\0\0\0\0\0")).await.unwrap();
        assert!(message.is_empty());
    }

    fn one(text: &'static [u8]) -> Body {
        Body::new(Parts([Bytes::from_static(text)].into()))
    }

    #[tokio::test]
    async fn what_has_no_message_is_refused() {
        for text in [&b""[..], b"\0", b"\0\0\0\0\x04pla", b"\x01\0\0\0\x04plan", b"\0\xff\0\0\0"] {
            assert!(first_message(one(text)).await.is_err(), "{text:?}");
        }
    }
}
