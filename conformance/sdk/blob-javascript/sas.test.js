"use strict";

const assert = require("node:assert/strict");
const { describe, it } = require("node:test");
const { BlobServiceClient, SASProtocol, StorageSharedKeyCredential } = require("@azure/storage-blob");
const {
  ACCOUNT, ENDPOINT, OPTIONS, WRONG_KEY,
  accountSas, blobSas, blobWith, collect, containerSas, containerWith, inMinutes, names, put, refused, service, text, withContainer,
} = require("./support");

// The letter, and the call.
const OPERATIONS = {
  read: ["r", (blob) => text(blob)],
  properties: ["r", (blob) => blob.getProperties()],
  metadata: ["w", (blob) => blob.setMetadata({ a: "1" })],
  lease: ["w", (blob) => blob.getBlobLeaseClient().acquireLease(15)],
  overwrite: ["w", (blob) => blob.getBlockBlobClient().upload("new", 3)],
  tags: ["t", (blob) => blob.getTags()],
  delete: ["d", (blob) => blob.delete()],
};

describe("tokens", () => {
  for (const [name, [letter, call]] of Object.entries(OPERATIONS)) {
    for (const kind of ["blob", "container", "account"]) {
      it(`of a ${kind} give the right to ${name}`, withContainer(async (container) => {
        const blob = await put(container, "dir/a ü", "old");
        const token = (letters) =>
          kind === "blob" ? blobSas(blob, letters) : kind === "container" ? containerSas(container, letters) : accountSas(letters, "o");
        const others = [..."radt" + "w"].filter((each) => each !== letter).join("");
        await refused(call(blobWith(blob, token(others))), 403, "AuthorizationPermissionMismatch");
        await call(blobWith(blob, token(letter)));
      }));
    }
  }

  it("allow lists", withContainer(async (container) => {
    await put(container, "a");
    assert.deepEqual(await names(containerWith(container, containerSas(container, "l"))), ["a"]);
    await refused(names(containerWith(container, containerSas(container, "r"))), 403, "AuthorizationPermissionMismatch");
    const account = new BlobServiceClient(`${ENDPOINT}?${accountSas("l", "s")}`, undefined, OPTIONS);
    assert.deepEqual((await collect(account.listContainers({ prefix: container.containerName }))).map(({ name }) => name), [container.containerName]);
  }));

  it("belong to a snapshot", withContainer(async (container) => {
    const blob = await put(container, "a", "old");
    const { snapshot } = await blob.createSnapshot();
    await blob.upload("new", 3);
    const token = blobSas(blob, "r", { snapshotTime: snapshot });
    assert.equal(await text(blobWith(blob, `${token}&snapshot=${encodeURIComponent(snapshot)}`)), "old");
    await refused(text(blobWith(blob, token)), 403, "AuthenticationFailed");
    await blob.delete({ deleteSnapshots: "include" });
  }));

  it("name a policy", withContainer(async (container) => {
    const blob = await put(container, "a", "x");
    await container.setAccessPolicy(undefined, [{ id: "reader", accessPolicy: { permissions: "r", startsOn: inMinutes(-5), expiresOn: inMinutes(5) } }]);
    const client = blobWith(blob, blobSas(blob, undefined, { identifier: "reader" }));
    assert.equal(await text(client), "x");
    await refused(client.delete(), 403, "AuthorizationPermissionMismatch");
    await container.setAccessPolicy();
    await refused(text(client), 403, "AuthenticationFailed");
  }));

  it("replace headers", withContainer(async (container) => {
    const blob = await put(container, "a");
    const found = await blobWith(blob, blobSas(blob, "r", { contentType: "text/csv; charset=utf-8", contentDisposition: "attachment; filename=x" })).download();
    assert.deepEqual([found.contentType, found.contentDisposition], ["text/csv; charset=utf-8", "attachment; filename=x"]);
    await collect(found.readableStreamBody);
  }));

  const REFUSED = {
    expired: [{ expiresOn: inMinutes(-1) }, "AuthenticationFailed"],
    "not yet valid": [{ startsOn: inMinutes(5) }, "AuthenticationFailed"],
    "by another key": [{ credential: new StorageSharedKeyCredential(ACCOUNT, WRONG_KEY) }, "AuthenticationFailed"],
    "for https": [{ protocol: SASProtocol.Https }, "AuthorizationProtocolMismatch"],
    "for another address": [{ ipRange: { start: "203.0.113.1" } }, "AuthorizationSourceIPMismatch"],
  };
  for (const [name, [options, code]] of Object.entries(REFUSED)) {
    it(`are refused: ${name}`, withContainer(async (container) => {
      const blob = await put(container, "a");
      await refused(text(blobWith(blob, blobSas(blob, "r", options))), 403, code);
    }));
  }

  it("are made by clients", withContainer(async (container) => {
    const blob = await put(container, "a", "x");
    const url = await service.getContainerClient(container.containerName).getBlobClient("a").generateSasUrl({
      permissions: require("@azure/storage-blob").BlobSASPermissions.parse("r"), expiresOn: inMinutes(5),
    });
    const answer = await fetch(url);
    assert.deepEqual([answer.status, await answer.text()], [200, "x"]);
    assert.equal(await text(blob), "x");
  }));
});
