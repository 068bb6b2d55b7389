"use strict";
// What the tests share: how to reach the server, queues that clean up after themselves, refusals.

const assert = require("node:assert/strict");
const { randomUUID } = require("node:crypto");
const { QueueClient, QueueServiceClient, StorageSharedKeyCredential } = require("@azure/storage-queue");

const ENDPOINT = process.env.TEPUI_ENDPOINT;
const SECONDARY = `${ENDPOINT}-secondary`;
const ACCOUNT = "devstoreaccount1";
const KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
const WRONG_KEY = Buffer.from("wrong key ".repeat(6)).toString("base64");
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

function uniqueName(prefix = "sdk") {
  return prefix + randomUUID().replaceAll("-", "").slice(0, 20);
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

async function collect(items) {
  const found = [];
  for await (const item of items) found.push(item);
  return found;
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

function inMinutes(minutes) {
  return new Date(Date.now() + minutes * 60_000);
}

/** The promise fails with this status and code. */
async function refused(promise, statusCode, code) {
  try {
    await promise;
  } catch (error) {
    if (error.name !== "RestError") throw error;
    assert.deepEqual({ status: error.statusCode, code: error.code }, { status: statusCode, code });
    return;
  }
  assert.fail(`not refused, but should be: ${statusCode} ${code}`);
}

module.exports = {
  ACCOUNT, CONNECTION_STRING, CREDENTIAL, ENDPOINT, KEY, OPTIONS, SECONDARY, WRONG_KEY,
  collect, count, inMinutes, queueWithSas, refused, service, serviceWithSas, take, texts, uniqueName, withQueue,
};
