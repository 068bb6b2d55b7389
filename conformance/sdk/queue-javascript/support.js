"use strict";
// What the tests share: clients, queues that clean up after themselves, refusals.

const { QueueClient, QueueServiceClient, StorageSharedKeyCredential } = require("@azure/storage-queue");
const {
  ACCOUNT, CLOCK_TOLERANCE_MS, ENDPOINT, KEY, SECONDARY, WRONG_KEY, collect, inMinutes, refusedBy, uniqueName,
} = require("../shared/server");

const CREDENTIAL = new StorageSharedKeyCredential(ACCOUNT, KEY);
const CONNECTION_STRING =
  `DefaultEndpointsProtocol=http;AccountName=${ACCOUNT};AccountKey=${KEY};QueueEndpoint=${ENDPOINT};`;
const OPTIONS = { retryOptions: { maxTries: 1 } };

const service = new QueueServiceClient(ENDPOINT, CREDENTIAL, OPTIONS);

function queueWithSas(name, token) {
  return new QueueClient(`${ENDPOINT}/${name}?${token}`, undefined, OPTIONS);
}

function serviceWithSas(token) {
  return new QueueServiceClient(`${ENDPOINT}?${token}`, undefined, OPTIONS);
}

/** A test body that is given a new, empty queue. */
function withQueue(body) {
  return async () => {
    const queue = service.getQueueClient(uniqueName());
    await queue.create();
    try {
      await body(queue);
    } finally {
      await queue.delete();
    }
  };
}

/** What is visible, without taking it. */
async function texts(queue) {
  const { peekedMessageItems } = await queue.peekMessages({ numberOfMessages: 32 });
  return peekedMessageItems.map((message) => message.messageText);
}

async function take(queue, options) {
  return (await queue.receiveMessages(options)).receivedMessageItems;
}

async function count(queue) {
  return (await queue.getProperties()).approximateMessagesCount;
}

const refused = refusedBy("RestError");

module.exports = {
  ACCOUNT, CLOCK_TOLERANCE_MS, CONNECTION_STRING, CREDENTIAL, ENDPOINT, KEY, OPTIONS, SECONDARY, WRONG_KEY,
  collect, count, inMinutes, queueWithSas, refused, service, serviceWithSas, take, texts, uniqueName, withQueue,
};
