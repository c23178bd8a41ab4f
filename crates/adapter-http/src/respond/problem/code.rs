use std::borrow::Cow;

use actix_web::http::StatusCode;

/// Defines the kinds of problems from a table: variant, status, name and title.
macro_rules! problem_codes {
    ($($(#[$doc:meta])* $code:ident = $status:ident, $name:literal, $title:literal;)*) => {
        /// Kinds of problems. Their names are stable.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum ProblemCode {
            $($(#[$doc])* $code,)*
        }

        impl ProblemCode {
            /// Every code, for tests.
            #[cfg(test)]
            pub(crate) const ALL: &[Self] = &[$(Self::$code),*];

            /// Returns status, name and title.
            fn facts(self) -> (StatusCode, &'static str, &'static str) {
                match self {
                    $(Self::$code => (StatusCode::$status, $name, $title),)*
                }
            }
        }
    };
}

problem_codes! {
    /// The body is not JSON or multipart, is truncated, or has a repeated or unreadable part.
    MalformedRequest = BAD_REQUEST, "malformed_request", "The request cannot be read";
    /// Fields are missing or invalid.
    ValidationFailed = BAD_REQUEST, "validation_failed", "Fields are missing or invalid";
    /// The operator has no record of the signing service.
    UnknownSigningService = BAD_REQUEST, "unknown_signing_service",
        "The signing service is not known";
    /// A document has no accepted format, or its content does not match its extension.
    UnsupportedDocument = BAD_REQUEST, "unsupported_document", "A document is not supported";
    /// A Word document needs a password.
    EncryptedDocument = BAD_REQUEST, "encrypted_document", "A document is encrypted";
    /// The scanner has found malware in a document.
    InfectedDocument = BAD_REQUEST, "infected_document", "A document has malware";
    /// The request has more documents than the limit allows.
    TooManyDocuments = BAD_REQUEST, "too_many_documents", "Too many documents";
    /// The form has no documents.
    NoDocuments = BAD_REQUEST, "no_documents", "No documents";
    /// The credentials are missing or malformed, or the key is invalid, expired or revoked.
    Unauthorized = UNAUTHORIZED, "unauthorized", "A valid API key is required";
    /// The session of the browser has ended, or is unknown.
    SessionEnded = UNAUTHORIZED, "session_ended", "The session has ended";
    /// The passkey does not count: it is of another origin, replayed, or without verification of its user.
    PasskeyRejected = UNAUTHORIZED, "passkey_rejected", "The passkey was not accepted";
    /// The answer of the identity provider does not count.
    LoginRejected = UNAUTHORIZED, "login_rejected", "The login was not accepted";
    /// Nobody here has the passkey or the login.
    UnknownPerson = UNAUTHORIZED, "unknown_person", "Nobody has this passkey or login";
    /// The sign-in is of another browser, over, or too old.
    NoCeremony = BAD_REQUEST, "no_ceremony", "The sign-in is over";
    /// The request is of a key, and tells of no session.
    NoSession = FORBIDDEN, "no_session", "The request has no session";
    /// The operator lets no page take a key.
    KeysDisabled = FORBIDDEN, "keys_disabled", "No session begins with a key here";
    /// A page of another site may have caused the request.
    CrossSite = FORBIDDEN, "cross_site", "The request may be of another site";
    /// Browsers allow no sign-in at this address.
    InsecureOrigin = FORBIDDEN, "insecure_origin", "Nobody can sign in at this address";
    /// The person is disabled.
    PersonDisabled = FORBIDDEN, "person_disabled", "The person is disabled";
    /// Another person has signed in than the one of the session.
    OtherPerson = FORBIDDEN, "other_person", "Another person has signed in";
    /// The person is no admin.
    NotAdmin = FORBIDDEN, "not_admin", "Only admins may do this";
    /// Keys, and their sessions, manage no people and no keys.
    KeyCannotManage = FORBIDDEN, "key_cannot_manage", "A key manages no people and no keys";
    /// The sign-in was more than five minutes ago.
    SignInAgain = FORBIDDEN, "sign_in_again", "Sign in again first";
    /// There is no login of this name.
    UnknownProvider = NOT_FOUND, "unknown_provider", "There is no such login";
    /// No such invitation was ever issued.
    InvitationUnknown = NOT_FOUND, "invitation_unknown", "The invitation is unknown";
    /// The invitation was accepted.
    InvitationUsed = GONE, "invitation_used", "The invitation is used";
    /// The invitation is more than seven days old.
    InvitationExpired = GONE, "invitation_expired", "The invitation has expired";
    /// The invitation was withdrawn.
    InvitationWithdrawn = GONE, "invitation_withdrawn", "The invitation was withdrawn";
    /// The side would have no admin any more who can sign in.
    LastAdmin = CONFLICT, "last_admin", "The last admin stays one";
    /// Another person of the side has the name.
    NameInUse = CONFLICT, "name_in_use", "The name is in use";
    /// The person would have no way to sign in any more.
    LastMethod = CONFLICT, "last_method", "The last way to sign in stays";
    /// The passkey or the login belongs to another person.
    MethodInUse = CONFLICT, "method_in_use", "The passkey or login belongs to another person";
    /// The person has as many passkeys as they can have.
    TooManyPasskeys = CONFLICT, "too_many_passkeys", "Too many passkeys";
    /// The side has too many open invitations, or the admin has issued too many within a day.
    TooManyInvitations = CONFLICT, "too_many_invitations", "Too many invitations";
    /// The key is revoked or expired.
    KeyNotValid = CONFLICT, "key_not_valid", "The key is not valid";
    /// The identity provider does not answer.
    ProviderUnavailable = SERVICE_UNAVAILABLE, "provider_unavailable",
        "The identity provider is unavailable";
    /// The caller is limited to another signing service, or the key lacks a scope.
    Forbidden = FORBIDDEN, "forbidden", "The API key does not permit this request";
    /// The path does not exist, or the client has no such order, document, webhook or delivery.
    NotFound = NOT_FOUND, "not_found", "Not found";
    /// The path does not support the method.
    MethodNotAllowed = METHOD_NOT_ALLOWED, "method_not_allowed", "Method not allowed";
    /// An operator has erased the order.
    Erased = GONE, "erased", "The order was erased";
    /// The side that uploaded the document has withdrawn it.
    Withdrawn = GONE, "withdrawn", "The document was withdrawn";
    /// The duplicate window of the file number is not over.
    DuplicateOrder = CONFLICT, "duplicate_order", "The file number was used recently";
    /// The order is cancelled, and does not change any more.
    OrderCancelled = CONFLICT, "order_cancelled", "The order is cancelled";
    /// The signing is over: the order cannot be cancelled, or not be changed by its client.
    OrderClosed = CONFLICT, "order_closed", "The signing of the order is over";
    /// The operator has put the order on hold: its documents stay.
    OrderOnHold = CONFLICT, "order_on_hold", "The order is on hold";
    /// The order has as many notes as it can have.
    TooManyNotes = CONFLICT, "too_many_notes", "Too many notes";
    /// Too many addresses would know the order.
    TooManyAddresses = CONFLICT, "too_many_addresses", "Too many addresses";
    /// The order, document or webhook is no version that the request may change.
    PreconditionFailed = PRECONDITION_FAILED, "precondition_failed", "A precondition is false";
    /// Another request with the idempotency key is in progress.
    IdempotencyInFlight = CONFLICT, "idempotency_in_flight",
        "A request with the same idempotency key is in progress";
    /// A webhook that is disabled gets no test.
    WebhookDisabled = CONFLICT, "webhook_disabled", "The webhook is disabled";
    /// Deliveries of the webhook are being replayed.
    ReplayInProgress = CONFLICT, "replay_in_progress", "Another replay is in progress";
    /// The idempotency key was used for another request.
    IdempotencyKeyReused = UNPROCESSABLE_ENTITY, "idempotency_key_reused",
        "The idempotency key was used for another request";
    /// The body does not arrive in time.
    RequestTimeout = REQUEST_TIMEOUT, "request_timeout", "The body arrived too slowly";
    /// A document is larger than the limit.
    DocumentTooLarge = PAYLOAD_TOO_LARGE, "document_too_large", "A document is too large";
    /// A body or a text part is larger than the limit.
    PayloadTooLarge = PAYLOAD_TOO_LARGE, "payload_too_large", "The request is too large";
    /// The operation does not accept the content type.
    UnsupportedMediaType = UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type",
        "The content type is not supported";
    /// The document does not have the requested range.
    RangeNotSatisfiable = RANGE_NOT_SATISFIABLE, "range_not_satisfiable",
        "The range is outside of the file";
    /// A rate limit is exceeded.
    RateLimited = TOO_MANY_REQUESTS, "rate_limited", "Too many requests";
    /// Another program has damaged the record of the order, or a newer version of the service has written it.
    UnreadableOrder = INTERNAL_SERVER_ERROR, "unreadable_order", "The order cannot be read";
    /// The service has a bug.
    Internal = INTERNAL_SERVER_ERROR, "internal", "Internal server error";
    /// The service has no key for the secrets of webhooks.
    WebhooksNotConfigured = NOT_IMPLEMENTED, "webhooks_not_configured",
        "Webhooks are not configured";
    /// A dependency does not respond, or the service is at a limit.
    Unavailable = SERVICE_UNAVAILABLE, "unavailable", "The service is unavailable";
}

impl ProblemCode {
    /// Returns the `code` of a problem response.
    pub fn as_str(self) -> &'static str {
        self.facts().1
    }

    /// Returns whether a client can cause this problem at no cost, and therefore in any number.
    pub(crate) fn is_cheap(self) -> bool {
        matches!(
            self,
            Self::Unauthorized
                | Self::SessionEnded
                | Self::PasskeyRejected
                | Self::LoginRejected
                | Self::UnknownPerson
                | Self::NoCeremony
                | Self::CrossSite
                | Self::InvitationUnknown
                | Self::RateLimited
                | Self::NotFound
                | Self::MethodNotAllowed
        )
    }

    /// Returns whether the request is rejected for what it says, so that the same request will be rejected again.
    /// That is no problem of a wrong moment or version, of too many requests, or of what is not there.
    pub(crate) fn is_of_content(self) -> bool {
        matches!(self.status().as_u16(), 400 | 403 | 413 | 415 | 422)
    }

    pub(crate) fn status(self) -> StatusCode {
        self.facts().0
    }

    pub(super) fn title(self) -> &'static str {
        self.facts().2
    }

    /// Returns the `type` of a problem response, described in `docs/api.md`. Rate limits use the
    /// registered type (draft-ietf-httpapi-ratelimit-headers-10, section 5.1).
    pub(super) fn type_uri(self) -> Cow<'static, str> {
        match self {
            Self::RateLimited => {
                "https://iana.org/assignments/http-problem-types#quota-exceeded".into()
            }
            _ => format!("urn:problem-type:notary-orders:{}", self.as_str()).into(),
        }
    }
}
