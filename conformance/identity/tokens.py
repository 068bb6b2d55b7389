"""Tokens of an issuer that the server knows by a file of keys: good ones, and one for each way in which a token can be bad."""

import json
import time
from pathlib import Path

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

ISSUER = "https://login.test/storage"
TENANT = "5b0f4b3e-7a55-4b07-8a26-0d6d4c1f2e11"
AUDIENCE = "https://storage.azure.com"
CHALLENGE = f"Bearer authorization_uri=https://login.microsoftonline.com/{TENANT}/oauth2/authorize resource_id={AUDIENCE}"
# Object ids by what their owners may do.
PRINCIPALS = {
    "contributor": "11111111-1111-4111-8111-111111111111",
    "reader": "22222222-2222-4222-8222-222222222222",
    "nobody": "33333333-3333-4333-8333-333333333333",
    "member": "44444444-4444-4444-8444-444444444444",
}
GROUP = "data-team"


class Issuer:
    def __init__(self, folder):
        self.rsa = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self.ec = ec.generate_private_key(ec.SECP256R1())
        keys = [
            {**json.loads(RSAAlgorithm.to_jwk(self.rsa.public_key())), "kid": "rsa", "alg": "RS256", "use": "sig"},
            {**json.loads(ECAlgorithm.to_jwk(self.ec.public_key())), "kid": "ec", "alg": "ES256", "use": "sig"},
        ]
        self.keys_file = Path(folder) / "keys.json"
        self.keys_file.write_text(json.dumps({"keys": keys}))

    def token(self, owner="contributor", key=None, algorithm="RS256", kid="rsa", **changes):
        now = int(time.time())
        claims = {
            "iss": ISSUER, "aud": AUDIENCE, "oid": PRINCIPALS[owner], "sub": owner, "tid": TENANT,
            "iat": now - 10, "nbf": now - 10, "exp": now + 3600, **changes,
        }  # fmt: skip
        if owner == "member":
            claims["groups"] = [GROUP]
        claims = {name: value for name, value in claims.items() if value is not None}
        return jwt.encode(claims, key or self.rsa, algorithm=algorithm, headers={"kid": kid})

    def good(self):
        tokens = {owner: self.token(owner) for owner in PRINCIPALS}
        return {**tokens, "contributor-es256": self.token(key=self.ec, algorithm="ES256", kid="ec")}

    def refused(self):
        """Each with what the caller is told."""
        now = int(time.time())
        other = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        # What everybody knows of the key. The library refuses to take the key itself for a secret.
        public = str(self.rsa.public_key().public_numbers().n).encode()
        audience = "Audience validation failed. Audience did not match."
        issuer = "Issuer validation failed. Issuer did not match."
        signature = "Signature validation failed. Signature did not match."
        cases = [
            ("wrong audience", self.token(aud="https://graph.microsoft.com"), audience),
            ("audience of another account", self.token(aud="https://other.blob.core.windows.net"), audience),
            ("no audience", self.token(aud=None), audience),
            ("wrong issuer", self.token(iss="https://login.test/other"), issuer),
            ("expired", self.token(exp=now - 600, nbf=now - 4000, iat=now - 4000), "Lifetime validation failed. The token is expired."),
            ("not yet valid", self.token(nbf=now + 1800, exp=now + 3600), "Lifetime validation failed. The token is not yet valid."),
            ("signed by another key", self.token(key=other), signature),
            ("signed with the public key as a secret", self.token(key=public, algorithm="HS256"), signature),
            ("a key for another algorithm", self.token(key=self.ec, algorithm="ES256", kid="rsa"), signature),
            ("an unknown key", self.token(key=other, kid="unknown"), "Signature validation failed. The signing key is not known."),
            ("not a token", "not-a-token", "Token validation failed. The token is not a signed JWT."),
        ]
        return [{"name": name, "token": token, "detail": detail, "challenge": CHALLENGE} for name, token, detail in cases]

    def configuration(self):
        """The part of a configuration file that makes a server know the issuer, and who has which role."""
        text = f'[[issuer]]\nissuer = "{ISSUER}"\ntenant = "{TENANT}"\njwks-file = "{self.keys_file}"\n'
        for kind, principal in [("Contributor", f"oid:{PRINCIPALS['contributor']}"), ("Reader", f"oid:{PRINCIPALS['reader']}"), ("Contributor", f"group:{GROUP}")]:
            for service in ("Blob", "Queue", "Table"):
                text += f'[[role-assignment]]\nprincipal = "{principal}"\nrole = "Storage {service} Data {kind}"\nscope = "/devstoreaccount1"\n'
        return text
