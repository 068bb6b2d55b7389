//! What an operation is about: its container, its blob, the bytes it brings along and the source it reads.

use super::name::{BlobPath, ContainerName};
use super::operation::{
    Call, CopySource, CopyTags, NewContent, Operation, PageWrite, Piece, PutBlob, PutBlobFromUrl,
    PutBlockList, SourceHead, SourcePlace, Upload,
};
use super::range::ByteRange;

impl Call {
    /// The operation, if it is one.
    pub fn operation(&self) -> Option<&Operation> {
        match self {
            Self::Operation(operation) => Some(operation),
            Self::List(_) | Self::Batch { .. } => None,
        }
    }

    /// The container that it is about, or that its blob is in.
    pub fn container(&self) -> Option<&ContainerName> {
        match self {
            Self::Operation(operation) => operation.container(),
            Self::List(list) => Some(&list.container),
            Self::Batch { container } => container.as_ref(),
        }
    }
}

impl Operation {
    /// The container that it is about, or that its blob is in.
    pub fn container(&self) -> Option<&ContainerName> {
        match self {
            Self::CreateContainer { container, .. }
            | Self::GetContainer { container, .. }
            | Self::SetContainerMetadata { container, .. }
            | Self::GetContainerAcl { container, .. }
            | Self::SetContainerAcl { container, .. }
            | Self::LeaseContainer { container, .. }
            | Self::DeleteContainer { container, .. }
            | Self::RestoreContainer { container, .. } => Some(container),
            Self::FindBlobsByTags(find) => find.container.as_ref(),
            _ => self.blob().map(|path| &path.container),
        }
    }

    /// The blob that it is about.
    pub fn blob(&self) -> Option<&BlobPath> {
        match self {
            Self::PutBlob(put) => Some(&put.blob),
            Self::PutBlobFromUrl(put) => Some(&put.blob),
            Self::CopyBlob(copy) => Some(&copy.blob),
            Self::GetBlob(get) => Some(&get.blob),
            Self::SetBlobProperties(set) => Some(&set.blob),
            Self::DeleteBlob(delete) => Some(&delete.blob),
            Self::PutBlock(put) => Some(&put.blob),
            Self::PutBlockList(put) => Some(&put.blob),
            Self::AppendBlock(append) => Some(&append.blob),
            Self::PutPages(put) => Some(&put.blob),
            Self::GetPageRanges(get) => Some(&get.blob),
            Self::AbortCopy { blob, .. }
            | Self::IncrementalCopy { blob, .. }
            | Self::GetBlobProperties { blob, .. }
            | Self::SetBlobMetadata { blob, .. }
            | Self::SetBlobTier { blob, .. }
            | Self::GetBlobTags { blob, .. }
            | Self::SetBlobTags { blob, .. }
            | Self::SetImmutabilityPolicy { blob, .. }
            | Self::DeleteImmutabilityPolicy { blob, .. }
            | Self::SetLegalHold { blob, .. }
            | Self::LeaseBlob { blob, .. }
            | Self::SnapshotBlob { blob, .. }
            | Self::UndeleteBlob { blob }
            | Self::GetBlockList { blob, .. }
            | Self::SealBlob { blob, .. } => Some(blob),
            Self::GetServiceProperties
            | Self::SetServiceProperties(_)
            | Self::GetServiceStats
            | Self::GetAccountInformation
            | Self::GetUserDelegationKey(_)
            | Self::ListContainers(_)
            | Self::FindBlobsByTags(_)
            | Self::CreateContainer { .. }
            | Self::GetContainer { .. }
            | Self::SetContainerMetadata { .. }
            | Self::GetContainerAcl { .. }
            | Self::SetContainerAcl { .. }
            | Self::LeaseContainer { .. }
            | Self::DeleteContainer { .. }
            | Self::RestoreContainer { .. }
            | Self::NotImplemented(_) => None,
        }
    }

    /// The bytes that come with the request and are streamed.
    pub fn upload(&self) -> Option<&Upload> {
        match self {
            Self::PutBlob(put) => match &put.content {
                NewContent::Block(upload) => Some(upload),
                NewContent::Append | NewContent::Page { .. } => None,
            },
            _ => match self.piece()? {
                Piece::Sent(upload) => Some(upload),
                Piece::FromUrl(_) => None,
            },
        }
    }

    /// Where bytes are read from that do not come with the request.
    pub fn source(&self) -> Option<&CopySource> {
        match self {
            Self::PutBlobFromUrl(put) => Some(&put.source),
            Self::CopyBlob(copy) => Some(&copy.source),
            Self::IncrementalCopy { source, .. } => Some(source),
            _ => match self.piece()? {
                Piece::FromUrl(from) => Some(&from.source),
                Piece::Sent(_) => None,
            },
        }
    }

    /// Whether a copy has the tags of its source.
    pub fn copies_tags(&self) -> bool {
        match self {
            Self::PutBlobFromUrl(put) => put.tags == CopyTags::Source,
            Self::CopyBlob(copy) => copy.tags == CopyTags::Source,
            _ => false,
        }
    }

    /// Whether it gives a new blob a legal hold or an immutability policy, or says that it has none.
    pub fn sets_protection(&self) -> bool {
        let (immutability, legal_hold) = match self {
            Self::PutBlob(PutBlob { new, .. })
            | Self::PutBlobFromUrl(PutBlobFromUrl { new, .. })
            | Self::PutBlockList(PutBlockList { new, .. }) => (new.immutability, new.legal_hold),
            Self::CopyBlob(copy) => (copy.immutability, copy.legal_hold),
            _ => return false,
        };
        immutability.is_some() || legal_hold.is_some()
    }

    /// Notes what the server of a fetched source has sent about it.
    pub fn set_source_head(&mut self, head: SourceHead) {
        let source = match self {
            Self::PutBlobFromUrl(put) => &mut put.source,
            Self::CopyBlob(copy) => &mut copy.source,
            _ => return,
        };
        source.place = SourcePlace::Fetched(Box::new(head));
    }

    /// Whether it is a copy that goes on after the answer: its source is not here.
    pub fn goes_on(&self) -> bool {
        matches!(self, Self::CopyBlob(copy) if copy.goes_on())
    }

    /// Which of the bytes of the source are read. `None`: all.
    pub fn source_range(&self) -> Option<ByteRange> {
        match self.piece()? {
            Piece::FromUrl(from) => from.range,
            Piece::Sent(_) => None,
        }
    }

    fn piece(&self) -> Option<&Piece> {
        match self {
            Self::PutBlock(put) => Some(&put.piece),
            Self::AppendBlock(append) => Some(&append.piece),
            Self::PutPages(put) => match &put.write {
                PageWrite::Update(piece) => Some(piece),
                PageWrite::Clear => None,
            },
            _ => None,
        }
    }
}
