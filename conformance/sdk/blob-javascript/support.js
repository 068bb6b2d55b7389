"use strict";
// What the tests share: clients, containers that clean up after themselves, random bytes, refusals.

const { createHash } = require("node:crypto");
const {
  AccountSASPermissions, AccountSASResourceTypes, AccountSASServices, BlobClient, BlobSASPermissions, BlobServiceClient,
  ContainerClient, ContainerSASPermissions, StorageSharedKeyCredential, generateAccountSASQueryParameters,
  generateBlobSASQueryParameters,
} = require("@azure/storage-blob");
const {
  ACCOUNT, ENDPOINT, KEY, SECONDARY, WRONG_KEY, collect, inMinutes, refusedBy, uniqueName,
} = require("../shared/server");

const CREDENTIAL = new StorageSharedKeyCredential(ACCOUNT, KEY);
const CONNECTION_STRING =
  `DefaultEndpointsProtocol=http;AccountName=${ACCOUNT};AccountKey=${KEY};BlobEndpoint=${ENDPOINT};`;
const OPTIONS = { retryOptions: { maxTries: 1 } };
const KIB = 1024;

const service = new BlobServiceClient(ENDPOINT, CREDENTIAL, OPTIONS);

/** A test body that is given new, empty containers, as many as it has parameters. */
function withContainer(body) {
  return async () => {
    const containers = [];
    try {
      for (let number = 0; number < body.length; number++) {
        const container = service.getContainerClient(uniqueName());
        await container.create();
        containers.push(container);
      }
      await body(...containers);
    } finally {
      for (const container of containers) await container.delete();
    }
  };
}

/** Bytes that look random and are the same in every run. */
function content(size, seed = 1) {
  const pieces = [];
  for (let number = 0; number * 64 < size; number++) pieces.push(createHash("sha512").update(`${seed} ${number}`).digest());
  return Buffer.concat(pieces).subarray(0, size);
}

function md5(data) {
  return createHash("md5").update(data).digest("base64");
}

/** A client of a new block blob. */
async function put(container, name, data = "content", options = {}) {
  const blob = container.getBlockBlobClient(name);
  await blob.upload(data, Buffer.byteLength(data), options);
  return blob;
}

async function read(blob, ...place) {
  const { readableStreamBody } = await blob.download(...place);
  return Buffer.concat(await collect(readableStreamBody));
}

async function text(blob, ...place) {
  return (await read(blob, ...place)).toString();
}

async function names(container, options) {
  return (await collect(container.listBlobsFlat(options))).map((blob) => blob.name);
}

function blobSas(blob, permissions, options = {}) {
  const values = { containerName: blob.containerName, blobName: blob.name, ...options };
  if (permissions) Object.assign(values, { permissions: BlobSASPermissions.parse(permissions), expiresOn: options.expiresOn ?? inMinutes(10) });
  return generateBlobSASQueryParameters(values, options.credential ?? CREDENTIAL).toString();
}

function containerSas(container, permissions, options = {}) {
  const values = { containerName: container.containerName, ...options };
  if (permissions) Object.assign(values, { permissions: ContainerSASPermissions.parse(permissions), expiresOn: inMinutes(10) });
  return generateBlobSASQueryParameters(values, CREDENTIAL).toString();
}

function accountSas(permissions, types) {
  return generateAccountSASQueryParameters({
    permissions: AccountSASPermissions.parse(permissions), resourceTypes: AccountSASResourceTypes.parse(types).toString(),
    services: AccountSASServices.parse("b").toString(), expiresOn: inMinutes(10),
  }, CREDENTIAL).toString();
}

function blobWith(blob, token) {
  return new BlobClient(`${blob.url}?${token}`, undefined, OPTIONS);
}

function containerWith(container, token) {
  return new ContainerClient(`${container.url}?${token}`, undefined, OPTIONS);
}

/** The address of a blob for a copy that reads it with a token. */
function source(blob) {
  return `${blob.url}?${blobSas(blob, "r")}`;
}

// Of an answer without a body, the client does not look for the code.
const refused = refusedBy("RestError", (error) => error.code ?? error.response.headers.get("x-ms-error-code"));

module.exports = {
  ACCOUNT, CONNECTION_STRING, CREDENTIAL, ENDPOINT, KIB, OPTIONS, SECONDARY, WRONG_KEY,
  accountSas, blobSas, blobWith, collect, containerSas, containerWith, content, inMinutes, md5, names, put, read, refused,
  service, source, text, uniqueName, withContainer,
};
