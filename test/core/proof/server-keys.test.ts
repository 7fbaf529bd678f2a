import { generateKeyPairSync } from 'node:crypto'
import t from 'tap'
import { createSigner } from '../../../lib/core/audit/signed-note.js'
import { fingerprintOf, sshPublicKey } from '../../../lib/core/proof/dsse.js'
import { rawKey } from '../../../lib/core/proof/keys.js'
import { readTrustedKey, successorsOf } from '../../../lib/core/proof/server-keys.js'
import { parsePublicKey, rawPublicKey } from '../../../lib/base/signing-key.js'
import { newTestKey, successorOf } from '../../support/receipts.js'

t.test('a key is read in each form in which people hand it on', async t => {
  const { privateKey, publicKey } = generateKeyPairSync('ed25519')
  const fingerprint = fingerprintOf(publicKey)
  const pem = privateKey.export({ type: 'pkcs8', format: 'pem' }).toString()
  const forms = {
    'keys/server.pub': `${createSigner('svc/0123/audit', pem).verifierKey}\n`,
    PEM: publicKey.export({ type: 'spki', format: 'pem' }).toString(),
    SSH: `ssh-ed25519 ${sshPublicKey(publicKey).toString('base64')} svc@example`
  }
  for (const [what, form] of Object.entries(forms)) {
    const read = readTrustedKey(form)
    t.equal(read.fingerprint, fingerprint, what)
    t.equal(read.key && fingerprintOf(read.key), fingerprint, what)
  }
  t.strictSame(readTrustedKey(` ${fingerprint}\n`), { fingerprint, key: null })
  const other = generateKeyPairSync('rsa', { modulusLength: 2048 }).publicKey
  const bad = [
    '',
    'SHA256:short',
    pem,
    other.export({ type: 'spki', format: 'pem' }).toString(),
    'ssh-rsa AAAA',
    `ssh-ed25519 ${Buffer.concat([Buffer.from('before'), sshPublicKey(publicKey)]).toString('base64')}`,
    `ssh-ed25519 ${sshPublicKey(rawKey(Buffer.alloc(32))).toString('base64')}`,
    'a+b+c'
  ]
  for (const text of bad) t.throws(() => readTrustedKey(text), { code: 'bad_key' }, text.slice(0, 30))
  t.equal(parsePublicKey('AAAA'), null)
  t.equal(
    rawPublicKey(parsePublicKey(rawPublicKey(publicKey).toString('base64')) as never).toString('base64'),
    rawPublicKey(publicKey).toString('base64')
  )
})

t.test('a key is followed by those that it names, and by theirs', async t => {
  const [first, second, third, other] = [newTestKey(), newTestKey(), newTestKey(), newTestKey()]
  const statements = [successorOf(second, third), successorOf(first, second)]
  const names = (keys: Parameters<typeof fingerprintOf>[0][]): string[] => keys.map(fingerprintOf)
  t.strictSame(names(successorsOf(first.publicKey, statements)), [second.fingerprint, third.fingerprint])
  t.strictSame(names(successorsOf(third.publicKey, statements)), [], 'a key says nothing about earlier ones')
  t.strictSame(names(successorsOf(other.publicKey, statements)), [])
  const forged = { hubKey: other.bytes, signature: successorOf(first, second).signature }
  t.strictSame(names(successorsOf(first.publicKey, [forged])), [], 'a signature is that of its key')
  t.strictSame(names(successorsOf(first.publicKey, statements, new Set([second.fingerprint]))), [second.fingerprint])
  t.strictSame(names(successorsOf(first.publicKey, [successorOf(first, first)])), [])
})
