/* Statements: written and read, in-toto's own form, and what is none. */
import t from 'tap'
import { type StatedOrigin, statementType } from '../../../lib/base/shared/statement-text.js'
import {
  readStatement,
  writeStatement,
  type Envelope,
  envelopeText,
  type EnvelopeSignature,
  fingerprintOf,
  isSignedBy,
  readEnvelope,
  sealed,
  signedBytes
} from '../../../lib/core/proof/statement.js'
import type { Statement } from '../../../lib/model/statement.js'
import { createPublicKey, generateKeyPairSync } from 'node:crypto'
import { Refusal } from '../../../lib/base/errors.js'

const statement: Statement = {
  name: 'shop',
  treeSha256: 'a'.repeat(64),
  projectId: 'proj_abcdefghijklmnop',
  alsoFor: ['proj_qrstuvwxyzabcdef'],
  message: 'New prices',
  scripts: { preDeploy: 'b'.repeat(64) },
  env: ['STAGE'],
  notAfter: '2027-01-01T00:00:00.000Z',
  sequence: 184,
  builder: 'svc/1.2 ci-runner-3',
  sbomSha256: 'c'.repeat(64)
}
const origin: StatedOrigin = {
  commit: 'd'.repeat(40),
  repository: 'https://example.com/shop.git',
  invocationId: '17',
  startedOn: '2026-12-01T00:00:00.000Z'
}
const text = writeStatement(statement, origin).toString()

t.strictSame(readStatement(Buffer.from(text)), statement, 'a statement is read as it was written')
t.match(text, '"resolvedDependencies":[{"uri":"git+https://example.com/shop.git"')
const bare: Statement = {
  ...statement,
  alsoFor: [],
  message: null,
  scripts: {},
  env: [],
  notAfter: null,
  sbomSha256: null
}
t.strictSame(readStatement(writeStatement(bare, { ...origin, commit: null, invocationId: null })), bare)

const bad: Record<string, string | Buffer> = {
  'no JSON': '{',
  'no UTF-8': Buffer.from([0x22, 0xff, 0x22]),
  'a mark before it': `\ufeff${text}`,
  'another type': text.replace('Statement/v1', 'Statement/v0.1'),
  'another predicate': text.replace('provenance/v1', 'provenance/v0.2'),
  'another build': text.replace('urn:svc:push:v1', 'urn:svc:push:v2'),
  'two subjects': text.replace('"subject":[{', '"subject":[{"name":"x","digest":{"sha256":""}},{'),
  'no digest': text.replace('"sha256":"aaaa', '"sha512":"aaaa'),
  'a key twice': text.replace('"projectId":', '"projectId":"proj_other","projectId":'),
  'a key twice, once with escapes': text.replace('"projectId":', '"projec\\u0074Id":"proj_other","projectId":'),
  'a script of another name': text.replace('"preDeploy"', '"rollback"'),
  'a negative sequence': text.replace('"sequence":184', '"sequence":-1'),
  'a time without zone': text.replace('2027-01-01T00:00:00.000Z', '2027-01-01T00:00:00'),
  'too deep': `{"a":${'['.repeat(100)}${']'.repeat(100)}}`,
  'too long': text + ' '.repeat(256 * 1024)
}
for (const [name, given] of Object.entries(bad))
  t.throws(() => readStatement(Buffer.from(given)), { code: 'signature_bad' }, name)

/* The example of the DSSE protocol, and envelopes that were changed. */

const { privateKey, publicKey } = generateKeyPairSync('ed25519')
const payload = Buffer.from('{"a": 1}\n')
const envelope = sealed(statementType, payload, [privateKey])
const only = (of: Envelope): EnvelopeSignature => of.signatures[0] as EnvelopeSignature

t.equal(
  signedBytes('http://example.com/HelloWorld', Buffer.from('hello world')).toString(),
  'DSSEv1 29 http://example.com/HelloWorld 11 hello world',
  'the bytes are those of the example of the protocol'
)
t.equal(isSignedBy(envelope, only(envelope), publicKey), true, 'a signature is that of its key')
t.equal(isSignedBy(envelope, only(envelope), generateKeyPairSync('ed25519').publicKey), false, '… and of no other')
t.match(fingerprintOf(publicKey), /^SHA256:[A-Za-z0-9+/]{43}$/, 'a key has the name that ssh-keygen prints')
t.equal(fingerprintOf(publicKey), fingerprintOf(privateKey), '… and so has its private key')

t.test('reading', async t => {
  const text = envelopeText(envelope)
  const read = readEnvelope(JSON.parse(text))
  t.strictSame(read, envelope, 'an envelope is read as it was written')
  const url = text.replaceAll('+', '-').replaceAll('/', '_').replace('application_vnd.in-toto-json', statementType)
  t.equal(isSignedBy(readEnvelope(JSON.parse(url)), only(read), publicKey), true, 'both alphabets are read')
  const bad = [
    null,
    [],
    { ...JSON.parse(text), signatures: [] },
    { ...JSON.parse(text), payload: 'a b' },
    { ...JSON.parse(text), signatures: Array.from({ length: 17 }, () => ({ sig: '' })) }
  ]
  for (const value of bad)
    t.throws(() => readEnvelope(value), Refusal, `refused: ${JSON.stringify(value).slice(0, 60)}`)
})

t.test('what was changed', async t => {
  const changes: Envelope[] = [
    { ...envelope, payloadType: 'text/plain' },
    { ...envelope, payload: Buffer.from('{"a": 2}\n') },
    { ...envelope, payload: Buffer.concat([payload, Buffer.from(' ')]) }
  ]
  for (const changed of changes) t.equal(isSignedBy(changed, only(envelope), publicKey), false)
  for (let bit = 0; bit < 512; bit++) {
    const sig = Buffer.from(only(envelope).sig)
    sig[bit >> 3] = (sig[bit >> 3] as number) ^ (1 << (bit & 7))
    if (isSignedBy(envelope, { keyid: '', sig }, publicKey)) t.fail(`bit ${bit} of the signature does not count`)
  }
  t.equal(isSignedBy(envelope, { keyid: '', sig: Buffer.alloc(63) }, publicKey), false, 'a short signature is none')
})

t.equal(fingerprintOf(createPublicKey(privateKey)), only(envelope).keyid, 'the signature names its key')
