//! The error catalogue: every error that the protocol knows, one row each, and [`ServiceError`],
//! which carries one of them to the caller.

use crate::{AuthFailure, Throttle};
use std::fmt;

/// Who raised an error. The answers of the Table service differ by it, and so do messages in batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Credentials were missing or not good.
    Authentication,
    /// Found before the store was asked.
    FrontEnd,
    /// Found by the store.
    Store,
}

macro_rules! error_catalogue {
    ($($name:ident = $status:literal, $stage:ident, $message:literal;)*) => {
        /// An error of the protocol. The variant's name is the code that goes over the wire.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum ErrorCode { $($name,)* }

        impl ErrorCode {
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            pub fn name(self) -> &'static str {
                match self { $(Self::$name => stringify!($name),)* }
            }

            pub fn status(self) -> u16 {
                match self { $(Self::$name => $status,)* }
            }

            /// Who raises this error, unless the [`ServiceError`] says otherwise.
            pub fn stage(self) -> Stage {
                match self { $(Self::$name => Stage::$stage,)* }
            }

            pub fn message(self) -> &'static str {
                match self { $(Self::$name => $message,)* }
            }
        }
    };
}

error_catalogue! {
    AccessTierNotSupportedForBlobType = 400, Store, "The access tier is not supported for this blob type.";
    AccountIsDisabled = 403, FrontEnd, "The specified account is disabled.";
    AppendPositionConditionNotMet = 412, Store, "The append position condition specified was not met.";
    AtomFormatNotSupported = 415, FrontEnd, "Atom format is not supported.";
    AuthenticationFailed = 403, Authentication, "Server failed to authenticate the request. Make sure the value of Authorization header is formed correctly including the signature.";
    AuthorizationFailure = 403, Store, "This request is not authorized to perform this operation.";
    AuthorizationPermissionMismatch = 403, Store, "This request is not authorized to perform this operation using this permission.";
    AuthorizationProtocolMismatch = 403, Store, "This request is not authorized to perform this operation using this protocol.";
    AuthorizationResourceTypeMismatch = 403, Store, "This request is not authorized to perform this operation using this resource type.";
    AuthorizationServiceMismatch = 403, Store, "This request is not authorized to perform this operation using this service.";
    AuthorizationSourceIPMismatch = 403, Store, "This request is not authorized to perform this operation using this source IP.";
    BlobAlreadyExists = 409, Store, "The specified blob already exists.";
    BlobArchived = 409, Store, "This operation is not permitted on an archived blob.";
    BlobBeingRehydrated = 409, Store, "This operation is not permitted because the blob is being rehydrated.";
    BlobCustomerSpecifiedEncryptionMismatch = 409, Store, "The given customer specified encryption does not match the encryption used to encrypt the blob.";
    BlobDoesNotUseCustomerSpecifiedEncryption = 409, Store, "The blob is not encrypted with customer specified encryption.";
    BlobImmutableDueToLegalHold = 409, Store, "This operation is not permitted as the blob is immutable due to one or more legal holds.";
    BlobImmutableDueToPolicy = 409, Store, "This operation is not permitted as the blob is immutable due to a policy.";
    BlobIsSealed = 409, Store, "The blob is sealed and its contents cannot be modified.";
    BlobNotArchived = 409, Store, "This operation is not permitted because the blob is not in the archived state.";
    BlobNotFound = 404, Store, "The specified blob does not exist.";
    BlobOperationNotSupported = 409, Store, "The operation is not supported on this blob.";
    BlobOverwritten = 409, Store, "The blob has been recreated since the previous snapshot was taken.";
    BlobTierInadequateForContentLength = 409, Store, "Specified blob tier size limit cannot be less than content length.";
    BlobUsesCustomerSpecifiedEncryption = 409, Store, "The blob is encrypted with customer specified encryption, but it was not provided in the request.";
    BlockCountExceedsLimit = 409, Store, "The committed block count cannot exceed the maximum limit of 50,000 blocks.";
    BlockListTooLong = 400, FrontEnd, "The block list may not contain more than 50,000 blocks.";
    BothCrc64AndMd5HeaderPresent = 400, FrontEnd, "Both x-ms-content-crc64 header and Content-MD5 header are present.";
    CannotChangeToLowerTier = 409, Store, "A higher blob tier has already been explicitly set.";
    CannotVerifyCopySource = 500, Store, "Could not verify the copy source within the specified time.";
    CommandsInBatchActOnDifferentPartitions = 400, FrontEnd, "All commands in a batch must operate on same entity group.";
    ConditionHeadersNotSupported = 400, FrontEnd, "Condition headers are not supported.";
    ConditionNotMet = 412, Store, "The condition specified using HTTP conditional header(s) is not met.";
    ContainerAlreadyExists = 409, Store, "The specified container already exists.";
    ContainerBeingDeleted = 409, Store, "The specified container is being deleted. Try operation later.";
    ContainerDisabled = 409, Store, "The specified container has been disabled by the administrator.";
    ContainerHasLegalHold = 409, Store, "The specified container has a legal hold.";
    ContainerImmutabilityPolicyLocked = 409, Store, "The immutability policy of the specified container is locked.";
    ContainerNotFound = 404, Store, "The specified container does not exist.";
    CopyAcrossAccountsNotSupported = 400, Store, "The copy source account and destination account must be the same.";
    CopyIdMismatch = 409, Store, "The specified copy ID did not match the copy ID for the pending copy operation.";
    CorsPreflightFailure = 403, FrontEnd, "CORS not enabled or no matching rule found for this request.";
    Crc64Mismatch = 400, Store, "The CRC64 value specified in the request did not match with the CRC64 value calculated by the server.";
    DuplicatePropertiesSpecified = 400, FrontEnd, "A property is specified more than one time.";
    DuplicateTagNames = 400, FrontEnd, "The tags specified contain duplicate names.";
    EmptyMetadataKey = 400, FrontEnd, "The key for one of the metadata key-value pairs is empty.";
    EmptyTagName = 400, FrontEnd, "The name of one of the tag key-value pairs is empty.";
    EntityAlreadyExists = 409, Store, "The specified entity already exists.";
    EntityTooLarge = 400, Store, "The entity is larger than the maximum allowed size (1MB).";
    FeatureVersionMismatch = 409, Store, "The type of a blob in the container is unrecognized by this version.";
    HostInformationNotPresent = 400, FrontEnd, "The required host information is not present in the request. You must send a non-empty Host header or include the absolute URI in the request line.";
    IncrementalCopyBlobMismatch = 409, Store, "The specified source blob is different than the copy source of the existing incremental copy blob.";
    IncrementalCopyOfEarlierSnapshotNotAllowed = 409, Store, "The specified snapshot is earlier than the last snapshot copied into the incremental copy blob.";
    IncrementalCopySourceMustBeSnapshot = 409, Store, "The source for incremental copy request must be a snapshot.";
    InfiniteLeaseDurationRequired = 412, Store, "The lease ID matched, but the specified lease must be an infinite-duration lease.";
    InsufficientAccountPermissions = 403, Store, "Write operations are not allowed.";
    InternalError = 500, Store, "Server encountered an internal error. Please try again after some time.";
    InvalidAuthenticationInfo = 400, Authentication, "Authentication information is not given in the correct format. Check the value of Authorization header.";
    InvalidBlobOrBlock = 400, Store, "The specified blob or block content is invalid.";
    InvalidBlobTier = 400, FrontEnd, "The specified blob tier is invalid.";
    InvalidBlobType = 409, Store, "The blob type is invalid for this operation.";
    InvalidBlockId = 400, FrontEnd, "The specified block ID is invalid. The block ID must be Base64-encoded.";
    InvalidBlockList = 400, Store, "The specified block list is invalid.";
    InvalidDuplicateRow = 400, FrontEnd, "The batch request contains multiple changes with same row key. An entity can appear only once in a batch request.";
    InvalidHeaderValue = 400, FrontEnd, "The value for one of the HTTP headers is not in the correct format.";
    InvalidInput = 400, FrontEnd, "One of the request inputs is not valid.";
    InvalidMd5 = 400, FrontEnd, "The MD5 value specified in the request is invalid. MD5 value must be 128 bits and base64 encoded.";
    InvalidMetadata = 400, FrontEnd, "The metadata specified is invalid. It has characters that are not permitted.";
    InvalidOperation = 400, Store, "The operation is invalid.";
    InvalidPageRange = 416, Store, "The page range specified is invalid.";
    InvalidQueryParameterValue = 400, FrontEnd, "Value for one of the query parameters specified in the request URI is invalid.";
    InvalidRange = 416, Store, "The range specified is invalid for the current size of the resource.";
    InvalidResourceName = 400, Store, "The specifed resource name contains invalid characters.";
    InvalidTag = 400, FrontEnd, "The tags specified are invalid. They contain characters that are not permitted.";
    InvalidUri = 400, FrontEnd, "The requested URI does not represent any resource on the server.";
    InvalidXmlDocument = 400, FrontEnd, "XML specified is not syntactically valid.";
    InvalidXmlNodeValue = 400, FrontEnd, "The value provided for one of the XML nodes in the request body was not in the correct format.";
    JsonFormatNotSupported = 415, FrontEnd, "JSON format is not supported.";
    KeyBasedAuthenticationNotPermitted = 403, FrontEnd, "Key based authentication is not permitted on this storage account.";
    LeaseAlreadyBroken = 409, Store, "The lease has already been broken and cannot be broken again.";
    LeaseAlreadyPresent = 409, Store, "There is already a lease present.";
    LeaseIdMismatchWithBlobOperation = 412, Store, "The lease ID specified did not match the lease ID for the blob.";
    LeaseIdMismatchWithContainerOperation = 412, Store, "The lease ID specified did not match the lease ID for the container.";
    LeaseIdMismatchWithLeaseOperation = 409, Store, "The lease ID specified did not match the lease ID for the blob/container.";
    LeaseIdMissing = 412, Store, "There is currently a lease on the blob and no lease ID was specified in the request.";
    LeaseIsBreakingAndCannotBeAcquired = 409, Store, "The lease ID matched, but the lease is currently in breaking state and cannot be acquired until it is broken.";
    LeaseIsBreakingAndCannotBeChanged = 409, Store, "The lease ID matched, but the lease is currently in breaking state and cannot be changed.";
    LeaseIsBrokenAndCannotBeRenewed = 409, Store, "The lease ID matched, but the lease has been broken explicitly and cannot be renewed.";
    LeaseLost = 412, Store, "A lease ID was specified, but the lease for the blob has expired.";
    LeaseNotPresentWithBlobOperation = 412, Store, "There is currently no lease on the blob.";
    LeaseNotPresentWithContainerOperation = 412, Store, "There is currently no lease on the container.";
    LeaseNotPresentWithLeaseOperation = 409, Store, "There is currently no lease on the blob/container.";
    MaxBlobSizeConditionNotMet = 412, Store, "The max blob size condition specified was not met.";
    Md5Mismatch = 400, Store, "The MD5 value specified in the request did not match with the MD5 value calculated by the server.";
    MediaTypeNotSupported = 415, FrontEnd, "None of the provided media types are supported";
    MessageNotFound = 404, Store, "The specified message does not exist.";
    MetadataTooLarge = 400, FrontEnd, "The metadata specified exceeds the maximum permissible limit (8KB).";
    MethodNotAllowed = 405, FrontEnd, "The requested method is not allowed on the specified resource.";
    MissingContentLengthHeader = 411, FrontEnd, "Content-Length HTTP header is missing.";
    MissingRequiredHeader = 400, FrontEnd, "An HTTP header that's mandatory for this request is not specified.";
    MissingRequiredQueryParameter = 400, FrontEnd, "A query parameter that's mandatory for this request is not specified.";
    MissingRequiredXmlNode = 400, FrontEnd, "A required XML node is not specified in the request body.";
    MultipleConditionHeadersNotSupported = 400, FrontEnd, "Multiple condition headers are not supported.";
    MutuallyExclusiveQueryParameters = 400, FrontEnd, "Mutually exclusive query parameters are specified in the request URI.";
    NoAuthenticationInformation = 401, Authentication, "Server failed to authenticate the request. Please refer to the information in the www-authenticate header.";
    NoPendingCopyOperation = 409, Store, "There is currently no pending copy operation.";
    NotImplemented = 501, Store, "The requested operation is not implemented on the specified resource.";
    OperationNotAllowedOnIncrementalCopyBlob = 409, Store, "The specified operation is not allowed on an incremental copy blob.";
    OperationNotAllowedOnRootBlob = 403, Store, "This operation is not permitted on the current version of a blob.";
    OperationTimedOut = 500, Store, "Operation could not be completed within the specified time.";
    OutOfRangeInput = 400, FrontEnd, "One of the request inputs is out of range.";
    OutOfRangeQueryParameterValue = 400, FrontEnd, "One of the query parameters specified in the request URI is outside the permissible range.";
    PendingCopyOperation = 409, Store, "There is currently a pending copy operation.";
    PreviousSnapshotCannotBeNewer = 400, Store, "The previous snapshot must be older than the current snapshot.";
    PreviousSnapshotNotFound = 409, Store, "The previous snapshot is not found.";
    PreviousSnapshotOperationNotSupported = 409, Store, "Differential Get Page Ranges is not supported on the previous snapshot.";
    PropertiesNeedValue = 400, Store, "The values are not specified for all properties in the entity.";
    PropertyNameInvalid = 400, Store, "The property name is invalid.";
    PropertyNameTooLong = 400, Store, "The property name exceeds the maximum allowed length (255).";
    PropertyValueTooLarge = 400, Store, "The property value exceeds the maximum allowed size (64KB). If the property value is a string, it is UTF-16 encoded and the maximum number of characters should be 32K or less.";
    PublicAccessNotPermitted = 409, Store, "Public access is not permitted on this storage account.";
    QueueAlreadyExists = 409, Store, "The specified queue already exists.";
    QueueBeingDeleted = 409, Store, "The specified queue is being deleted.";
    QueueNotFound = 404, Store, "The specified queue does not exist.";
    RequestBodyTooLarge = 413, FrontEnd, "The request body is too large and exceeds the maximum permissible limit.";
    ResourceNotFound = 404, Store, "The specified resource does not exist.";
    ResourceTypeMismatch = 409, Store, "The specified resource type does not match the type of the existing resource.";
    SequenceNumberConditionNotMet = 412, Store, "The sequence number condition specified was not met.";
    SequenceNumberIncrementTooLarge = 409, Store, "The sequence number increment cannot be performed because it would result in overflow of the sequence number.";
    ServerBusy = 503, Store, "The server is busy.";
    SnapshotCountExceeded = 409, Store, "The snapshot count against this blob has been exceeded.";
    SnapshotOperationRateExceeded = 409, Store, "The rate of snapshot calls against this blob has been exceeded.";
    SnapshotsPresent = 409, Store, "This operation is not permitted because the blob has snapshots.";
    SourceConditionNotMet = 412, Store, "The source condition specified using HTTP conditional header(s) is not met.";
    SystemInUse = 409, Store, "This blob is in use by the system.";
    TableAlreadyExists = 409, Store, "The table specified already exists.";
    TableBeingDeleted = 409, Store, "The specified table is being deleted. Try operation later.";
    TableNotFound = 404, FrontEnd, "The table specified does not exist.";
    TagsTooLarge = 400, FrontEnd, "The tags specified exceed the maximum permissible limit.";
    TargetConditionNotMet = 412, Store, "The target condition specified using HTTP conditional header(s) is not met.";
    TooManyProperties = 400, Store, "The entity contains more properties than allowed. Each entity can include up to 252 properties to store data. Each entity also has 3 system properties.";
    UnauthorizedBlobOverwrite = 403, Store, "This request is not authorized to perform blob overwrites.";
    UnsatisfiableCondition = 400, FrontEnd, "The request includes an unsatisfiable condition for this operation.";
    UnsupportedHeader = 400, FrontEnd, "One of the HTTP headers specified in the request is not supported.";
    UnsupportedHttpVerb = 405, FrontEnd, "The resource doesn't support specified Http Verb.";
    UpdateConditionNotSatisfied = 412, Store, "The update condition specified in the request was not satisfied.";
    XMethodIncorrectCount = 400, FrontEnd, "More than one X-HTTP-Method is specified.";
    XMethodIncorrectValue = 400, FrontEnd, "The specified X-HTTP-Method is invalid.";
    XMethodNotUsingPost = 400, FrontEnd, "The request uses X-HTTP-Method with an HTTP verb other than POST.";
}

/// An error on its way to the caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceError {
    pub code: ErrorCode,
    pub stage: Stage,
    /// The message for the caller, where the catalogue's words are not precise enough.
    pub message: Option<String>,
    /// The change that was refused, counted from 0, if the error is about one of a batch.
    pub change: Option<usize>,
    /// The status, where a code comes with more than one and the catalogue's is not it.
    pub status: Option<u16>,
    /// How long the resource is, where the range that was asked for is not in it.
    pub resource_bytes: Option<u64>,
    /// Further elements of the answer, name and text. The Table service has none.
    pub details: Vec<(&'static str, String)>,
    /// For the log only, never for the caller.
    pub cause: Option<String>,
    /// What it was decided on was too old to be read on: to be decided again, as often as is reasonable.
    pub is_outdated: bool,
    /// What was too much, if that is why: for metrics.
    pub throttle: Option<Throttle>,
    /// What is wrong with the credentials, if the code does not say so: for metrics.
    pub auth_failure: Option<AuthFailure>,
}

impl ServiceError {
    pub fn new(code: ErrorCode) -> Self {
        Self {
            code,
            stage: code.stage(),
            message: None,
            change: None,
            status: None,
            resource_bytes: None,
            details: Vec::new(),
            cause: None,
            is_outdated: false,
            throttle: None,
            auth_failure: None,
        }
    }

    /// Tells the caller more than the catalogue does.
    pub fn with_message(mut self, message: impl Into<String>) -> Self {
        self.message = Some(message.into());
        self
    }

    /// Answers with another status than the catalogue's.
    pub fn with_status(mut self, status: u16) -> Self {
        self.status = Some(status);
        self
    }

    /// Tells how long the resource is.
    pub fn with_resource_bytes(mut self, bytes: u64) -> Self {
        self.resource_bytes = Some(bytes);
        self
    }

    /// Adds an element to the answer, where the service has such elements.
    pub fn with_detail(mut self, name: &'static str, text: impl Into<String>) -> Self {
        self.details.push((name, text.into()));
        self
    }

    /// Adds the error of the source of a copy that could not be read.
    pub fn with_copy_source(self, status: u16, code: Option<&str>, message: Option<&str>) -> Self {
        let error = self.with_detail("CopySourceStatusCode", status.to_string());
        let error = match code {
            Some(code) => error.with_detail("CopySourceErrorCode", code),
            None => error,
        };
        match message {
            Some(message) => error.with_detail("CopySourceErrorMessage", message),
            None => error,
        }
    }

    /// For callers who do not know what [`ServiceError::with_copy_source`] tells.
    pub fn without_copy_source(mut self) -> Self {
        self.details.retain(|(name, _)| !name.starts_with("CopySource"));
        self
    }

    /// Tells the log why.
    pub fn with_cause(mut self, cause: impl fmt::Display) -> Self {
        self.cause = Some(cause.to_string());
        self
    }

    /// Tells metrics what was too much.
    pub fn with_throttle(mut self, throttle: Throttle) -> Self {
        self.throttle = Some(throttle);
        self
    }

    /// Tells metrics what is wrong with the credentials.
    pub fn with_auth_failure(mut self, failure: AuthFailure) -> Self {
        self.auth_failure = Some(failure);
        self
    }

    /// What was too much, if the request was refused for that.
    pub fn throttle(&self) -> Option<Throttle> {
        self.throttle.or((self.code == ErrorCode::ServerBusy).then_some(Throttle::Storage))
    }

    /// What is wrong with the credentials, if the request was refused for that.
    pub fn auth_failure(&self) -> Option<AuthFailure> {
        self.auth_failure.or(match self.code {
            ErrorCode::NoAuthenticationInformation => Some(AuthFailure::Missing),
            ErrorCode::InvalidAuthenticationInfo => Some(AuthFailure::Malformed),
            ErrorCode::AuthenticationFailed => Some(AuthFailure::Signature),
            ErrorCode::AuthorizationSourceIPMismatch | ErrorCode::AuthorizationProtocolMismatch => {
                Some(AuthFailure::Sas)
            }
            ErrorCode::AuthorizationFailure
            | ErrorCode::AuthorizationPermissionMismatch
            | ErrorCode::AuthorizationResourceTypeMismatch
            | ErrorCode::AuthorizationServiceMismatch => Some(AuthFailure::Permission),
            _ => None,
        })
    }

    pub fn at_stage(mut self, stage: Stage) -> Self {
        self.stage = stage;
        self
    }

    pub fn at_change(mut self, index: usize) -> Self {
        self.change = Some(index);
        self
    }

    pub fn status(&self) -> u16 {
        self.status.unwrap_or(self.code.status())
    }

    pub fn message(&self) -> &str {
        self.message.as_deref().unwrap_or(self.code.message())
    }
}

impl From<ErrorCode> for ServiceError {
    fn from(code: ErrorCode) -> Self {
        Self::new(code)
    }
}

impl fmt::Display for ServiceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code.name(), self.message())?;
        match &self.cause {
            Some(cause) => write!(f, " ({cause})"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for ServiceError {}
