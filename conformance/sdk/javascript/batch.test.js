"use strict";

const assert = require("node:assert/strict");
const { describe, it } = require("node:test");
const { AzureNamedKeyCredential, TableTransaction } = require("@azure/data-tables");
const { ACCOUNT, STALE, WRONG_KEY, collect, entity, refused, rowKeys, tableClient, uniqueName, withTable } = require("./support");

async function contents(table) {
  return Object.fromEntries((await collect(table.listEntities())).map(({ rowKey, a, b }) => [rowKey, [a, b]]));
}

describe("transactions", () => {
  it("hold every kind of operation", withTable(async (table) => {
    for (const row of "abcde") await table.createEntity(entity(row, { a: 1, b: 1 }));
    const transaction = new TableTransaction();
    transaction.createEntity(entity("new", { a: 2 }));
    transaction.updateEntity(entity("a", { a: 2 }), "Merge");
    transaction.updateEntity(entity("b", { a: 2 }), "Replace");
    transaction.upsertEntity(entity("c", { a: 2 }), "Merge");
    transaction.upsertEntity(entity("d", { a: 2 }), "Replace");
    transaction.upsertEntity(entity("other", { a: 2 }), "Merge");
    transaction.deleteEntity("p", "e");
    const answer = await table.submitTransaction(transaction.actions);
    assert.equal(answer.status, 202);
    assert.deepEqual(answer.subResponses.map((part) => part.status), Array(7).fill(204));
    assert.deepEqual(await contents(table), {
      a: [2, 1], b: [2, undefined], c: [2, 1], d: [2, undefined], new: [2, undefined], other: [2, undefined],
    });
    assert.equal(answer.getResponseForEntity("new").etag, (await table.getEntity("p", "new")).etag);
    assert.equal(answer.subResponses[1].etag, (await table.getEntity("p", "a")).etag);
    assert.equal(answer.subResponses[6].etag, undefined);
  }));

  it("hold a hundred operations", withTable(async (table) => {
    const rows = Array.from({ length: 100 }, (_, number) => String(number).padStart(3, "0"));
    const answer = await table.submitTransaction(rows.map((row) => ["create", entity(row)]));
    assert.equal(answer.subResponses.length, 100);
    assert.deepEqual(await rowKeys(table.listEntities()), rows);
  }));

  it("hold no more than a hundred operations", withTable(async (table) => {
    const actions = Array.from({ length: 101 }, (_, number) => ["create", entity(String(number))]);
    await refused(table.submitTransaction(actions), 400, "InvalidInput");
    assert.deepEqual(await contents(table), {});
  }));

  const failures = {
    "insert of an existing entity": [["create", entity("old")], 409, "EntityAlreadyExists"],
    "update of a missing entity": [["update", entity("gone"), "Merge"], 404, "ResourceNotFound"],
    "replace of a missing entity": [["update", entity("gone"), "Replace"], 404, "ResourceNotFound"],
    "delete of a missing entity": [["delete", entity("gone")], 404, "ResourceNotFound"],
    "update under a stale ETag": [["update", entity("old"), "Merge", { etag: STALE }], 412, "UpdateConditionNotSatisfied"],
    "value too large": [["create", entity("big", { a: "x".repeat(32769) })], 400, "PropertyValueTooLarge"],
    "forbidden key": [["create", entity("a/b")], 400, "OutOfRangeInput"],
  };
  for (const [name, [action, status, code]] of Object.entries(failures)) {
    it(`fail as one: ${name}`, withTable(async (table) => {
      await table.createEntity(entity("old", { a: 1 }));
      for (const index of [0, 2]) {
        const actions = ["n0", "n1", "n2"].map((row) => ["create", entity(row)]);
        actions.splice(index, 0, action);
        const error = await refused(table.submitTransaction(actions), status, code);
        assert.equal(error.code, code);
        assert.ok(error.message.startsWith(`${index}:`), error.message);
        assert.deepEqual(await contents(table), { old: [1, undefined] });
      }
    }));
  }

  it("hold an entity once", withTable(async (table) => {
    const actions = [["create", entity("a")], ["create", entity("b")], ["upsert", entity("a"), "Merge"]];
    const error = await refused(table.submitTransaction(actions), 400, "InvalidDuplicateRow");
    assert.ok(error.message.startsWith("2:"), error.message);
    assert.deepEqual(await contents(table), {});
  }));

  it("hold one partition, which the client checks", withTable(async (table) => {
    const actions = [["create", entity("a", {}, "p1")], ["create", entity("a", {}, "p2")]];
    await assert.rejects(table.submitTransaction(actions), /same partitionKey/);
  }));

  it("need a table", () =>
    refused(tableClient(uniqueName()).submitTransaction([["create", entity()]]), 404, "TableNotFound"));

  it("need the right key", withTable(async (table) => {
    const stranger = tableClient(table.tableName, new AzureNamedKeyCredential(ACCOUNT, WRONG_KEY));
    await refused(stranger.submitTransaction([["create", entity()]]), 403, "AuthenticationFailed");
    assert.deepEqual(await contents(table), {});
  }));

  it("are at most 4 MiB", withTable(async (table) => {
    const text = "x".repeat(32000);
    const large = Object.fromEntries(Array.from({ length: 16 }, (_, number) => [`p${number}`, text]));
    const actions = Array.from({ length: 10 }, (_, number) => ["create", entity(String(number), large)]);
    await refused(table.submitTransaction(actions), 413, "RequestBodyTooLarge");
    assert.deepEqual(await contents(table), {});
  }));
});
