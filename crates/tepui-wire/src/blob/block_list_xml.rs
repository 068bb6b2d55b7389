//! Lists of blocks as XML: the bodies of Put Block List and Get Block List.
//!
//! A list may have tens of thousands of lines: it is read line by line, not as a tree.

use crate::address::Service;
use crate::xml::document::{self, invalid, resolve, text};
use crate::xml::{Opened, Printer};
use quick_xml::Reader;
use quick_xml::events::Event;
use std::collections::VecDeque;
use tepui_model::blob::block::MAX_COMMITTED_BLOCKS;
use tepui_model::blob::{BlockId, BlockList, BlockSearch, ChosenBlock, ListedBlock};
use tepui_model::{ErrorCode, ServiceError};

/// The longest list: ids of the largest size, and some blanks between the lines.
pub const MAX_BODY_BYTES: usize = MAX_COMMITTED_BLOCKS * 256;
/// Longer than any id.
const MAX_TEXT_BYTES: usize = 256;

/// How many events of a document, or blocks of a list, are one step.
const STEP: usize = 1000;

/// Reads the body of Put Block List.
pub fn parse(body: &[u8]) -> Result<Vec<ChosenBlock>, ServiceError> {
    let mut reading = Reading::new(body)?;
    loop {
        if let Some(blocks) = reading.step()? {
            return Ok(blocks);
        }
    }
}

/// The body of Put Block List, as far as it was read: in steps, for it takes long.
pub(super) struct Reading<'a> {
    reader: Reader<&'a [u8]>,
    list: List,
    is_first: bool,
}

impl<'a> Reading<'a> {
    pub(super) fn new(body: &'a [u8]) -> Result<Self, ServiceError> {
        let text = text(body).filter(|text| text.len() <= MAX_BODY_BYTES);
        let text = text.ok_or_else(|| invalid("not UTF-8 or too long"))?;
        Ok(Self { reader: document::reader(text), list: List::default(), is_first: true })
    }

    /// Reads on. `None`: there is more.
    pub(super) fn step(&mut self) -> Result<Option<Vec<ChosenBlock>>, ServiceError> {
        for _ in 0..STEP {
            let event = self.reader.read_event().map_err(|_| invalid("not well-formed"))?;
            document::check(&event, std::mem::replace(&mut self.is_first, false)).map_err(invalid)?;
            if self.list.read(event)? == Next::End {
                return Ok(Some(std::mem::take(&mut self.list.blocks)));
            }
        }
        Ok(None)
    }
}

/// A list, as far as it was read.
#[derive(Default)]
struct List {
    blocks: Vec<ChosenBlock>,
    /// How many elements are open: the root, and a line in it.
    depth: usize,
    root_seen: bool,
    search: Option<BlockSearch>,
    id: String,
}

#[derive(PartialEq, Eq)]
enum Next {
    Event,
    End,
}

impl List {
    fn read(&mut self, event: Event<'_>) -> Result<Next, ServiceError> {
        match event {
            Event::Start(start) => self.open(start.local_name().into_inner())?,
            Event::End(_) => self.close()?,
            Event::Text(piece) => self.add(&piece.xml10_content())?,
            Event::CData(piece) => self.add(&piece.xml10_content())?,
            Event::GeneralRef(reference) => self.add(&resolve(&reference).map_err(invalid)?)?,
            Event::DocType(_) => return Err(invalid("a document type")),
            Event::Decl(_) | Event::PI(_) | Event::Comment(_) => {}
            Event::Empty(_) => return Err(invalid("an element that was not expanded")),
            Event::Eof if self.root_seen && self.depth == 0 => return Ok(Next::End),
            Event::Eof => return Err(invalid("an element is missing or not closed")),
        }
        Ok(Next::Event)
    }

    fn open(&mut self, name: &str) -> Result<(), ServiceError> {
        match (self.depth, name) {
            (0, "BlockList") if !self.root_seen => self.root_seen = true,
            (1, "Committed") => self.search = Some(BlockSearch::Committed),
            (1, "Uncommitted") => self.search = Some(BlockSearch::Uncommitted),
            (1, "Latest") => self.search = Some(BlockSearch::Latest),
            _ => return Err(invalid("an element that is not expected here")),
        }
        self.depth += 1;
        Ok(())
    }

    fn close(&mut self) -> Result<(), ServiceError> {
        self.depth = self.depth.checked_sub(1).ok_or_else(|| invalid("an end without a start"))?;
        let Some(search) = self.search.take() else { return Ok(()) };
        if self.blocks.len() == MAX_COMMITTED_BLOCKS {
            return Err(ErrorCode::BlockListTooLong.into());
        }
        // An id that is none names no block either.
        let id = BlockId::parse(self.id.trim()).ok_or(ErrorCode::InvalidBlockList)?;
        self.id.clear();
        self.blocks.push(ChosenBlock { id, search });
        Ok(())
    }

    fn add(&mut self, piece: &str) -> Result<(), ServiceError> {
        if self.search.is_some() {
            if self.id.len() + piece.len() > MAX_TEXT_BYTES {
                return Err(ErrorCode::InvalidBlockList.into());
            }
            self.id.push_str(piece);
        } else if !piece.trim().is_empty() {
            return Err(invalid("text between elements"));
        }
        Ok(())
    }
}

/// Prints what [`parse`] reads.
pub fn print_chosen(blocks: &[ChosenBlock]) -> Vec<u8> {
    let mut body = Printer::new(Service::Blob);
    body.parent("BlockList", |body| {
        for block in blocks {
            let name = match block.search {
                BlockSearch::Committed => "Committed",
                BlockSearch::Uncommitted => "Uncommitted",
                BlockSearch::Latest => "Latest",
            };
            body.leaf(name, &block.id.to_string());
        }
    });
    body.finish()
}

/// The body of Get Block List, as far as it was printed: the sections that were asked for, in steps.
pub(super) struct Printing {
    body: Printer,
    root: Opened,
    /// The section that is being printed, and what is left of it.
    open: Option<(Opened, std::vec::IntoIter<ListedBlock>)>,
    /// Those after it.
    sections: VecDeque<(&'static str, Vec<ListedBlock>)>,
}

impl Printing {
    pub(super) fn new(committed: Option<Vec<ListedBlock>>, uncommitted: Option<Vec<ListedBlock>>) -> Self {
        let mut body = Printer::new(Service::Blob);
        let root = body.open("BlockList", &[]);
        let sections = [("CommittedBlocks", committed), ("UncommittedBlocks", uncommitted)];
        let sections = sections.into_iter().filter_map(|(name, blocks)| Some((name, blocks?))).collect();
        Self { body, root, open: None, sections }
    }

    /// Prints on. Whether there is more.
    pub(super) fn step(&mut self) -> bool {
        let Some((section, mut blocks)) = self.open.take() else {
            let Some((name, blocks)) = self.sections.pop_front() else { return false };
            self.open = Some((self.body.open(name, &[]), blocks.into_iter()));
            return true;
        };
        blocks.by_ref().take(STEP).for_each(|block| print_block(&mut self.body, &block));
        match blocks.len() {
            0 => self.body.close(section),
            _ => self.open = Some((section, blocks)),
        }
        true
    }

    pub(super) fn finish(mut self) -> Vec<u8> {
        while self.step() {}
        self.body.close(self.root);
        self.body.finish()
    }
}

/// What the printed list takes at most.
pub(super) fn most_bytes(list: &BlockList) -> usize {
    let blocks = [&list.committed, &list.uncommitted].into_iter().flatten().map(Vec::len).sum::<usize>();
    256 + blocks * MAX_PRINTED_BLOCK_BYTES
}

/// A name of 64 bytes in base64, a number, and the elements around them.
const MAX_PRINTED_BLOCK_BYTES: usize = 88 + 20 + 41;

fn print_block(body: &mut Printer, block: &ListedBlock) {
    body.parent("Block", |body| {
        body.leaf("Name", &block.id.to_string());
        body.leaf("Size", &block.bytes.to_string());
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use ErrorCode::*;
    use proptest::prelude::*;

    fn parsed(body: &str) -> Result<Vec<(BlockSearch, String)>, ErrorCode> {
        let blocks = parse(body.as_bytes()).map_err(|error| error.code)?;
        Ok(blocks.into_iter().map(|block| (block.search, block.id.to_string())).collect())
    }

    #[test]
    fn lists_are_read() {
        use BlockSearch::*;
        let row = |search, id: &str| (search, id.to_owned());
        for (body, expected) in [
            ("<BlockList />", vec![]),
            ("\u{FEFF}<?xml version=\"1.0\"?>\r\n<BlockList>\n</BlockList>\n", vec![]),
            ("<BlockList><Latest>MDAwMQ==</Latest></BlockList>", vec![row(Latest, "MDAwMQ==")]),
            (
                "<BlockList> <Committed> MQ== </Committed><Uncommitted>Mg&#61;=</Uncommitted>\
                 <Latest><![CDATA[MQ==]]></Latest></BlockList>",
                vec![row(Committed, "MQ=="), row(Uncommitted, "Mg=="), row(Latest, "MQ==")],
            ),
        ] {
            assert_eq!(parsed(body), Ok(expected), "{body}");
        }
    }

    #[test]
    fn lists_are_refused() {
        let lines = |count| format!("<BlockList>{}</BlockList>", "<Latest>MQ==</Latest>".repeat(count));
        assert_eq!(parsed(&lines(50_000)).map(|blocks| blocks.len()), Ok(50_000));
        let (many, long) =
            (lines(50_001), format!("<BlockList><Latest>{}</Latest></BlockList>", "A".repeat(300)));
        for (body, expected) in [
            ("", InvalidXmlDocument),
            ("plain", InvalidXmlDocument),
            ("<BlockList>", InvalidXmlDocument),
            ("<Other/>", InvalidXmlDocument),
            ("<BlockList/><BlockList/>", InvalidXmlDocument),
            ("<BlockList>x</BlockList>", InvalidXmlDocument),
            ("<BlockList><Block>MQ==</Block></BlockList>", InvalidXmlDocument),
            ("<BlockList><Latest><Latest>MQ==</Latest></Latest></BlockList>", InvalidXmlDocument),
            ("<!DOCTYPE a><BlockList/>", InvalidXmlDocument),
            ("<BlockList><Latest>&e;</Latest></BlockList>", InvalidXmlDocument),
            ("<BlockList><Latest/></BlockList>", InvalidBlockList),
            ("<BlockList><Latest>M</Latest></BlockList>", InvalidBlockList),
            (&long, InvalidBlockList),
            (&many, BlockListTooLong),
        ] {
            assert_eq!(parsed(body), Err(expected), "{body:.80}");
        }
    }

    prop_compose! {
        fn block()(id in proptest::collection::vec(any::<u8>(), 1..=64), search in 0..3usize) -> ChosenBlock {
            let search = [BlockSearch::Committed, BlockSearch::Uncommitted, BlockSearch::Latest][search];
            ChosenBlock { id: BlockId::from_bytes(id).unwrap(), search }
        }
    }

    proptest! {
        #[test]
        fn printed_lists_are_read_as_themselves(blocks in proptest::collection::vec(block(), 0..8)) {
            prop_assert_eq!(parse(&print_chosen(&blocks)), Ok(blocks));
        }

        #[test]
        fn lists_are_not_longer_than_was_said(
            ids in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..=64), 0..50),
            bytes in any::<u64>(),
        ) {
            let block = |id| ListedBlock { id: BlockId::from_bytes(id).unwrap(), bytes };
            let blocks: Vec<_> = ids.into_iter().map(block).collect();
            let list = BlockList { committed_as: None, committed: Some(blocks.clone()), uncommitted: Some(blocks) };
            let printed = Printing::new(list.committed.clone(), list.uncommitted.clone()).finish();
            prop_assert!(printed.len() <= most_bytes(&list));
        }

        #[test]
        fn any_text_is_read_or_not(text in "(<BlockList>|</BlockList>|<Latest>|</Latest>|<a/>|MQ==|&#|;|<!--|-->|[a-z<>&]){0,14}") {
            let _ = parse(text.as_bytes());
        }
    }
}
