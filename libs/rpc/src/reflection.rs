//! gRPC server reflection of the whole contract, for grpcurl and its like.

use crate::DESCRIPTORS;
use tonic_reflection::server::v1::{ServerReflection, ServerReflectionServer};
use tonic_reflection::server::{Builder, Error};

/// The reflection service.
///
/// # Errors
/// When the descriptors can't be indexed, which a test excludes.
pub fn service() -> Result<ServerReflectionServer<impl ServerReflection>, Error> {
    Builder::configure().register_encoded_file_descriptor_set(DESCRIPTORS).build_v1()
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_descriptors_can_be_reflected() {
        assert!(super::service().is_ok());
    }
}
