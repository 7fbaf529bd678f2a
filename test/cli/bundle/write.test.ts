import t from 'tap'
import { createHash } from 'node:crypto'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { withBundle } from '../../../lib/cli/bundle/contents.js'
import { checkFree, entriesOf, writeBundle } from '../../../lib/cli/bundle/write.js'
import { releaseArchive, releaseTree } from '../../support/bundles.js'

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
