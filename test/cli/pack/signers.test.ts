/* How a key is read, and what it signs. test/cli/commands/keys.test.ts signs with keys of every kind. */
import { generateKeyPairSync } from 'node:crypto'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import type { Context } from '../../../lib/cli/command.js'
import { openSigner, readSbomFile, signStatement } from '../../../lib/cli/pack/signers.js'
import { publicKeyOf } from '../../../lib/core/proof/keys.js'
import { isMadeBy, readSignatures } from '../../../lib/core/proof/signers.js'

const { privateKey } = generateKeyPairSync('ed25519')
const pem = privateKey.export({ type: 'pkcs8', format: 'pem' }).toString()

function contextIn(cwd: string): { context: Context; notes: string[] } {
  const notes: string[] = []
  return { context: { cwd, output: { note: (line: string) => notes.push(line) } } as unknown as Context, notes }
}

t.test('a key of the environment and one of a file sign the statement', async t => {
  const dir = t.testdir({ project: {}, 'ana.pem': pem })
  const { context, notes } = contextIn(join(dir, 'project'))
  const signers = [await openSigner(context, pem, 'dist'), await openSigner(context, '../ana.pem', 'dist')]
  const signable = {
    projectId: 'proj_shop',
    tree: { treeSha256: 'a'.repeat(64), entries: [] },
    fields: {},
    message: null,
    provenance: null
  }
  const { statement = '', signatures = [] } = await signStatement(
    { signers, alsoFor: [], days: 1, sbom: null },
    signable,
    context
  )
  const bytes = Buffer.from(statement)
  const made = readSignatures(signatures, bytes)
  t.strictSame(
    made.map(each => isMadeBy(each, bytes, publicKeyOf(privateKey))),
    [true, true]
  )
  t.match(notes[0], /^Signed tree aaaa…aa \(0 files\) as SVC_SIGNING_KEY SHA256:/)
  t.match(notes[1], /^Signed tree aaaa…aa \(0 files\) as ana\.pem SHA256:/)
})

t.test('a key in the project or in its output, and one that cannot be read, are refused', async t => {
  const dir = t.testdir({ project: { 'ana.pem': pem } })
  const { context } = contextIn(join(dir, 'project'))
  await t.rejects(openSigner(context, 'ana.pem', 'dist'), { code: 'key_in_project' })
  mkdirSync(join(dir, 'output'))
  writeFileSync(join(dir, 'output', 'bo.pem'), pem)
  await t.rejects(openSigner(context, '../output/bo.pem', '../output'), { code: 'key_in_project' })
  await t.rejects(openSigner(context, '../none.pem', 'dist'), { code: 'key_unreadable' })
})

t.test('a list of components that cannot be read is refused', async t => {
  const { context } = contextIn(t.testdir({}))
  await t.rejects(readSbomFile(context, 'none.json'), { message: /Cannot read/ })
})
