// A real OpenID provider: `oidc-provider`, which is certified. Clients get tokens by their secret (client credentials), as JWT for the
// audience that they ask for. Besides there is /control/, for tests:
//
//   POST /control/rotate   a new key signs from now on; the old ones stay known
//   POST /control/forget   only the key that signs stays known
//
//   node provider.mjs --keys FILE [--port PORT] [--cert FILE --key FILE]
//
// Keys are kept in FILE, so that a provider that was stopped and started has them again. The first line of its output is JSON:
// {"issuer": "..."}.
import { randomUUID } from "node:crypto";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { createServer as createSecureServer } from "node:https";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import { parseArgs } from "node:util";

// Installed elsewhere, and modules are not looked for in NODE_PATH.
const require = createRequire(process.env.PROVIDER_MODULES + "/");
const load = async (name) => await import(pathToFileURL(require.resolve(name)).href);
const { Provider } = await load("oidc-provider");
const { exportJWK, generateKeyPair } = await load("jose");

const { values: options } = parseArgs({
  options: {
    keys: { type: "string" },
    port: { type: "string", default: "0" },
    cert: { type: "string" },
    key: { type: "string" },
  },
});

const ALGORITHMS = ["RS256", "PS256", "ES256", "EdDSA"];

async function newKey(alg) {
  const { privateKey } = await generateKeyPair(alg, { extractable: true });
  return { ...(await exportJWK(privateKey)), kid: randomUUID(), use: "sig", alg };
}

async function newKeys() {
  return await Promise.all(ALGORITHMS.map(newKey));
}

// The keys that sign come first.
let keys = existsSync(options.keys) ? JSON.parse(readFileSync(options.keys, "utf8")) : await newKeys();
let provider;

function begin(issuer) {
  writeFileSync(options.keys, JSON.stringify(keys), { mode: 0o600 });
  provider = new Provider(issuer, {
    jwks: { keys },
    clients: ALGORITHMS.map((alg) => ({
      client_id: `app-${alg}`,
      client_secret: "a secret of tests, which is long enough",
      grant_types: ["client_credentials"],
      response_types: [],
      redirect_uris: [],
      id_token_signed_response_alg: alg,
    })),
    features: {
      clientCredentials: { enabled: true },
      devInteractions: { enabled: false },
      resourceIndicators: {
        enabled: true,
        getResourceServerInfo: (_ctx, resource, client) => ({
          scope: "storage",
          audience: resource,
          accessTokenFormat: "jwt",
          accessTokenTTL: 600,
          jwt: { sign: { alg: client.idTokenSignedResponseAlg } },
        }),
      },
    },
    extraTokenClaims: () => ({ groups: ["data-team"] }),
  });
}

async function answer(request, response) {
  if (request.url.startsWith("/control/")) {
    const fresh = request.url === "/control/rotate" ? await newKeys() : [];
    keys = fresh.length > 0 ? [...fresh, ...keys] : keys.slice(0, ALGORITHMS.length);
    begin(provider.issuer);
    response.end("{}");
    return;
  }
  await provider.callback()(request, response);
}

const secure = options.cert !== undefined;
const files = secure ? { cert: readFileSync(options.cert), key: readFileSync(options.key) } : {};
const server = secure ? createSecureServer(files, answer) : createServer(answer);
server.listen(Number(options.port), "127.0.0.1", () => {
  const issuer = `${secure ? "https" : "http"}://localhost:${server.address().port}`;
  begin(issuer);
  process.stdout.write(JSON.stringify({ issuer }) + "\n");
});
