//! The error catalogue: every error that the protocol knows, one row each, and [`ServiceError`],
//! which carries one of them to whoever asked.

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
    AtomFormatNotSupported = 415, FrontEnd, "Atom format is not supported.";
    AuthenticationFailed = 403, Authentication, "Server failed to authenticate the request. Make sure the value of Authorization header is formed correctly including the signature.";
    AuthorizationFailure = 403, Store, "This request is not authorized to perform this operation.";
    AuthorizationPermissionMismatch = 403, Store, "This request is not authorized to perform this operation using this permission.";
    AuthorizationProtocolMismatch = 403, Store, "This request is not authorized to perform this operation using this protocol.";
    AuthorizationResourceTypeMismatch = 403, Store, "This request is not authorized to perform this operation using this resource type.";
    AuthorizationServiceMismatch = 403, Store, "This request is not authorized to perform this operation using this service.";
    AuthorizationSourceIPMismatch = 403, Store, "This request is not authorized to perform this operation using this source IP.";
    CommandsInBatchActOnDifferentPartitions = 400, FrontEnd, "All commands in a batch must operate on same entity group.";
    CorsPreflightFailure = 403, FrontEnd, "CORS not enabled or no matching rule found for this request.";
    DuplicatePropertiesSpecified = 400, FrontEnd, "A property is specified more than one time.";
    EmptyMetadataKey = 400, FrontEnd, "The key for one of the metadata key-value pairs is empty.";
    EntityAlreadyExists = 409, Store, "The specified entity already exists.";
    EntityTooLarge = 400, Store, "The entity is larger than the maximum allowed size (1MB).";
    HostInformationNotPresent = 400, FrontEnd, "The required host information is not present in the request. You must send a non-empty Host header or include the absolute URI in the request line.";
    InsufficientAccountPermissions = 403, Store, "Write operations are not allowed.";
    InternalError = 500, Store, "Server encountered an internal error. Please try again after some time.";
    InvalidAuthenticationInfo = 400, Authentication, "Authentication information is not given in the correct format. Check the value of Authorization header.";
    InvalidDuplicateRow = 400, FrontEnd, "The batch request contains multiple changes with same row key. An entity can appear only once in a batch request.";
    InvalidHeaderValue = 400, FrontEnd, "The value for one of the HTTP headers is not in the correct format.";
    InvalidInput = 400, FrontEnd, "One of the request inputs is not valid.";
    InvalidMetadata = 400, FrontEnd, "The metadata specified is invalid. It has characters that are not permitted.";
    InvalidQueryParameterValue = 400, FrontEnd, "Value for one of the query parameters specified in the request URI is invalid.";
    InvalidResourceName = 400, Store, "The specifed resource name contains invalid characters.";
    InvalidUri = 400, FrontEnd, "The requested URI does not represent any resource on the server.";
    InvalidXmlDocument = 400, FrontEnd, "XML specified is not syntactically valid.";
    JsonFormatNotSupported = 415, FrontEnd, "JSON format is not supported.";
    MediaTypeNotSupported = 415, FrontEnd, "None of the provided media types are supported";
    MessageNotFound = 404, Store, "The specified message does not exist.";
    MetadataTooLarge = 400, FrontEnd, "The metadata specified exceeds the maximum permissible limit (8KB).";
    MethodNotAllowed = 405, FrontEnd, "The requested method is not allowed on the specified resource.";
    MissingContentLengthHeader = 411, FrontEnd, "Content-Length HTTP header is missing.";
    MissingRequiredHeader = 400, FrontEnd, "An HTTP header that's mandatory for this request is not specified.";
    MissingRequiredQueryParameter = 400, FrontEnd, "A query parameter that's mandatory for this request is not specified.";
    NoAuthenticationInformation = 401, Authentication, "Server failed to authenticate the request. Please refer to the information in the www-authenticate header.";
    NotImplemented = 501, Store, "The requested operation is not implemented on the specified resource.";
    OperationTimedOut = 500, Store, "Operation could not be completed within the specified time.";
    OutOfRangeInput = 400, FrontEnd, "One of the request inputs is out of range.";
    OutOfRangeQueryParameterValue = 400, FrontEnd, "One of the query parameters specified in the request URI is outside the permissible range.";
    PropertiesNeedValue = 400, Store, "The values are not specified for all properties in the entity.";
    PropertyNameInvalid = 400, Store, "The property name is invalid.";
    PropertyNameTooLong = 400, Store, "The property name exceeds the maximum allowed length (255).";
    PropertyValueTooLarge = 400, Store, "The property value exceeds the maximum allowed size (64KB). If the property value is a string, it is UTF-16 encoded and the maximum number of characters should be 32K or less.";
    QueueAlreadyExists = 409, Store, "The specified queue already exists.";
    QueueBeingDeleted = 409, Store, "The specified queue is being deleted.";
    QueueNotFound = 404, Store, "The specified queue does not exist.";
    RequestBodyTooLarge = 413, FrontEnd, "The request body is too large and exceeds the maximum permissible limit.";
    ResourceNotFound = 404, Store, "The specified resource does not exist.";
    ServerBusy = 503, Store, "The server is busy.";
    TableAlreadyExists = 409, Store, "The table specified already exists.";
    TableBeingDeleted = 409, Store, "The specified table is being deleted. Try operation later.";
    TableNotFound = 404, FrontEnd, "The table specified does not exist.";
    TooManyProperties = 400, Store, "The entity contains more properties than allowed. Each entity can include up to 252 properties to store data. Each entity also has 3 system properties.";
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
    /// What the caller is told, where the catalogue's words are not precise enough.
    pub message: Option<String>,
    /// The change that was refused, counted from 0, if the error is about one of a batch.
    pub change: Option<usize>,
    /// The status, where a code comes with more than one and the catalogue's is not it.
    pub status: Option<u16>,
    /// Further elements of the answer, name and text. The Table service has none.
    pub details: Vec<(&'static str, String)>,
    /// For the log only, never for the caller.
    pub cause: Option<String>,
}

impl ServiceError {
    pub fn new(code: ErrorCode) -> Self {
        Self {
            code,
            stage: code.stage(),
            message: None,
            change: None,
            status: None,
            details: Vec::new(),
            cause: None,
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

    /// Adds an element to the answer, where the service has such elements.
    pub fn with_detail(mut self, name: &'static str, text: impl Into<String>) -> Self {
        self.details.push((name, text.into()));
        self
    }

    /// Tells the log why.
    pub fn with_cause(mut self, cause: impl fmt::Display) -> Self {
        self.cause = Some(cause.to_string());
        self
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
