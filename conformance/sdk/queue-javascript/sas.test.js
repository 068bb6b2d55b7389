"use strict";

const assert = require("node:assert/strict");
const { describe, it } = require("node:test");
const {
  AccountSASPermissions, AccountSASResourceTypes, AccountSASServices, QueueSASPermissions, StorageSharedKeyCredential,
  generateAccountSASQueryParameters, generateQueueSASQueryParameters,
} = require("@azure/storage-queue");
const {
  ACCOUNT, CREDENTIAL, WRONG_KEY, collect, inMinutes, queueWithSas, refused, serviceWithSas, take, texts, uniqueName, withQueue,
} = require("./support");

function queueSas(queue, letters = "raup", options = {}, credential = CREDENTIAL) {
  const given = { queueName: queue.name, expiresOn: inMinutes(10), permissions: QueueSASPermissions.parse(letters), ...options };
  return generateQueueSASQueryParameters(given, credential).toString();
}

function accountSas(letters, types, services = "q") {
  return generateAccountSASQueryParameters({
    expiresOn: inMinutes(10),
    permissions: AccountSASPermissions.parse(letters),
    resourceTypes: AccountSASResourceTypes.parse(types).toString(),
    services: AccountSASServices.parse(services).toString(),
  }, CREDENTIAL).toString();
}

const OPERATIONS = {
  peek: ["r", (queue) => queue.peekMessages()],
  put: ["a", (queue) => queue.sendMessage("new")],
  update: ["u", (queue, sent) => queue.updateMessage(sent.messageId, sent.popReceipt, "y", 10)],
  get: ["p", (queue) => queue.receiveMessages()],
  delete: ["p", (queue, sent) => queue.deleteMessage(sent.messageId, sent.popReceipt)],
};

describe("rights", () => {
  for (const [name, [letter, call]] of Object.entries(OPERATIONS)) {
    it(`${name} needs ${letter}`, withQueue(async (queue) => {
      const sent = await queue.sendMessage("old");
      const as = (token) => call(queueWithSas(queue.name, token), sent);
      await refused(as(queueSas(queue, "raup".replace(letter, ""))), 403, "AuthorizationPermissionMismatch");
      await refused(as(accountSas("rwdlacup".replace(letter, ""), "o")), 403, "AuthorizationPermissionMismatch");
      await refused(as(accountSas("rwdlacup", "sc")), 403, "AuthorizationResourceTypeMismatch");
      await refused(as(accountSas("rwdlacup", "o", "b")), 403, "AuthorizationServiceMismatch");
      await as(queueSas(queue, letter));
    }));
  }

  it("queues by account SAS", async () => {
    const name = uniqueName();
    const queue = queueWithSas(name, accountSas("cwdr", "c"));
    await queue.create();
    await queue.setMetadata({ a: "1" });
    const lister = serviceWithSas(accountSas("l", "s"));
    assert.deepEqual((await collect(lister.listQueues({ prefix: name }))).map((found) => found.name), [name]);
    await refused(lister.deleteQueue(name), 403, "AuthorizationResourceTypeMismatch");
    await queue.delete();
  });
});

describe("refused tokens", () => {
  const stranger = new StorageSharedKeyCredential(ACCOUNT, WRONG_KEY);
  const tokens = {
    expired: [(queue) => queueSas(queue, "p", { expiresOn: inMinutes(-1) }), "AuthenticationFailed"],
    "not yet valid": [(queue) => queueSas(queue, "p", { startsOn: inMinutes(5) }), "AuthenticationFailed"],
    "signed with another key": [(queue) => queueSas(queue, "p", {}, stranger), "AuthenticationFailed"],
    "https only": [(queue) => queueSas(queue, "p", { protocol: "https" }), "AuthorizationProtocolMismatch"],
    "another address": [(queue) => queueSas(queue, "p", { ipRange: { start: "203.0.113.1" } }), "AuthorizationSourceIPMismatch"],
  };
  for (const [name, [make, code]] of Object.entries(tokens)) {
    it(name, withQueue((queue) => refused(take(queueWithSas(queue.name, make(queue))), 403, code)));
  }
});

describe("access policies", () => {
  it("round trip, and give rights", withQueue(async (queue) => {
    const expiresOn = new Date("2036-01-01T12:10:30Z");
    const startsOn = new Date("2026-01-01T12:10:00Z");
    const policies = [
      { id: "full", accessPolicy: { startsOn, expiresOn, permissions: "raup" } },
      { id: "reader", accessPolicy: { startsOn, expiresOn, permissions: "r" } },
    ];
    await queue.setAccessPolicy(policies);
    assert.deepEqual((await queue.getAccessPolicy()).signedIdentifiers, policies);
    await queue.sendMessage("x");
    const token = generateQueueSASQueryParameters({ queueName: queue.name, identifier: "reader" }, CREDENTIAL).toString();
    const reader = queueWithSas(queue.name, token);
    assert.deepEqual(await texts(reader), ["x"]);
    await refused(take(reader), 403, "AuthorizationPermissionMismatch");
    await queue.setAccessPolicy([]);
    assert.deepEqual((await queue.getAccessPolicy()).signedIdentifiers, []);
    await refused(texts(reader), 403, "AuthenticationFailed");
  }));
});
