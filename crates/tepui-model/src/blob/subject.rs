//! What an operation is about: its container, its blob, the bytes it brings along and the source it reads.

use super::copy::{CopySource, CopyTags, PutBlobFromUrl, SourceHead, SourcePlace};
use super::name::{BlobPath, ContainerName};
use super::operation::{
    AppendBlock, Call, Operation, Piece, PutBlob, PutBlock, PutBlockList, PutEmptyBlob, PutPages, Upload,
    UploadOperation,
};
use super::properties::Encryption;
use super::range::ByteRange;

impl Call {
    /// The container that it is about, or that its blob is in.
    pub fn container(&self) -> Option<&ContainerName> {
        match self {
            Self::Operation(operation) => operation.container(),
            Self::Upload(operation) => Some(&operation.blob().container),
            Self::List(list) => Some(&list.container),
            Self::Batch { container } => container.as_ref(),
        }
    }

    /// The blob that it is about.
    pub fn blob(&self) -> Option<&BlobPath> {
        match self {
            Self::Operation(operation) => operation.blob(),
            Self::Upload(operation) => Some(operation.blob()),
            Self::List(_) | Self::Batch { .. } => None,
        }
    }

    /// Whether a copy has the tags of its source.
    pub fn copies_tags(&self) -> bool {
        match self {
            Self::Operation(operation) => operation.copies_tags(),
            Self::Upload(operation) => operation.copies_tags(),
            Self::List(_) | Self::Batch { .. } => false,
        }
    }

    /// Whether it gives a new blob a legal hold or an immutability policy, or says that it has none.
    pub fn sets_protection(&self) -> bool {
        let (immutability, legal_hold) = match self {
            Self::Operation(Operation::PutEmptyBlob(PutEmptyBlob { new, .. }))
            | Self::Operation(Operation::PutBlockList(PutBlockList { new, .. }))
            | Self::Upload(UploadOperation::PutBlob(PutBlob { new, .. }))
            | Self::Upload(UploadOperation::PutBlobFromUrl(PutBlobFromUrl { new, .. })) => {
                (new.immutability, new.legal_hold)
            }
            Self::Operation(Operation::PutBlobFromUrl(shared)) => {
                (shared.copy().new.immutability, shared.copy().new.legal_hold)
            }
            Self::Operation(Operation::CopyBlob(shared)) => {
                (shared.copy().immutability, shared.copy().legal_hold)
            }
            Self::Upload(UploadOperation::CopyBlob(copy)) => (copy.immutability, copy.legal_hold),
            _ => return false,
        };
        immutability.is_some() || legal_hold.is_some()
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
            Self::PutEmptyBlob(put) => Some(&put.blob),
            Self::PutBlobFromUrl(shared) => Some(&shared.copy().blob),
            Self::CopyBlob(shared) => Some(&shared.copy().blob),
            Self::GetBlob(get) => Some(&get.blob),
            Self::SetBlobProperties(set) => Some(&set.blob),
            Self::DeleteBlob(delete) => Some(&delete.blob),
            Self::PutBlockList(put) => Some(&put.blob),
            Self::ClearPages(clear) => Some(&clear.blob),
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

    /// The blob that it copies.
    pub fn source(&self) -> Option<&CopySource> {
        match self {
            Self::PutBlobFromUrl(shared) => Some(&shared.copy().source),
            Self::CopyBlob(shared) => Some(&shared.copy().source),
            Self::IncrementalCopy { source, .. } => Some(source),
            _ => None,
        }
    }

    /// Whether a copy has the tags of its source.
    pub fn copies_tags(&self) -> bool {
        match self {
            Self::PutBlobFromUrl(shared) => shared.copy().tags == CopyTags::Source,
            Self::CopyBlob(shared) => shared.copy().tags == CopyTags::Source,
            _ => false,
        }
    }
}

/// Where the bytes of an upload come from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum UploadOrigin<'a> {
    /// They come with the request, and are streamed.
    Request(&'a Upload),
    Source(&'a CopySource),
}

impl UploadOperation {
    /// The blob that it is about.
    pub fn blob(&self) -> &BlobPath {
        match self {
            Self::PutBlob(put) => &put.blob,
            Self::PutBlobFromUrl(put) => &put.blob,
            Self::CopyBlob(copy) => &copy.blob,
            Self::PutBlock(put) => &put.blob,
            Self::AppendBlock(append) => &append.blob,
            Self::PutPages(put) => &put.write.blob,
        }
    }

    /// What the bytes are encrypted with.
    pub fn encryption(&self) -> &Encryption {
        match self {
            Self::PutBlob(put) => &put.new.encryption,
            Self::PutBlobFromUrl(put) => &put.new.encryption,
            Self::CopyBlob(copy) => &copy.encryption,
            Self::PutBlock(put) => &put.encryption,
            Self::AppendBlock(append) => &append.encryption,
            Self::PutPages(put) => &put.write.encryption,
        }
    }

    pub fn origin(&self) -> UploadOrigin<'_> {
        let piece = match self {
            Self::PutBlob(put) => return UploadOrigin::Request(&put.upload),
            Self::PutBlobFromUrl(put) => return UploadOrigin::Source(&put.source),
            Self::CopyBlob(copy) => return UploadOrigin::Source(&copy.source),
            Self::PutBlock(put) => &put.piece,
            Self::AppendBlock(append) => &append.piece,
            Self::PutPages(put) => &put.piece,
        };
        match piece {
            Piece::Sent(upload) => UploadOrigin::Request(upload),
            Piece::FromUrl(from) => UploadOrigin::Source(&from.source),
        }
    }

    /// Which of the bytes of the source are read. `None`: all.
    pub fn source_range(&self) -> Option<ByteRange> {
        match self {
            Self::PutBlock(PutBlock { piece: Piece::FromUrl(from), .. })
            | Self::AppendBlock(AppendBlock { piece: Piece::FromUrl(from), .. })
            | Self::PutPages(PutPages { piece: Piece::FromUrl(from), .. }) => from.range,
            _ => None,
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

    /// Notes what the server of a fetched source has sent about it.
    pub fn set_source_head(&mut self, head: SourceHead) {
        let source = match self {
            Self::PutBlobFromUrl(put) => &mut put.source,
            Self::CopyBlob(copy) => &mut copy.source,
            _ => return,
        };
        source.place = SourcePlace::Fetched(Box::new(head));
    }
}
