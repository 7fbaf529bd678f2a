import { generateKeyPairSync } from 'node:crypto'
import t from 'tap'
import { readCheckpoint, writeCheckpoint } from '../../lib/audit/checkpoint-text.js'
import { createSigner, signNote } from '../../lib/audit/signed-note.js'
import { hashLeaf } from '../../lib/audit/tree.js'
import { readSignedCheckpoint } from './note-reader.js'

/** The example of C2SP tlog-checkpoint. */
const example = 'example.com/behind-the-sofa\n20852163\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n'

t.test('reads and writes the example of the specification', async t => {
  const checkpoint = readCheckpoint(example)
  t.match(checkpoint, { origin: 'example.com/behind-the-sofa', size: 20_852_163, extensions: [] })
  t.equal(checkpoint && writeCheckpoint(checkpoint), example)
})

t.test('is read by an independent reader, with extensions', async t => {
  const pem = generateKeyPairSync('ed25519').privateKey.export({ type: 'pkcs8', format: 'pem' }).toString()
  const signer = createSigner('svc/1234/audit', pem)
  const root = hashLeaf('x')
  for (const extensions of [[], ['baseline 12']]) {
    const text = writeCheckpoint({ origin: 'svc/1234/audit', size: 4711, root, extensions })
    const read = readSignedCheckpoint(signNote(text, [signer]), signer.verifierKey)
    t.same(read, { size: 4711, root: root.toString('base64') })
    t.same(readCheckpoint(text), { origin: 'svc/1234/audit', size: 4711, root, extensions })
  }
})

t.test('does not read malformed texts', async t => {
  const wrong = [
    '',
    example.slice(0, -1),
    `\n${example}`,
    example.replace('20852163', '020852163'),
    example.replace('20852163', '-1'),
    example.replace('20852163', '2e3'),
    example.replace('20852163', '9999999999999999'),
    example.replace('=', ''),
    `${example}\n`
  ]
  for (const text of wrong) t.equal(readCheckpoint(text), null, JSON.stringify(text))
})
