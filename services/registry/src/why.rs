//! Why.
use crate::failure::Failure;
use rpc::auth::Caller;
use rpc::v1;
use store::Store;

pub async fn answer(_: &Store, _: &Caller, _: &v1::WhyJobRequest) -> Result<v1::WhyJobResponse, Failure> {
    Err(Failure::NotFound { kind: "answer", name: "not available yet".to_owned() })
}
