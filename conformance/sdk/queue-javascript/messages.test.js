"use strict";

const assert = require("node:assert/strict");
const { setTimeout: wait } = require("node:timers/promises");
const { describe, it } = require("node:test");
const { CLOCK_TOLERANCE_MS, count, refused, service, take, texts, uniqueName, withQueue } = require("./support");

describe("messages", () => {
  it("are put, taken and deleted", withQueue(async (queue) => {
    const sent = await queue.sendMessage("hello");
    assert.equal(sent.expiresOn - sent.insertedOn, 7 * 86_400_000);
    const [message] = await take(queue);
    assert.deepEqual([message.messageId, message.messageText, message.dequeueCount], [sent.messageId, "hello", 1]);
    assert.notEqual(message.popReceipt, sent.popReceipt);
    assert.deepEqual(await take(queue), []);
    await queue.deleteMessage(message.messageId, message.popReceipt);
    assert.equal(await count(queue), 0);
  }));

  it("need a queue", () => refused(service.getQueueClient(uniqueName()).sendMessage("x"), 404, "QueueNotFound"));

  it("come in batches of 32", withQueue(async (queue) => {
    for (let number = 0; number < 40; number++) await queue.sendMessage(`${number}`);
    const first = await take(queue, { numberOfMessages: 32, visibilityTimeout: 300 });
    const second = await take(queue, { numberOfMessages: 32, visibilityTimeout: 300 });
    assert.deepEqual([...first, ...second].map((message) => message.messageText), Array.from({ length: 40 }, (_, number) => `${number}`));
    await refused(take(queue, { numberOfMessages: 33 }), 400, "OutOfRangeQueryParameterValue");
    await refused(take(queue, { visibilityTimeout: 604801 }), 400, "OutOfRangeQueryParameterValue");
  }));

  it("are peeked at without a trace", withQueue(async (queue) => {
    await queue.sendMessage("one");
    for (let round = 0; round < 2; round++) {
      const [message] = (await queue.peekMessages()).peekedMessageItems;
      assert.deepEqual([message.messageText, message.dequeueCount, message.popReceipt], ["one", 0, undefined]);
    }
  }));

  it("keep progress", withQueue(async (queue) => {
    await queue.sendMessage("step 0");
    let [{ messageId, popReceipt }] = await take(queue);
    for (let step = 1; step < 4; step++) {
      const updated = await queue.updateMessage(messageId, popReceipt, `step ${step}`, 300);
      assert.ok(updated.nextVisibleOn > new Date());
      assert.notEqual(updated.popReceipt, popReceipt);
      popReceipt = updated.popReceipt;
    }
    await queue.updateMessage(messageId, popReceipt, undefined, 0);
    const [again] = await take(queue);
    assert.deepEqual([again.messageText, again.dequeueCount], ["step 3", 2]);
  }));

  it("know old receipts", withQueue(async (queue) => {
    const sent = await queue.sendMessage("x");
    const [{ messageId, popReceipt }] = await take(queue);
    const updated = await queue.updateMessage(messageId, popReceipt, "y", 100);
    for (const old of [sent.popReceipt, popReceipt]) {
      await refused(queue.deleteMessage(messageId, old), 404, "MessageNotFound");
      await refused(queue.updateMessage(messageId, old, "stale", 0), 404, "MessageNotFound");
    }
    await refused(queue.deleteMessage(messageId, "invalid"), 400, "InvalidQueryParameterValue");
    await queue.deleteMessage(messageId, updated.popReceipt);
    await refused(queue.deleteMessage(messageId, updated.popReceipt), 404, "MessageNotFound");
  }));

  it("come back", withQueue(async (queue) => {
    await queue.sendMessage("later", { visibilityTimeout: 600 });
    await queue.sendMessage("now");
    assert.equal((await take(queue, { numberOfMessages: 32, visibilityTimeout: 1 })).length, 1);
    assert.deepEqual(await texts(queue), []);
    assert.equal(await count(queue), 2);
    await wait(1200 + CLOCK_TOLERANCE_MS);
    const [again] = await take(queue);
    assert.deepEqual([again.messageText, again.dequeueCount], ["now", 2]);
  }));

  it("live as long as told", withQueue(async (queue) => {
    assert.equal((await queue.sendMessage("x", { messageTimeToLive: -1 })).expiresOn.getUTCFullYear(), 9999);
    const hour = await queue.sendMessage("x", { messageTimeToLive: 3600 });
    assert.equal(hour.expiresOn - hour.insertedOn, 3_600_000);
    await refused(queue.sendMessage("x", { messageTimeToLive: -2 }), 400, "InvalidQueryParameterValue");
    await refused(queue.sendMessage("x", { messageTimeToLive: 30, visibilityTimeout: 30 }), 400, "InvalidQueryParameterValue");
  }));

  it("are cleared", withQueue(async (queue) => {
    for (let number = 0; number < 10; number++) await queue.sendMessage(`${number}`);
    const [{ messageId, popReceipt }] = await take(queue);
    await queue.clearMessages();
    assert.equal(await count(queue), 0);
    await refused(queue.deleteMessage(messageId, popReceipt), 404, "MessageNotFound");
  }));
});

describe("texts", () => {
  const samples = {
    empty: "", blanks: "  two  ", lines: "a\nb", markup: "<a>&amp;</a>", unicode: "日本語 🎉 é", json: '{"json": [1]}',
    base64: Buffer.from("hello").toString("base64"), largest: "a".repeat(65536), "largest of two bytes": "é".repeat(32768),
  };
  for (const [name, text] of Object.entries(samples)) {
    it(name, withQueue(async (queue) => {
      await queue.sendMessage(text);
      assert.deepEqual(await texts(queue), [text]);
      assert.equal((await take(queue))[0].messageText, text);
    }));
  }

  it("too large", withQueue((queue) => refused(queue.sendMessage("a".repeat(65537)), 413, "RequestBodyTooLarge")));
});
