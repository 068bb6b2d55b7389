"use strict";

const assert = require("node:assert/strict");
const { describe, it } = require("node:test");
const { BlobSASPermissions, BlockBlobClient, generateBlobSASQueryParameters } = require("@azure/storage-blob");
const { ACCOUNT, callAdmin, named, refused, server, services, uniqueName } = require("./support");

const inMinutes = (minutes) => new Date(Date.now() + minutes * 60_000);

async function withBlob(test) {
  const container = services.blob(named("contributor")).getContainerClient(uniqueName());
  await container.create();
  await container.getBlockBlobClient("a.txt").upload("content", 7);
  await test(container.containerName);
  await container.delete();
}

const keyOf = (token) => services.blob(named(token)).getUserDelegationKey(inMinutes(-1), inMinutes(60));

function signed(containerName, key, letters) {
  const permissions = BlobSASPermissions.parse(letters);
  const values = { containerName, blobName: "a.txt", permissions, expiresOn: inMinutes(30) };
  const sas = generateBlobSASQueryParameters(values, key, ACCOUNT).toString();
  return new BlockBlobClient(`${server.endpoints.blob}/${containerName}/a.txt?${sas}`, undefined, { retryOptions: { maxTries: 1 } });
}

const content = async (blob) => (await blob.downloadToBuffer()).toString();

describe("user delegation signatures", () => {
  it("read and write", () => withBlob(async (name) => {
    const blob = signed(name, await keyOf("contributor"), "rw");
    await blob.upload("other", 5);
    assert.equal(await content(blob), "other");
  }));

  it("are cut to the roles", () => withBlob(async (name) => {
    const blob = signed(name, await keyOf("reader"), "rw");
    assert.equal(await content(blob), "content");
    await refused(blob.upload("other", 5), 403, "AuthorizationPermissionMismatch");
  }));

  it("end with the role", () => withBlob(async (name) => {
    const principal = `oid:${server.principals.nobody}`;
    const assignment = { principal, role: "Storage Blob Data Reader", scope: `/${ACCOUNT}/blob/${name}` };
    const { id } = await callAdmin("POST", "/role-assignments", assignment);
    const delegator = await callAdmin("POST", "/role-assignments", { principal, role: "Storage Blob Delegator", scope: `/${ACCOUNT}` });
    const blob = signed(name, await keyOf("nobody"), "r");
    assert.equal(await content(blob), "content");
    await callAdmin("DELETE", `/role-assignments/${id}`);
    await refused(content(blob), 403, "AuthorizationPermissionMismatch");
    await callAdmin("DELETE", `/role-assignments/${delegator.id}`);
    await refused(keyOf("nobody"), 403, "AuthorizationPermissionMismatch");
  }));

  it("end when the keys are revoked", () => withBlob(async (name) => {
    const blob = signed(name, await keyOf("contributor"), "r");
    assert.equal(await content(blob), "content");
    await callAdmin("POST", `/accounts/${ACCOUNT}/delegation-keys/revoke`);
    await refused(content(blob), 403, "AuthenticationFailed");
  }));
});
