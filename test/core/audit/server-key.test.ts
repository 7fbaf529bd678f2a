import { readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { createServerKey } from '../../../lib/core/audit/server-key.js'
import { signNote } from '../../../lib/core/audit/signed-note.js'
import { readSignedText } from './note-reader.js'

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
