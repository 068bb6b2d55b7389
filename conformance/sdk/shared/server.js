"use strict";
// How JavaScript's tests reach the server, what they call things there, and refusals.

const assert = require("node:assert/strict");
const { randomUUID } = require("node:crypto");

const ENDPOINT = process.env.TEPUI_ENDPOINT;
// Nodes that share a store keep messages hidden for so much longer.
const CLOCK_TOLERANCE_MS = Number(process.env.TEPUI_CLOCK_TOLERANCE_MS ?? 0);
const SECONDARY = `${ENDPOINT}-secondary`;
const ACCOUNT = "devstoreaccount1";
const KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
const WRONG_KEY = Buffer.from("wrong key ".repeat(6)).toString("base64");

function uniqueName(prefix = "sdk") {
  return prefix + randomUUID().replaceAll("-", "").slice(0, 20);
}

function inMinutes(minutes) {
  return new Date(Date.now() + minutes * 60_000);
}

async function collect(items) {
  const found = [];
  for await (const item of items) found.push(item);
  return found;
}

/**
 * What checks that a promise fails with a status and code, and returns the error for more questions.
 * A suite says what its client calls such errors, and where in them the code is.
 */
function refusedBy(errorName, codeOf = (error) => error.code) {
  return async (promise, statusCode, code) => {
    try {
      await promise;
    } catch (error) {
      if (error.name !== errorName) throw error;
      assert.deepEqual({ status: error.statusCode, code: codeOf(error) }, { status: statusCode, code });
      return error;
    }
    assert.fail(`not refused, but should be: ${statusCode} ${code}`);
  };
}

module.exports = { ACCOUNT, CLOCK_TOLERANCE_MS, ENDPOINT, KEY, SECONDARY, WRONG_KEY, collect, inMinutes, refusedBy, uniqueName };
