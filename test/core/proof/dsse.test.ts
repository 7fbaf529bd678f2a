/* The example of the DSSE protocol, and envelopes that were changed. */
import { createPublicKey, generateKeyPairSync } from 'node:crypto'
import t from 'tap'
import { Refusal } from '../../../lib/base/errors.js'
import {
  type Envelope,
  envelopeText,
  type EnvelopeSignature,
  fingerprintOf,
  isSignedBy,
  readEnvelope,
  sealed,
  signedBytes
} from '../../../lib/core/proof/dsse.js'
import { statementType } from '../../../lib/base/shared/statement-text.js'

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
