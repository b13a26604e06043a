//! Messages whose type is known by descriptor only, in tonic's calls.

use prost::Message;
use prost_reflect::{DynamicMessage, MessageDescriptor};
use tonic::Status;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};

/// Sends any message and receives those of one kind.
#[derive(Debug, Clone)]
pub(super) struct DynamicCodec {
    answer: MessageDescriptor,
}

impl DynamicCodec {
    pub(super) const fn new(answer: MessageDescriptor) -> Self {
        Self { answer }
    }
}

impl Codec for DynamicCodec {
    type Encode = DynamicMessage;
    type Decode = DynamicMessage;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        self.clone()
    }

    fn decoder(&mut self) -> Self {
        self.clone()
    }
}

impl Encoder for DynamicCodec {
    type Item = DynamicMessage;
    type Error = Status;

    fn encode(&mut self, message: DynamicMessage, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        message.encode(buffer).map_err(|error| crate::status::internal("encoding a request", &error))
    }
}

impl Decoder for DynamicCodec {
    type Item = DynamicMessage;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<DynamicMessage>, Status> {
        DynamicMessage::decode(self.answer.clone(), buffer)
            .map(Some)
            .map_err(|error| crate::status::internal("decoding an answer", &error))
    }
}
