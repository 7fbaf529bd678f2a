/* SSH signatures: those of ssh-keygen, our own that ssh-keygen checks, and those of a key in hardware. */
import { createHash, generateKeyPairSync, sign } from 'node:crypto'
import { readFileSync } from 'node:fs'
import t from 'tap'
import { Refusal } from '../../../lib/base/errors.js'
import { sshString } from '../../../lib/core/proof/statement.js'
import { readPublicKey, minisignName } from '../../../lib/core/proof/keys.js'
import {
  isSshSigned,
  readOpensshKey,
  readSshSignature,
  sshSigned,
  isMinisign,
  isMinisigned,
  minisigned,
  readMinisignKey,
  readMinisignSignature
} from '../../../lib/core/proof/signature-formats.js'
import { signingNamespace } from '../../../lib/model/statement.js'
import {
  isAcceptedBySsh,
  missing,
  signBySsh,
  sshKey,
  isAcceptedByMinisign,
  minisignKey,
  signByMinisign
} from '../../support/signing-tools.js'

const message = Buffer.from('{"_type":"https://in-toto.io/Statement/v1"}')

t.test('signatures of ssh-keygen', { skip: missing('ssh-keygen') }, async t => {
  const directory = t.testdir()
  const ana = sshKey(directory, 'ana')
  const signature = readSshSignature(signBySsh(ana.path, message))
  t.equal(signature.key.fingerprint, readPublicKey(ana.publicText).fingerprint)
  t.equal(isSshSigned(message, signature), true)
  t.equal(isSshSigned(Buffer.concat([message, Buffer.from(' ')]), signature), false, 'other bytes are not signed')
  t.equal(isSshSigned(message, readSshSignature(signBySsh(ana.path, message, 'git'))), false, 'nor is a commit of git')
  t.throws(() => readSshSignature(signBySsh(sshKey(directory, 'rsa', { type: 'rsa' }).path, message)), Refusal)

  const read = readOpensshKey(readFileSync(ana.path, 'utf8'))
  t.equal(read?.comment, 'ana@laptop')
  if (read === null) return
  const own = sshSigned(message, read.key)
  t.equal(isSshSigned(message, readSshSignature(own)), true)
  t.equal(isAcceptedBySsh(directory, ana.publicText, { message, signature: own }), true, 'ssh-keygen accepts our own')
  t.equal(isAcceptedBySsh(directory, ana.publicText, { message: Buffer.from('other'), signature: own }), false)
  t.equal(own, signBySsh(ana.path, message), '… and writes the same')
  const encrypted = sshKey(directory, 'encrypted', { password: 'correct horse' })
  t.equal(readOpensshKey(readFileSync(encrypted.path, 'utf8')), null, 'an encrypted key is one for ssh-keygen')
})

/** A key in hardware (PROTOCOL.u2f): what it signs is that of another key, with flags and a counter. */
function hardware(flags: number, change: (counter: Buffer) => Buffer = counter => counter) {
  const { privateKey, publicKey } = generateKeyPairSync('ed25519')
  const type = sshString(Buffer.from('sk-ssh-ed25519@openssh.com'))
  const raw = publicKey.export({ type: 'spki', format: 'der' }).subarray(12)
  const blob = Buffer.concat([type, sshString(raw), sshString(Buffer.from('ssh:'))])
  const parts = [Buffer.from(signingNamespace), Buffer.alloc(0), Buffer.from('sha512')]
  const digest = createHash('sha512').update(message).digest()
  const covered = Buffer.concat([Buffer.from('SSHSIG'), ...[...parts, digest].map(sshString)])
  const presence = Buffer.from([flags, 0, 0, 0, 7])
  const hash = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest()
  const sig = sign(null, Buffer.concat([hash(Buffer.from('ssh:')), presence, hash(covered)]), privateKey)
  const inner = Buffer.concat([type, sshString(sig), change(presence)])
  const head = Buffer.concat([Buffer.from('SSHSIG'), Buffer.from([0, 0, 0, 1])])
  const bytes = Buffer.concat([head, ...[blob, ...parts, inner].map(sshString)])
  const lines = bytes.toString('base64').match(/.{1,70}/g) ?? []
  const signature = ['-----BEGIN SSH SIGNATURE-----', ...lines, '-----END SSH SIGNATURE-----', ''].join('\n')
  return { signature, publicText: `sk-ssh-ed25519@openssh.com ${blob.toString('base64')}` }
}

t.test('signatures of a key in hardware', async t => {
  const read = (...given: Parameters<typeof hardware>) => readSshSignature(hardware(...given).signature)
  t.equal(isSshSigned(message, read(1)), true, 'flags and counter are part of what is signed')
  t.equal(isSshSigned(message, read(0)), false, 'somebody must have touched the key')
  t.equal(isSshSigned(message, read(5)), true, 'a PIN was asked for, too')
  t.equal(
    isSshSigned(
      message,
      read(1, () => Buffer.from([1, 0, 0, 0, 8]))
    ),
    false,
    'another counter is not signed'
  )
  t.equal(
    isSshSigned(
      message,
      read(0, () => Buffer.from([1, 0, 0, 0, 7]))
    ),
    false,
    'nor are other flags'
  )
  t.throws(() => read(1, presence => presence.subarray(1)), Refusal)
  t.throws(() => read(1, presence => Buffer.concat([presence, presence])), Refusal)
})

t.test('ssh-keygen agrees about a key in hardware', { skip: missing('ssh-keygen') }, async t => {
  const directory = t.testdir()
  const changed = (counter: number) => () => Buffer.from([1, 0, 0, 0, counter])
  for (const [name, given] of [
    ['touched', hardware(1)],
    ['another counter', hardware(1, changed(8))],
    ['other flags', hardware(0, changed(7))],
    ['more after it', hardware(1, presence => Buffer.concat([presence, Buffer.from([0])]))]
  ] as const) {
    const accepted = isAcceptedBySsh(directory, given.publicText, { message, signature: given.signature })
    const ours = (): boolean => {
      try {
        return isSshSigned(message, readSshSignature(given.signature))
      } catch {
        return false
      }
    }
    t.equal(accepted, name === 'touched', name)
    t.equal(ours(), accepted, name)
  }
})

t.test('what is no signature', async t => {
  for (const text of ['', 'x', '-----BEGIN SSH SIGNATURE-----\n-----END SSH SIGNATURE-----', 'U1NIU0lH'.repeat(40_000)])
    t.throws(() => readSshSignature(text), Refusal, text.slice(0, 40))
})

/* Signatures of minisign: its own, and ours, which minisign checks. */

t.test('signatures of minisign', { skip: missing('minisign') }, async t => {
  const directory = t.testdir()
  const ana = minisignKey(directory, 'ana')
  const bo = minisignKey(directory, 'bo')
  const { key, minisignId, comment } = readPublicKey(ana.publicText)
  const text = signByMinisign(directory, ana.path, message)
  t.equal(isMinisign(text), true)
  const signature = readMinisignSignature(text)
  t.strictSame(signature.keyId, minisignId, 'it names its key')
  t.match(ana.publicText, comment, 'an id is written as minisign does')
  t.equal(minisignName(signature.keyId), comment)
  t.equal(minisignName(Buffer.from('0100000000607a00', 'hex')), '7A600000000001', 'without leading zeros')
  t.equal(isMinisigned(message, signature, key), true)
  t.equal(isMinisigned(Buffer.from('other'), signature, key), false)
  t.equal(isMinisigned(message, signature, readPublicKey(bo.publicText).key), false)
  t.equal(isMinisigned(message, { ...signature, trustedComment: 'timestamp:0' }, key), false, 'the comment counts')
  t.throws(
    () => readMinisignSignature(signByMinisign(directory, ana.path, message, { legacy: true })),
    Refusal,
    'the legacy form is refused'
  )
  const secret = readMinisignKey(ana.privateText)
  const own = minisigned(message, secret, 'timestamp:1\tfile:shop')
  t.equal(isMinisigned(message, readMinisignSignature(own), key), true)
  t.equal(isAcceptedByMinisign(directory, ana.publicPath, { message, signature: own }), true, 'minisign accepts ours')
  t.equal(isAcceptedByMinisign(directory, bo.publicPath, { message, signature: own }), false)
})

t.test('what is no signature, and no key', async t => {
  for (const text of ['', 'untrusted comment: x', 'untrusted comment: x\nAAAA\ntrusted comment: y\nAAAA\n']) {
    t.throws(() => readMinisignSignature(text), Refusal)
    t.throws(() => readMinisignKey(text), Refusal)
  }
})
