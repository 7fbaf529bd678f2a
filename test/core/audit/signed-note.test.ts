import t from 'tap'
import { generateKeyPairSync } from 'node:crypto'
import {
  createSigner,
  readCheckpoint,
  readNote,
  readVerifierKey,
  type SignedNote,
  signNote,
  type Verifier,
  writeCheckpoint,
  createServerKey
} from '../../../lib/core/audit/signed-note.js'
import { hashLeaf } from '../../../lib/core/audit/tree.js'
import { readSignedCheckpoint, readSignedText } from './note-reader.js'
import { readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

/** The example of Go's package golang.org/x/mod/sumdb/note. */
const known = {
  key: 'PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW',
  note:
    'If you think cryptography is the answer to your problem,\n' +
    "then you don't know what your problem is.\n\n" +
    '— PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM=\n'
}

const aKey = (): string => generateKeyPairSync('ed25519').privateKey.export({ type: 'pkcs8', format: 'pem' }).toString()
const noteOf = (text: string): SignedNote => readNote(text) as SignedNote
const verifierOf = (key: string): Verifier => readVerifierKey(key) as Verifier

t.test('reads the note of another implementation', async t => {
  const verifier = verifierOf(known.key)
  t.match(verifier, { name: 'PeterNeumann', keyId: 'c74f20a3' })
  t.equal(verifier.verifies(noteOf(known.note)), true)
  t.equal(verifier.verifies(noteOf(known.note.replace('answer', 'Answer'))), false)
})

t.test('signs notes that another implementation reads, with one key or several', async t => {
  const [first, second] = [createSigner('svc/a/audit', aKey()), createSigner('svc/a/audit', aKey())]
  const note = signNote('one\ntwo\n', [first, second])
  t.equal(readSignedText(note, first.verifierKey), 'one\ntwo\n')
  t.equal(readSignedText(note, second.verifierKey), 'one\ntwo\n')
  t.ok(verifierOf(first.verifierKey).verifies(noteOf(note)))
  const third = createSigner('svc/a/audit', aKey())
  t.notOk(verifierOf(third.verifierKey).verifies(noteOf(note)), 'not signed by a third key')
  t.throws(() => readSignedText(note, third.verifierKey))
})

t.test('rejects a note with a forged signature beside a valid one', async t => {
  const signer = createSigner('svc/a/audit', aKey())
  const [one, other] = [signNote('one\n', [signer]), signer.line('other\n')]
  t.notOk(verifierOf(signer.verifierKey).verifies(noteOf(one + other)))
})

t.test('does not read malformed notes', async t => {
  const wrong = ['', 'text\n', 'text\n\n', known.note.slice(0, -1), known.note.replace('— ', '- '), `${known.note}x\n`]
  for (const note of [...wrong, known.note.replace('x08go', 'x0*go'), 'a'.repeat(70_000) + known.note])
    t.equal(readNote(note), null)
})

t.test('does not read malformed keys and keys of other algorithms', async t => {
  const { key } = known
  for (const wrong of ['', 'name', key.replace('c74f20a3', 'c74f20a4'), key.replace('+AR', '+AB'), `${key}AAAA`])
    t.equal(readVerifierKey(wrong), null)
  const rsa = generateKeyPairSync('rsa', { modulusLength: 2048 })
  t.throws(() => createSigner('a', rsa.privateKey.export({ type: 'pkcs8', format: 'pem' }).toString()))
})

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

t.test('creates the key at the first use, readable by its owner only', async t => {
  const directory = join(t.testdir(), 'keys')
  const first = await createServerKey(directory).signers(null)
  const again = await createServerKey(directory).signers(null)
  t.match(first.origin, /^svc\/[0-9a-f]{16}\/audit$/)
  t.equal(again.signers[0]?.verifierKey, first.signers[0]?.verifierKey, 'the same at the next start')
  t.equal(statSync(join(directory, 'server.ed25519')).mode & 0o777, 0o600)
  t.equal(readFileSync(join(directory, 'server.pub'), 'utf8'), `${first.signers[0]?.verifierKey}\n`)
})

t.test('keeps the name of the tree after the first key', async t => {
  const { origin, signers } = await createServerKey(join(t.testdir(), 'keys')).signers('svc/abc/audit')
  t.equal(origin, 'svc/abc/audit')
  t.match(signers[0]?.verifierKey, /^svc\/abc\/audit\+/)
})

t.test('signs with both keys after a rotation', async t => {
  const directory = join(t.testdir(), 'keys')
  const key = createServerKey(directory)
  const { origin } = await key.signers(null)
  const { before, after } = await key.rotate(origin)
  t.not(before.verifierKey, after.verifierKey)
  for (const one of [key, createServerKey(directory)]) {
    const { signers } = await one.signers(origin)
    t.same(
      signers.map(({ verifierKey }) => verifierKey),
      [after.verifierKey, before.verifierKey]
    )
    const note = signNote('text\n', signers)
    t.equal(readSignedText(note, before.verifierKey), 'text\n')
    t.equal(readSignedText(note, after.verifierKey), 'text\n')
  }
})

t.test('refuses a file that is not a key, and never replaces it', async t => {
  const directory = t.testdir({ 'server.ed25519': 'x' })
  const key = createServerKey(directory)
  await t.rejects(key.signers(null), { code: 'server_key', kind: 'unavailable' })
  await t.rejects(key.signers('svc/abc/audit'), { code: 'server_key' })
  t.equal(readFileSync(join(directory, 'server.ed25519'), 'utf8'), 'x')

  await t.test('and works after it was put right', async t => {
    const other = join(t.testdir(), 'keys')
    const { signers } = await createServerKey(other).signers(null)
    writeFileSync(join(directory, 'server.ed25519'), readFileSync(join(other, 'server.ed25519')))
    t.equal((await key.signers(null)).signers[0]?.verifierKey, signers[0]?.verifierKey)
  })
})
