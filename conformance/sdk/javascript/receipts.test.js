"use strict";
// Receipts: what the server says about the cost of a request, as a program of this library reads it.

const assert = require("node:assert/strict");
const { describe, it } = require("node:test");
const { collect, entity, withTable } = require("./support");

/** A dictionary of structured fields, as far as receipts use them. */
function members(header) {
  return Object.fromEntries(header.split(", ").map((member) => {
    const [key, value] = member.split("=");
    return [key, value ?? true];
  }));
}

/** What a test can know of a receipt before it comes. */
function foreseen(header) {
  const { bytes, ms, ...rest } = members(header);
  assert.ok(Number(ms) >= 0 && Number(bytes) >= 0, header);
  return rest;
}

/** Options of a request that keep the receipt of its answer. */
function keeping(receipts, options = {}) {
  return { ...options, onResponse: (response) => receipts.push(response.headers.get("tepui-receipt")) };
}

describe("receipts", () => {
  for (const [filter, expected] of [
    ["PartitionKey eq 'p'", { plan: "partition", ranges: "1", scanned: "5", returned: "5", units: "5" }],
    ["PartitionKey eq 'p' and number eq 3", { plan: "partition", ranges: "1", scanned: "5", returned: "1", units: "5" }],
    [
      "PartitionKey eq 'p' and (RowKey eq '1' or RowKey eq '3')",
      { plan: "point", ranges: "2", scanned: "2", returned: "2", units: "2", hint: "use-point" },
    ],
  ]) {
    it(filter, withTable(async (table) => {
      for (let number = 0; number < 5; number++) await table.createEntity(entity(String(number), { number }));
      const receipts = [];
      await collect(table.listEntities(keeping(receipts, { queryOptions: { filter } })));
      assert.deepEqual(receipts.map(foreseen), [expected]);
    }));
  }

  it("of pages", withTable(async (table) => {
    for (let number = 0; number < 5; number++) await table.createEntity(entity(String(number)));
    const receipts = [];
    for await (const page of table.listEntities(keeping(receipts)).byPage({ maxPageSize: 3 })) assert.ok(page.length > 0);
    assert.deepEqual(receipts.map(foreseen), [
      { plan: "table", ranges: "1", scanned: "4", returned: "3", units: "4", more: true },
      { plan: "table", ranges: "1", scanned: "2", returned: "2", units: "2" },
    ]);
  }));

  it("of reads, changes and batches", withTable(async (table) => {
    const receipts = [];
    await table.createEntity(entity("1", { text: "x".repeat(3072) }), keeping(receipts));
    await table.getEntity("p", "1", keeping(receipts));
    const changes = Array.from({ length: 100 }, (_, number) => ["upsert", entity(String(number))]);
    // submitTransaction does not call onResponse; a policy sees its answer, too.
    table.pipeline.addPolicy({
      name: "receipts",
      async sendRequest(request, next) {
        const response = await next(request);
        receipts.push(response.headers.get("tepui-receipt"));
        return response;
      },
    });
    await table.submitTransaction(changes);
    assert.deepEqual(receipts.map(foreseen), [
      { ranges: "0", scanned: "0", returned: "0", units: "3" },
      { plan: "point", ranges: "1", scanned: "1", returned: "1", units: "3" },
      { ranges: "0", scanned: "0", returned: "0", units: "100", operations: "100" },
    ]);
  }));

  it("with Server-Timing when it is asked for", withTable(async (table) => {
    const seen = [];
    for (const customHeaders of [{}, { "tepui-receipt": "timing" }]) {
      const onResponse = (response) => seen.push(response.headers.get("server-timing"));
      await collect(table.listEntities({ onResponse, requestOptions: { customHeaders } }));
    }
    assert.equal(seen[0], undefined);
    const names = seen[1].split(", ").map((metric) => metric.split(";dur=")[0]);
    assert.deepEqual(names, ["auth", "body", "plan", "read", "commit", "reply"]);
  }));
});
