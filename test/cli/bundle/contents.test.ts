import t, { type Test as Tap } from 'tap'
import { createHash } from 'node:crypto'
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Refusal } from '../../../lib/base/errors.js'
import { archiveBytesAllowed, withBundle } from '../../../lib/cli/bundle/contents.js'
import { bundleEntries, releaseArchive, releaseFiles, releaseTree, writeTestBundle } from '../../support/bundles.js'
import { hostileZip } from '../../support/hostile-zips.js'
import { makeZip } from '../../support/make-zip.js'
import { createRandom } from '../../support/random.js'
import { firstSeed, repetitions } from '../../support/thorough.js'

const never = new AbortController().signal
const digest = (bytes: Buffer): string => createHash('sha256').update(bytes).digest('hex')

function verify(path: string): Promise<void> {
  return withBundle(path, bundle => bundle.verify(never))
}

const refusalOf = (path: string): Promise<unknown> => verify(path).catch((error: unknown) => error)

t.test('a bundle is read, entry by entry, and its archive comes out as it went in', async t => {
  const directory = t.testdir()
  const path = writeTestBundle(join(directory, 'app.svcb'), { more: { 'scripts/post': 'restart' } })
  await withBundle(path, async bundle => {
    await bundle.verify(never)
    t.match(bundle.manifest, { project: 'shop', tree: { files: 2 } })
    t.equal(String(await bundle.read('scripts/post')), 'restart')
    t.equal(await bundle.read('scripts/pre'), null)
    t.equal(await bundle.read('constructor'), null)
    await bundle.extractArchive(join(directory, 'out.zip'), never)
  })
  t.ok(readFileSync(join(directory, 'out.zip')).equals(releaseArchive()))
})

type Plan = NonNullable<Parameters<typeof bundleEntries>[0]>
const claimed = (name: string, bytes: number): Plan => ({
  manifest: ({ parts }) => (parts.find((part: { name: string }) => part.name === name).bytes = bytes)
})
const flipped = (name: string): Plan => ({
  entries: entries =>
    entries.map(entry => {
      if (entry.name !== name) return entry
      const data = Buffer.from(entry.data ?? '')
      data[data.length >> 1] = (data[data.length >> 1] as number) ^ 1
      return { ...entry, data }
    })
})
const evil = releaseArchive([
  { name: 'app.js', data: 'evil!', mode: 0o100644 },
  { name: 'index.html', data: releaseFiles['index.html'], mode: 0o100644 }
])
const bomb = makeZip([{ name: 'zeros', data: Buffer.alloc(1000), method: 8, size: 0xfffffff0, mode: 0o100644 }])
const leaving = releaseArchive([{ name: '../x', data: '' }])

const wrong: Array<[what: string, plan: Plan, code: string, says: RegExp]> = [
  ['a changed archive', flipped('archive.zip'), 'bundle_damaged', /"archive\.zip" differs from its digest/],
  ['a changed tree', flipped('tree'), 'bundle_damaged', /"tree" differs from its digest/],
  ['an archive of other files', { archive: evil }, 'bundle_damaged', /differs from its tree in "app\.js"/],
  [
    'a tree of other files',
    { tree: releaseTree({ ...releaseFiles, 'app.js': 'evil!' }) },
    'bundle_damaged',
    /in "app\.js"/
  ],
  ['another size', claimed('tree', 3), 'bundle_damaged', /"tree" has \d+ bytes, and "bundle\.json" says 3/],
  ['a size of 2^40', claimed('archive.zip', 2 ** 40), 'bundle_damaged', /says 1099511627776/],
  [
    'a missing entry',
    { entries: all => all.filter(({ name }) => name !== 'tree') },
    'bundle_damaged',
    /"tree" is missing/
  ],
  ['no bundle.json', { entries: all => all.slice(1) }, 'not_a_bundle', /no "bundle\.json"\. "svc import" takes/],
  [
    'an entry that is not named',
    { entries: all => [...all, { name: 'sbom.json', data: '{}' }] },
    'bundle_damaged',
    /does not name "sbom\.json"/
  ],
  ['an entry twice', { entries: all => [...all, all[1] as never] }, 'not_a_bundle', /an entry twice/],
  ['a foreign entry', { entries: all => [...all, { name: 'run.sh', data: '' }] }, 'not_a_bundle', /no file "run\.sh"/],
  [
    'a name that leaves',
    { entries: all => [...all, { name: '../../etc/cron.d/x', data: '' }] },
    'not_a_bundle',
    /path contains a "\.\." segment/
  ],
  [
    'a link',
    { entries: all => [...all, { name: 'sbom.json', data: '/etc/passwd', mode: 0o120777 }] },
    'not_a_bundle',
    /no symlink "sbom\.json"/
  ],
  [
    'a compressed entry',
    { entries: all => all.map(entry => ({ ...entry, method: 8 })) },
    'not_a_bundle',
    /"bundle\.json" is compressed/
  ],
  [
    'a huge manifest',
    { entries: all => [{ name: 'bundle.json', data: ' '.repeat(300_000) }, ...all.slice(1)] },
    'not_a_bundle',
    /"bundle\.json" has 300000 bytes/
  ],
  [
    'more files than it says',
    { manifest: ({ tree }) => (tree.files = 1) },
    'bundle_damaged',
    /has 2 files of 18 bytes/
  ],
  ['a bomb', { archive: bomb }, 'not_a_bundle', /would inflate to 4294967280 bytes/],
  ['an archive with a name that leaves', { archive: leaving }, 'not_a_bundle', /path contains a "\.\." segment/],
  [
    'a changed byte',
    { entries: all => all.map(entry => (entry.name === 'tree' ? { ...entry, crc32: 7 } : entry)) },
    'bundle_damaged',
    /"tree": its CRC-32 does not match/
  ],
  ['a later format', { manifest: about => (about['format'] = 9) }, 'bundle_too_new', /format is 9/]
]

t.test('a bundle that is not one is refused with the reason', async t => {
  const path = join(t.testdir(), 'app.svcb')
  for (const [what, plan, code, says] of wrong)
    t.match(await refusalOf(writeTestBundle(path, plan)), { code, message: says }, what)
})

t.test('a truncated bundle is refused at every length', async t => {
  const path = join(t.testdir(), 'app.svcb')
  const whole = makeZip(bundleEntries())
  const step = Math.ceil(whole.length / repetitions(60, whole.length))
  for (let length = 0; length < whole.length; length += step) {
    writeFileSync(path, whole.subarray(0, length))
    t.ok((await refusalOf(path)) instanceof Refusal, `${length} bytes`)
  }
})

t.test('an archive may inflate as far as releases do', async t => {
  t.equal(archiveBytesAllowed(1), 2 ** 30)
  t.equal(archiveBytesAllowed(2 ** 30), 200 * 2 ** 30)
})

/** What is accepted of a changed bundle is the same archive with the same tree: what changed is no part of it. */
async function checkChanged(t: Tap, path: string, expected: string): Promise<'refused' | 'same'> {
  const out = `${path}.out`
  try {
    await withBundle(path, async bundle => {
      await bundle.verify(never)
      await bundle.extractArchive(out, never)
    })
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    if (error.message.length > 2000) t.fail(`a sentence of ${error.message.length} characters`)
    rmSync(out, { force: true })
    return 'refused'
  }
  if (digest(readFileSync(out)) !== expected) t.fail('another archive was accepted')
  rmSync(out)
  return 'same'
}

t.test('changed bundles are refused, or give the same release', async t => {
  const directory = t.testdir()
  const path = join(directory, 'app.svcb')
  const entries = bundleEntries({ more: { 'scripts/post': 'restart', 'sbom.json': '{"bomFormat":"CycloneDX"}' } })
  const expected = digest(releaseArchive())
  const counts = { refused: 0, same: 0 }
  const count = repetitions(400, 12_000)
  for (let seed = firstSeed; seed < firstSeed + count; seed++) {
    const { bytes } = hostileZip(entries, createRandom(seed))
    writeFileSync(path, bytes)
    try {
      counts[await checkChanged(t, path, expected)]++
    } catch (error) {
      t.fail(`seed ${seed}: ${(error as Error).stack}`)
      break
    }
  }
  t.ok(counts.refused > count / 2, JSON.stringify(counts))
  t.same(readdirSync(directory), ['app.svcb'], 'nothing else was written')
})
