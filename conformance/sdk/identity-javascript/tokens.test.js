"use strict";

const assert = require("node:assert/strict");
const { describe, it } = require("node:test");
const { collect, fixed, named, refused, requests, server, services, tableClient, uniqueName } = require("./support");

describe("a contributor", () => {
  it("works with tables", async () => {
    const service = services.table(named("contributor"));
    const name = uniqueName();
    await service.createTable(name);
    const table = tableClient(named("contributor"), name);
    await table.createEntity({ partitionKey: "p", rowKey: "1", name: "Ada" });
    await table.submitTransaction([["upsert", { partitionKey: "p", rowKey: "2" }], ["delete", { partitionKey: "p", rowKey: "1" }]]);
    assert.deepEqual((await collect(table.listEntities())).map(({ rowKey }) => rowKey), ["2"]);
    await service.deleteTable(name);
  });

  it("works with queues", async () => {
    const queue = services.queue(named("contributor")).getQueueClient(uniqueName());
    await queue.create();
    await queue.sendMessage("work");
    const [message] = (await queue.receiveMessages()).receivedMessageItems;
    assert.equal(message.messageText, "work");
    await queue.deleteMessage(message.messageId, message.popReceipt);
    assert.deepEqual((await queue.peekMessages()).peekedMessageItems, []);
    await queue.delete();
  });

  it("works with blobs", async () => {
    const container = services.blob(named("contributor")).getContainerClient(uniqueName());
    await container.create();
    const blob = container.getBlockBlobClient("a.txt");
    await blob.upload("content", 7);
    assert.equal((await blob.downloadToBuffer()).toString(), "content");
    assert.deepEqual((await collect(container.listBlobsFlat())).map(({ name }) => name), ["a.txt"]);
    await container.delete();
  });
});

for (const service of Object.keys(services)) {
  describe(`roles of the ${service} service`, () => {
    it("let readers read", async () => {
      const [read, write] = requests[service](services[service](named("reader")));
      await read();
      await refused(write(), 403, "AuthorizationPermissionMismatch");
    });

    it("let nobody in who has none", async () => {
      for (const request of requests[service](services[service](named("nobody")))) {
        await refused(request(), 403, "AuthorizationPermissionMismatch");
      }
    });

    it("count for members of a group", async () => {
      for (const request of requests[service](services[service](named("member")))) await request();
    });
  });

  describe(`bad tokens at the ${service} service`, () => {
    for (const { name, token, detail, challenge } of server.refused) {
      it(`are refused: ${name}`, async () => {
        const [read] = requests[service](services[service](fixed(token)));
        if (service === "table") {
          // This client speaks a version without the challenge.
          const error = await refused(read(), 403, "AuthenticationFailed");
          assert.equal(error.response.headers.get("www-authenticate"), undefined);
          return;
        }
        const error = await refused(read(), 401, "InvalidAuthenticationInfo");
        assert.equal(error.response.headers.get("www-authenticate"), challenge);
        assert.ok(error.response.bodyAsText.includes(`<AuthenticationErrorDetail>${detail}<`), error.response.bodyAsText);
      });
    }
  });
}
