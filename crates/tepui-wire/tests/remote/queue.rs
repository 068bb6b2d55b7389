//! Queues.

use crate::arrived::{ACCOUNT, Arrived, Signed, answered, any_remote, any_signed};
use crate::some::{identifiers, metadata, second, service_properties_change, time};
use bytes::Bytes;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use std::time::Duration;
use tepui_model::Timestamp;
use tepui_model::metadata::Metadata;
use tepui_model::queue::{
    Call, Claimed, ListQueues, ListedQueue, MessageId, Operation, Peeked, PopReceipt, QueueName, QueuePage,
    Reply, SequencedOperation, Stamp,
};
use tepui_model::service_properties::ServiceProperties;
use tepui_wire::address::Service;
use tepui_wire::queue::pop_receipt;
use tepui_wire::queue::reply::encode;
use tepui_wire::queue::reply::read::{Claim, RemoteMessage, RemoteReply, read};
use tepui_wire::queue::request::Request;
use tepui_wire::queue::request::write::{Options, write};
use tepui_wire::remote::{RemoteService, ReplyError};
use tepui_wire::xml::GeoReplication;

fn queue() -> impl Strategy<Value = QueueName> {
    "[a-z0-9]{1,10}(-[a-z0-9]{1,9}){1,2}".prop_map(|name| QueueName::parse(&name).unwrap())
}

/// Text that XML can hold.
fn text() -> impl Strategy<Value = Bytes> {
    prop_oneof![
        "[A-Za-z0-9+/=]{0,20}",
        "[\t\n\r -\u{D7FF}\u{E000}-\u{FFFD}\u{10000}-\u{10FFFF}]{0,12}",
        "[<>&'\"\r\n \\]]{0,9}"
    ]
    .prop_map(Bytes::from)
}

fn seconds(least: u64) -> impl Strategy<Value = Duration> {
    (least..=604_800).prop_map(Duration::from_secs)
}

fn id() -> impl Strategy<Value = MessageId> {
    any::<u128>().prop_map(MessageId)
}

fn pop_receipt() -> impl Strategy<Value = PopReceipt> {
    (time(), any::<u64>(), any::<u32>()).prop_map(|(visible, sequence, changes)| PopReceipt {
        visible,
        sequence,
        changes,
    })
}

fn list() -> impl Strategy<Value = ListQueues> {
    let from = option::of(queue().prop_map(|queue| queue.to_string()));
    ("[ -~é]{0,9}", from, 1usize..=5000, any::<bool>()).prop_map(
        |(prefix, from, page_size, with_metadata)| ListQueues { prefix, from, page_size, with_metadata },
    )
}

fn call() -> impl Strategy<Value = Call> {
    let put = (queue(), text(), 0u64..1000, option::of(seconds(1001))).prop_map(
        |(queue, text, visibility, lifetime)| SequencedOperation::PutMessage {
            queue,
            text,
            visibility: Duration::from_secs(visibility),
            lifetime,
        },
    );
    let update = (queue(), id(), pop_receipt(), seconds(0), option::of(text())).prop_map(
        |(queue, id, receipt, visibility, text)| SequencedOperation::UpdateMessage {
            queue,
            id: Some(id),
            receipt: Some(receipt),
            visibility,
            text,
        },
    );
    let operation = prop_oneof![
        list().prop_map(Operation::ListQueues),
        (queue(), metadata()).prop_map(|(queue, metadata)| Operation::CreateQueue { queue, metadata }),
        queue().prop_map(|queue| Operation::GetMetadata { queue }),
        (queue(), metadata()).prop_map(|(queue, metadata)| Operation::SetMetadata { queue, metadata }),
        queue().prop_map(|queue| Operation::GetAcl { queue }),
        (queue(), identifiers("[raup]{1,4}"))
            .prop_map(|(queue, identifiers)| Operation::SetAcl { queue, identifiers }),
        (queue(), 1usize..=32).prop_map(|(queue, count)| Operation::PeekMessages { queue, count }),
        Just(Operation::GetServiceProperties),
        service_properties_change().prop_map(Operation::SetServiceProperties),
        Just(Operation::GetServiceStats),
    ];
    let sequenced = prop_oneof![
        queue().prop_map(|queue| SequencedOperation::DeleteQueue { queue }),
        put,
        (queue(), 1usize..=32, seconds(1)).prop_map(|(queue, count, visibility)| {
            SequencedOperation::GetMessages { queue, count, visibility }
        }),
        update,
        (queue(), id(), pop_receipt()).prop_map(|(queue, id, receipt)| {
            SequencedOperation::DeleteMessage { queue, id: Some(id), receipt: Some(receipt) }
        }),
        queue().prop_map(|queue| SequencedOperation::ClearMessages { queue }),
    ];
    prop_oneof![operation.prop_map(Call::Operation), sequenced.prop_map(Call::Sequenced)]
}

fn replied(remote: &RemoteService, call: &Call, reply: Reply) -> Result<RemoteReply, ReplyError> {
    let request = write(remote, call, &Options::default()).unwrap();
    let arrived = Arrived::new(remote, request, Signed::SharedKey);
    let response = encode(&arrived.head(Service::Queue), reply).unwrap();
    read(call, remote.version(), &answered(response))
}

prop_compose! {
    fn claimed()(id in id(), inserted in second(), expires in second(), visible in second(), sequence: u64, changes: u32, dequeue_count: u32, text in text()) -> Claimed {
        Claimed { stamp: Stamp { id, inserted, expires }, receipt: PopReceipt { visible, sequence, changes }, dequeue_count, text }
    }
}

fn claim(receipt: &PopReceipt) -> Claim {
    Claim {
        receipt: String::from_utf8(pop_receipt::print(receipt).to_vec()).unwrap(),
        visible: Timestamp::parse_http(&receipt.visible.to_http()).unwrap(),
    }
}

fn received(message: &Claimed) -> RemoteMessage {
    RemoteMessage {
        id: message.stamp.id,
        inserted: message.stamp.inserted,
        expires: message.stamp.expires,
        claim: Some(claim(&message.receipt)),
        dequeue_count: message.dequeue_count,
        text: String::from_utf8(message.text.to_vec()).unwrap(),
    }
}

proptest! {
    #[test]
    fn operations_are_read_as_they_were_written(
        remote in any_remote(Service::Queue),
        call in call(),
        signed in any_signed(),
    ) {
        let arrived = Arrived::new(&remote, write(&remote, &call, &Options::default()).unwrap(), signed);
        let head = arrived.head(Service::Queue);
        let read = Request::read(&head).unwrap().prepare().unwrap().decode(&arrived.body);
        prop_assert_eq!(read, Ok(call));
    }

    #[test]
    fn receipts_and_markers_are_sent_as_they_came(
        remote in any_remote(Service::Queue),
        queue in queue(),
        id in id(),
        receipt in pop_receipt(),
        list in list(),
    ) {
        let text = String::from_utf8(pop_receipt::print(&receipt).to_vec()).unwrap();
        let marker = format!("/{ACCOUNT}/{queue}");
        let options = Options { receipt: Some(&text), marker: Some(&marker) };
        let without = SequencedOperation::DeleteMessage { queue: queue.clone(), id: Some(id), receipt: None };
        let with = SequencedOperation::DeleteMessage { queue: queue.clone(), id: Some(id), receipt: Some(receipt) };
        let next = ListQueues { from: Some(queue.to_string()), ..list.clone() };
        for (sent, expected) in [(Call::from(without), Call::from(with)), (Operation::ListQueues(list).into(), Operation::ListQueues(next).into())] {
            let arrived = Arrived::new(&remote, write(&remote, &sent, &options).unwrap(), Signed::SharedKey);
            let head = arrived.head(Service::Queue);
            let read = Request::read(&head).unwrap().prepare().unwrap().decode(&arrived.body);
            prop_assert_eq!(read, Ok(expected));
        }
    }

    #[test]
    fn messages_are_read_as_they_were_replied(
        remote in any_remote(Service::Queue),
        queue in queue(),
        messages in vec(claimed(), 0..4),
        put in claimed(),
        visibility in seconds(1),
    ) {
        let get = Call::from(SequencedOperation::GetMessages { queue: queue.clone(), count: 32, visibility });
        let expected = messages.iter().map(received).collect();
        prop_assert_eq!(replied(&remote, &get, Reply::Messages(messages.clone())), Ok(RemoteReply::Messages(expected)));

        let peek = Call::from(Operation::PeekMessages { queue: queue.clone(), count: 32 });
        let expected = messages.iter().map(|message| RemoteMessage { claim: None, ..received(message) }).collect();
        let peeked = messages.into_iter().map(|Claimed { stamp, dequeue_count, text, .. }| Peeked { stamp, dequeue_count, text });
        prop_assert_eq!(replied(&remote, &peek, Reply::Peeked(peeked.collect())), Ok(RemoteReply::Peeked(expected)));

        let operation = SequencedOperation::PutMessage { queue: queue.clone(), text: put.text.clone(), visibility: Duration::ZERO, lifetime: None };
        let expected = RemoteMessage { dequeue_count: 0, text: String::new(), ..received(&put) };
        prop_assert_eq!(replied(&remote, &operation.into(), Reply::Put(put.clone())), Ok(RemoteReply::Put(Some(expected))));

        let operation = SequencedOperation::UpdateMessage { queue, id: Some(put.stamp.id), receipt: Some(put.receipt), visibility, text: None };
        prop_assert_eq!(replied(&remote, &operation.into(), Reply::Updated(put.receipt)), Ok(RemoteReply::Updated(claim(&put.receipt))));
    }

    #[test]
    fn other_replies_are_read(
        remote in any_remote(Service::Queue),
        queue in queue(),
        metadata in metadata(),
        messages: u64,
        names in vec((queue(), option::of("[ -~é<&]{0,9}")), 0..4),
        next in option::of(queue()),
        identifiers in identifiers("[raup]{1,4}"),
        settings in service_properties_change(),
        at in second(),
    ) {
        let mut properties = ServiceProperties::default();
        settings.apply(&mut properties);
        let queues: Vec<ListedQueue> = names
            .into_iter()
            .map(|(name, note)| ListedQueue {
                name: name.to_string(),
                // As headers have it: a character for each byte.
                metadata: note.map(|note| {
                    Metadata::new(vec![("Note".to_owned(), note.bytes().map(char::from).collect())]).unwrap()
                }),
            })
            .collect();
        let marker = next.as_ref().map(|next| format!("/{ACCOUNT}/{next}"));
        let page = QueuePage { queues: queues.clone(), next: next.map(|next| next.to_string()), ..QueuePage::default() };
        let list = ListQueues { prefix: String::new(), from: None, page_size: 5000, with_metadata: true };
        let create = Operation::CreateQueue { queue: queue.clone(), metadata: metadata.clone() };
        for (call, reply, expected) in [
            (Operation::ListQueues(list).into(), Reply::Queues(page), RemoteReply::Queues { queues, next: marker }),
            (create.clone().into(), Reply::QueueCreated, RemoteReply::QueueCreated),
            (create.into(), Reply::QueueExists, RemoteReply::QueueExists),
            (Call::from(SequencedOperation::DeleteQueue { queue: queue.clone() }), Reply::QueueDeleted, RemoteReply::QueueDeleted),
            (
                Call::from(Operation::GetMetadata { queue: queue.clone() }),
                Reply::Metadata { metadata: metadata.clone(), messages },
                RemoteReply::Metadata { metadata: metadata.clone(), messages },
            ),
            (Call::from(Operation::SetMetadata { queue: queue.clone(), metadata }), Reply::MetadataSet, RemoteReply::MetadataSet),
            (Call::from(SequencedOperation::ClearMessages { queue: queue.clone() }), Reply::Cleared, RemoteReply::Cleared),
            (Call::from(Operation::SetAcl { queue, identifiers }), Reply::AclSet, RemoteReply::AclSet),
            (
                Operation::GetServiceProperties.into(),
                Reply::ServiceProperties(properties.clone()),
                RemoteReply::ServiceProperties(properties),
            ),
            (
                Operation::SetServiceProperties(settings).into(),
                Reply::ServicePropertiesSet,
                RemoteReply::ServicePropertiesSet,
            ),
            (
                Operation::GetServiceStats.into(),
                Reply::ServiceStats { last_sync: at },
                RemoteReply::ServiceStats(GeoReplication::Live { last_sync: at }),
            ),
        ] {
            prop_assert_eq!(replied(&remote, &call, reply), Ok(expected));
        }
    }
}
