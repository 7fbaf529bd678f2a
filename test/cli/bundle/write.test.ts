import t from 'tap'
import { createHash } from 'node:crypto'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { withBundle } from '../../../lib/cli/bundle/contents.js'
import {
  checkFree,
  entriesOf,
  writeBundle,
  needsOfAttached,
  partsOfAttached,
  readAttached,
  readKeysFile,
  verifySigners
} from '../../../lib/cli/bundle/write.js'
import { releaseArchive, releaseTree, releaseFiles, writeTestBundle } from '../../support/bundles.js'
import { readPublicKey } from '../../../lib/core/proof/keys.js'
import type { Statement } from '../../../lib/model/statement.js'
import { aKey, digestOf, signedBy, statementOf, type TestKey } from '../../support/signed-releases.js'
import { missing, sshKey } from '../../support/signing-tools.js'

const signal = new AbortController().signal
const about = {
  minServer: '1.0.0',
  needs: [],
  project: null,
  message: null,
  provenance: null,
  env: ['API_URL'],
  postDeployAsync: null
}

function sourceIn(directory: string) {
  const bytes = releaseArchive()
  const path = join(directory, 'archive.zip')
  writeFileSync(path, bytes)
  const archive = { path, bytes: bytes.length, sha256: createHash('sha256').update(bytes).digest('hex') }
  return { archive, parts: [['scripts/post', Buffer.from('restart')]] as const, about }
}

t.test('the same release gives the same bytes, and what was written is whole', async t => {
  const directory = t.testdir()
  const source = sourceIn(directory)
  const entries = await entriesOf(source.archive, signal)
  const texts: Buffer[] = []
  for (const name of ['a.svcb', 'b.svcb']) {
    const path = join(directory, name)
    const written = await writeBundle(source, { path, entries, splitBytes: null, signal })
    texts.push(readFileSync(path))
    t.match(written, { paths: [path], files: 2, bytes: texts[0]?.length })
    t.equal(
      written.sha256,
      createHash('sha256')
        .update(texts[0] as Buffer)
        .digest('hex')
    )
    await withBundle(path, async bundle => {
      await bundle.verify(signal)
      t.equal(String(await bundle.read('tree')), releaseTree())
      t.equal(bundle.manifest.tree.sha256, written.treeSha256)
      t.same(bundle.manifest.env, ['API_URL'])
    })
  }
  t.ok(texts[0]?.equals(texts[1] as Buffer))
})

t.test('nothing is left of a bundle that was not finished', async t => {
  const directory = t.testdir()
  const source = sourceIn(directory)
  const entries = await entriesOf(source.archive, signal)
  const path = join(directory, 'app.svcb')
  const interrupted = AbortSignal.abort(new Error('interrupted'))
  await t.rejects(writeBundle(source, { path, entries, splitBytes: null, signal: interrupted }), /interrupted/)
  t.same(readdirSync(directory), ['archive.zip'])
})

t.test('a bundle and its parts are not overwritten', async t => {
  const directory = t.testdir({ 'old.svcb': '', 'split.svcb.002': '', 'split.svcb.backup': '' })
  t.throws(() => checkFree(join(directory, 'old.svcb')), /"old\.svcb" exists\. Remove it, or name another --file/)
  t.throws(() => checkFree(join(directory, 'split.svcb')), /"split\.svcb\.002" exists/)
  checkFree(join(directory, 'new.svcb'))
  checkFree(join(directory, 'missing/new.svcb'))
})

/* Signatures of bundles, verified without a server: each wrong one is refused with its code. */

const [ana, mallory] = [aKey('ana'), aKey('mallory')]
const signer = ({ row }: TestKey, notAfter: string | null = null) => [
  { name: row.name, key: readPublicKey(row.public), notBefore: null, notAfter }
]
const now = '2026-06-01T00:00:00.000Z'

/** Returns the entries of a signed release. */
function signedParts(patch: Partial<Statement> = {}, by: TestKey = ana, files: Record<string, string> = releaseFiles) {
  const sent = signedBy(statementOf('proj_1', files, patch), by)
  return Object.fromEntries(partsOfAttached(sent).map(([name, bytes]) => [name, Buffer.from(bytes).toString()]))
}

t.test('what is attached is written and read', async t => {
  const path = join(t.testdir(), 'a.svcb')
  const { statement, signatures } = signedBy(statementOf('proj_1', releaseFiles), ...Array(11).fill(ana))
  const sent = { statement, signatures: signatures.map((each, at) => `${each}${at}`), sbom: Buffer.from('{}') }
  const parts = partsOfAttached(sent)
  writeTestBundle(path, {
    more: Object.fromEntries(parts.map(([name, bytes]) => [name, Buffer.from(bytes).toString()]))
  })
  t.same(await withBundle(path, readAttached), sent)
  writeTestBundle(path)
  t.same(await withBundle(path, readAttached), {})
  t.same([needsOfAttached({}), needsOfAttached(sent)], [[], ['signatures']])
})

t.test('a good signature says who signed, and for which projects', async t => {
  const path = join(t.testdir(), 'a.svcb')
  const post = 'restart'
  const patch = { alsoFor: ['proj_2'], scripts: { postDeploy: digestOf(post) }, sbomSha256: digestOf('{}') }
  writeTestBundle(path, { more: { ...signedParts(patch), 'sbom.json': '{}', 'scripts/post': post } })
  const found = await withBundle(path, bundle => verifySigners(bundle, signer(ana), now))
  t.same(found, {
    signedBy: [{ name: 'ana', fingerprint: ana.row.fingerprint }],
    strangers: [],
    projects: ['proj_1', 'proj_2'],
    notAfter: null
  })
})

t.test('what was not signed so is refused', async t => {
  const path = join(t.testdir(), 'a.svcb')
  const good = signedParts()
  const rows: Array<[string, Record<string, string>, string]> = [
    ['nothing', {}, 'signature_missing'],
    ['no signatures', { 'statement.json': good['statement.json'] as string }, 'signature_missing'],
    [
      'another statement',
      { ...good, 'statement.json': signedParts({ sequence: 7 })['statement.json'] as string },
      'signature_bad'
    ],
    ['a stranger', signedParts({}, mallory), 'signature_unknown_key'],
    ['other files', signedParts({}, ana, { 'index.html': 'evil' }), 'tree_differs'],
    ['a script', { ...good, 'scripts/pre': 'rm -rf ~' }, 'signature_bad'],
    ['a list of components', { ...good, 'sbom.json': '{}' }, 'signature_bad'],
    ['an old statement', signedParts({ notAfter: now }), 'signature_expired'],
    ['no statement', { 'statement.json': '{}', 'signatures/1': good['signatures/1'] as string }, 'signature_bad']
  ]
  for (const [what, more, code] of rows) {
    writeTestBundle(path, { more })
    await t.rejects(
      withBundle(path, bundle => verifySigners(bundle, signer(ana), now)),
      { code },
      what
    )
  }
  writeTestBundle(path, { more: good })
  const expired = withBundle(path, bundle => verifySigners(bundle, signer(ana, now), now))
  await t.rejects(expired, { code: 'signature_expired', message: /the key "ana"/ })
})

t.test('keys are a public key', async t => {
  const path = join(t.testdir(), 'release.pub')
  writeFileSync(path, ana.row.public)
  t.match(await readKeysFile(path), [{ name: 'release.pub', key: { fingerprint: ana.row.fingerprint } }])
  await t.rejects(readKeysFile(join(t.testdirName, 'none')), { message: /Cannot read the keys/ })
})

t.test('keys are a list of allowed signers, or a key of OpenSSH', { skip: missing('ssh-keygen') }, async t => {
  const directory = t.testdir()
  const { publicPath, publicText } = sshKey(directory, 'bo')
  t.match(await readKeysFile(publicPath), [{ name: 'bo@laptop' }])
  const path = join(directory, 'allowed_signers')
  writeFileSync(path, `# who signs\nbo namespaces="svc-deploy" ${publicText}`)
  t.match(await readKeysFile(path), [{ name: 'bo' }])
})
