import { chmodSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { generateKeyPairSync, sign, verify, type KeyObject } from 'node:crypto'
import t from 'tap'
import { Refusal } from '../../lib/base/errors.js'
import { openSigningKey, parsePublicKey } from '../../lib/base/signing-key.js'

const unusable = (why: string): Refusal => new Refusal('unavailable', 'unusable', why)

t.test('a key is created once, and only its owner can read it', async t => {
  const path = join(t.testdir(), 'keys', 'a.ed25519')
  const made = await openSigningKey(path, unusable)
  const again = await openSigningKey(path, unusable)
  t.equal(again.publicKey, made.publicKey)
  t.equal(statSync(path).mode & 0o777, 0o600)
  const signature = sign(null, Buffer.from('text'), made.key)
  t.ok(verify(null, Buffer.from('text'), parsePublicKey(again.publicKey) as KeyObject, signature))
})

t.test('a file that is no key is refused, and kept', async t => {
  const path = join(t.testdir(), 'a.ed25519')
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  for (const [text, why] of [
    ['no key', /does not contain a key/],
    [privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(), /not an Ed25519 key/]
  ] as const) {
    writeFileSync(path, text)
    await t.rejects(openSigningKey(path, unusable), { code: 'unusable', message: why })
  }
  chmodSync(path, 0o600)
})

t.test('a public key is 32 bytes in base64', async t => {
  for (const text of ['', 'AAAA', 'x'.repeat(44), Buffer.alloc(33).toString('base64')]) {
    t.equal(parsePublicKey(text), null, text)
  }
})
