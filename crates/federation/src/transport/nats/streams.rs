//! The two streams and the bucket of a realm: created if missing, updated if their configuration differs.

use std::time::Duration;

use async_nats::jetstream::context::{CreateStreamError, CreateStreamErrorKind, GetStreamErrorKind};
use async_nats::jetstream::stream::{Config, DiscardPolicy, StorageType};
use async_nats::jetstream::{Context, ErrorCode, object_store};

use super::settings::NatsSettings;
use super::subjects::Subjects;

/// Time for which the broker remembers message ids. The ids only avoid duplicates after a lost acknowledgement.
const DUPLICATE_WINDOW: Duration = Duration::from_secs(10);
/// Maximum number of bytes of all stored heads. The stream keeps one message per origin.
const HEADS_STREAM_BYTES_MAX: i64 = 16 << 20;

/// The desired configuration of a realm's streams.
#[derive(Clone, Debug)]
pub(super) struct Streams {
    segments: Config,
    heads: Config,
    snapshots: object_store::Config,
}

impl Streams {
    pub(super) fn new(subjects: &Subjects, settings: &NatsSettings) -> Self {
        let max_bytes = i64::try_from(settings.max_bytes).unwrap_or(i64::MAX);
        let num_replicas = settings.replicas.into();
        let common = Config {
            storage: StorageType::File,
            discard: DiscardPolicy::Old,
            allow_direct: true,
            max_age: settings.max_age,
            max_bytes,
            num_replicas,
            // The broker refuses a window longer than the messages' maximum age.
            duplicate_window: DUPLICATE_WINDOW.min(settings.max_age),
            ..Config::default()
        };
        let heads = Config {
            name: subjects.heads_stream(),
            subjects: vec![subjects.all_heads()],
            max_messages_per_subject: 1,
            max_bytes: HEADS_STREAM_BYTES_MAX,
            ..common.clone()
        };
        let segments = Config { name: subjects.segments_stream(), subjects: vec![subjects.chains()], ..common };
        let snapshots = object_store::Config {
            bucket: subjects.bucket(),
            max_age: settings.max_age,
            max_bytes,
            num_replicas,
            ..object_store::Config::default()
        };
        Self { segments, heads, snapshots }
    }

    /// Creates or updates both streams as needed.
    pub(super) async fn ensure(&self, context: &Context) -> Result<(), CreateStreamError> {
        ensure(context, &self.segments).await?;
        ensure(context, &self.heads).await
    }

    /// Returns the bucket, created if it does not exist.
    pub(super) async fn bucket(
        &self,
        context: &Context,
    ) -> Result<object_store::ObjectStore, async_nats::jetstream::context::CreateObjectStoreError> {
        match context.get_object_store(&self.snapshots.bucket).await {
            Ok(bucket) => Ok(bucket),
            Err(_) => context.create_object_store(self.snapshots.clone()).await,
        }
    }
}

/// Creates a missing stream, and updates a stream whose configuration differs. An existing configuration is read first,
/// so nodes need no permission to change streams that an operator created.
async fn ensure(context: &Context, wanted: &Config) -> Result<(), CreateStreamError> {
    match context.get_stream(&wanted.name).await {
        Ok(stream) if is_as_wanted(&stream.cached_info().config, wanted) => Ok(()),
        Ok(_) => context.update_stream(wanted).await.map(drop),
        Err(error) if is_absent(&error.kind()) => context.create_stream(wanted.clone()).await.map(drop),
        Err(error) => Err(CreateStreamError::with_source(CreateStreamErrorKind::Response, error)),
    }
}

fn is_absent(error: &GetStreamErrorKind) -> bool {
    matches!(error, GetStreamErrorKind::JetStream(error) if error.error_code() == ErrorCode::STREAM_NOT_FOUND)
}

/// Compares the fields that we set. The other fields belong to the broker or its operator.
fn is_as_wanted(is: &Config, wanted: &Config) -> bool {
    is.subjects == wanted.subjects
        && is.num_replicas == wanted.num_replicas
        && is.max_age == wanted.max_age
        && is.max_bytes == wanted.max_bytes
        && is.max_messages_per_subject.max(0) == wanted.max_messages_per_subject.max(0)
        && is.discard == wanted.discard
        && is.allow_direct == wanted.allow_direct
}
