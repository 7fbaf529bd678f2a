/* Signatures of minisign: its own, and ours, which minisign checks. */
import t from 'tap'
import { Refusal } from '../../../lib/base/errors.js'
import { minisignName, readPublicKey } from '../../../lib/core/proof/keys.js'
import {
  isMinisign,
  isMinisigned,
  minisigned,
  readMinisignKey,
  readMinisignSignature
} from '../../../lib/core/proof/minisign.js'
import { isAcceptedByMinisign, minisignKey, missing, signByMinisign } from '../../support/signing-tools.js'

const message = Buffer.from('{"_type":"https://in-toto.io/Statement/v1"}')

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
