"use strict";

const assert = require("node:assert/strict");
const { describe, it } = require("node:test");
const azure = require("azure-storage");
const { client, entity, refused, rowKeys, service, uniqueName, withSas, withTable } = require("./support");

const inMinutes = (minutes) => new Date(Date.now() + minutes * 60_000);

function tableSas(table, Permissions, more = {}) {
  const AccessPolicy = { Permissions, Expiry: inMinutes(10), ...more };
  return withSas(client.generateSharedAccessSignature(table, { AccessPolicy }));
}

function accountSas(Permissions, ResourceTypes, more = {}) {
  const AccessPolicy = { Services: "t", Permissions, ResourceTypes, Expiry: inMinutes(10), ...more };
  const { accountName, key } = { accountName: client.storageAccount, key: client.storageAccessKey };
  return withSas(azure.generateAccountSharedAccessSignature(accountName, key, { AccessPolicy }));
}

describe("table SAS", () => {
  for (const [method, needed, args] of [
    ["retrieveEntity", "r", ["p", "old"]],
    ["queryEntities", "r", [null, null]],
    ["insertEntity", "a", [entity("new")]],
    ["mergeEntity", "u", [entity("old")]],
    ["replaceEntity", "u", [entity("old")]],
    ["insertOrMergeEntity", "au", [entity("new")]],
    ["insertOrReplaceEntity", "au", [entity("new")]],
    ["deleteEntity", "d", [entity("old")]],
  ]) {
    it(`${method} needs ${needed}`, withTable(async (table) => {
      await service.insertEntity(table, entity("old"));
      for (const missing of needed) {
        const others = "raud".replace(missing, "");
        await refused(tableSas(table, others)[method](table, ...args), 403, "AuthorizationPermissionMismatch");
      }
      await tableSas(table, needed)[method](table, ...args);
    }));
  }

  it("batch", withTable(async (table) => {
    const batch = new azure.TableBatch();
    batch.insertEntity(entity("a"));
    batch.insertEntity(entity("b"));
    await refused(tableSas(table, "rud").executeBatch(table, batch), 403, "AuthorizationPermissionMismatch");
    await tableSas(table, "a").executeBatch(table, batch);
    assert.deepEqual(await rowKeys(table), ["a", "b"]);
  }));

  for (const [name, more, code] of [
    ["expired", { Expiry: inMinutes(-1) }, "AuthenticationFailed"],
    ["not yet valid", { Start: inMinutes(5) }, "AuthenticationFailed"],
    ["https only", { Protocols: "https" }, "AuthorizationProtocolMismatch"],
    ["another address", { IPAddressOrRange: "203.0.113.1" }, "AuthorizationSourceIPMismatch"],
  ]) {
    it(`${name} is refused`, withTable((table) => refused(tableSas(table, "r", more).queryEntities(table, null, null), 403, code)));
  }

  it("of another table is refused", withTable((table) =>
    refused(tableSas(uniqueName(), "r").queryEntities(table, null, null), 403, "AuthorizationFailure")));

  it("with a key range", withTable(async (table) => {
    const keys = [["p1", "a"], ["p2", "a"], ["p2", "b"], ["p3", "a"]];
    for (const [partition, row] of keys) await service.insertEntity(table, entity(row, {}, partition));
    const limited = tableSas(table, "raud", { StartPk: "p2", StartRk: "a", EndPk: "p2", EndRk: "b" });
    assert.deepEqual(await rowKeys(table, null, limited), ["a", "b"]);
    await limited.insertOrReplaceEntity(table, entity("b", {}, "p2"));
    await refused(limited.insertEntity(table, entity("c", {}, "p2")), 403, "AuthorizationFailure");
    await refused(limited.deleteEntity(table, entity("a", {}, "p3")), 403, "AuthorizationFailure");
  }));
});

describe("account SAS", () => {
  it("tables and entities", async () => {
    const table = uniqueName();
    await accountSas("c", "c").createTable(table);
    await refused(accountSas("a", "c").insertEntity(table, entity()), 403, "AuthorizationResourceTypeMismatch");
    await refused(accountSas("r", "o").insertEntity(table, entity()), 403, "AuthorizationPermissionMismatch");
    await accountSas("a", "o").insertEntity(table, entity());
    assert.deepEqual(await rowKeys(table, null, accountSas("r", "o")), ["r"]);
    assert.deepEqual((await accountSas("l", "c").listTablesSegmentedWithPrefix(table, null)).entries, [table]);
    await refused(accountSas("r", "o", { Services: "b" }).queryEntities(table, null, null), 403, "AuthorizationServiceMismatch");
    await accountSas("d", "c").deleteTable(table);
  });
});

describe("access policies", () => {
  it("round trip and govern a SAS", withTable(async (table) => {
    assert.deepEqual((await service.getTableAcl(table)).signedIdentifiers, {});
    const Expiry = new Date("2036-01-01T00:00:00Z");
    await service.setTableAcl(table, { reader: { Permissions: "r", Expiry }, writer: { Permissions: "au", Expiry } });
    const { signedIdentifiers } = await service.getTableAcl(table);
    assert.deepEqual(Object.keys(signedIdentifiers), ["reader", "writer"]);
    assert.equal(signedIdentifiers.writer.Permissions, "au");
    assert.equal(new Date(signedIdentifiers.reader.Expiry).getTime(), Expiry.getTime());

    const reader = withSas(client.generateSharedAccessSignature(table, { Id: "reader" }));
    assert.deepEqual(await rowKeys(table, null, reader), []);
    await refused(reader.insertEntity(table, entity()), 403, "AuthorizationPermissionMismatch");
    await service.setTableAcl(table, {});
    await refused(reader.queryEntities(table, null, null), 403, "AuthenticationFailed");
  }));

  it("are at most five", withTable(async (table) => {
    const policies = Object.fromEntries([..."abcdef"].map((id) => [id, { Permissions: "r", Expiry: inMinutes(10) }]));
    await refused(service.setTableAcl(table, policies), 400, "InvalidXmlDocument");
  }));
});
