import t from 'tap'
import {
  type ContentEntry,
  contentsOf,
  type Found,
  foundInFiles,
  gather,
  isLeftOut,
  isNeverPacked,
  isOtherArchive,
  limitsOf,
  nameOf
} from '../../../www/archive/gather.js'
import { createIgnore, rootVerdict } from '../../../lib/core/archive/walk.js'
import { builtinIgnore, neverPushed } from '../../../lib/base/shared/tree-text.js'
import { readName } from '../../../lib/core/archive/names.js'

const entriesOf = (paths: string[]): ContentEntry[] =>
  paths.map((path, n) => ({ path, bytes: path.endsWith('/') ? null : n + 1 }))

t.test('returns the top folder if it is the only entry', async t => {
  const cases: Array<[paths: string[], topFolder: string | null]> = [
    [[], null],
    [['a.txt'], null],
    [['dist/'], null],
    [['dist/a.txt'], 'dist'],
    [['./dist/a.txt', './dist/b/c.txt'], 'dist'],
    [['./', './dist/', './dist/a.txt'], 'dist'],
    [['dist/a.txt', 'b.txt'], null],
    [['dist/a.txt', 'other/b.txt'], null]
  ]
  for (const [paths, topFolder] of cases)
    t.equal(contentsOf(entriesOf(paths)).topFolder, topFolder, paths.join(' ') || 'nothing')
})

t.test('returns the sizes and the largest files', async t => {
  const contents = contentsOf(entriesOf(['a', 'b/', 'c', 'd', 'e', 'f', 'g', 'h']))
  t.match(contents, { files: 7, bytes: 1 + 3 + 4 + 5 + 6 + 7 + 8 })
  t.same(
    contents.largest.map(({ path }) => path),
    ['h', 'g', 'f', 'e', 'd']
  )
})

t.test('lists once what svc push would leave out', async t => {
  const { unusual } = contentsOf(
    entriesOf(['node_modules/a/b.js', 'node_modules/c.js', 'src/.env', 'src/a.ts', 'x/debug.log', '.git/'])
  )
  t.same(unusual, ['node_modules', 'src/.env', 'x/debug.log', '.git'])
})

t.test('recognizes other archives by name, and reads the limits of the settings', async t => {
  for (const name of ['a.tar', 'a.tgz', 'a.tar.gz', 'A.TAR.ZST', 'a.7z', 'a.rar', 'a.gz'])
    t.ok(isOtherArchive(name), name)
  for (const name of ['a.zip', 'a.html', 'tar', 'a.gzip.txt']) t.notOk(isOtherArchive(name), name)
  t.same(limitsOf({ max_upload_size: '2', max_extracted_size: '4' }), {
    uploadBytes: 2 * 1024 ** 2,
    extractedBytes: 4 * 1024 ** 2
  })
  t.same(limitsOf({ max_upload_size: '' }), { uploadBytes: null, extractedBytes: null })
})

/** What `svc push` says of a path, walked from the root. */
function isIgnored(path: string, builtin = true): boolean {
  const ignore = createIgnore({ builtin, project: [], cli: [], never: neverPushed })
  const segments = path.split('/')
  return segments.reduce(
    (verdict, _, depth) => ignore.judge(segments.slice(0, depth + 1).join('/'), depth < segments.length - 1, verdict),
    rootVerdict
  ).isIgnored
}

t.test('the panel leaves out what svc push leaves out', async t => {
  const names = [
    ...builtinIgnore.map(name => name.replace('*', 'x')),
    '.next/standalone/node_modules',
    '.next/standalone/.next',
    '.output/server/node_modules',
    '.git',
    'node_modules',
    '.next',
    '.nuxt',
    '.turbo',
    '.cache',
    '.vite',
    'coverage',
    '.DS_Store',
    'npm.log',
    '.log',
    'a.log.txt',
    '.env',
    '.env.local',
    '.environment',
    'environment',
    '.deploy-archive.zip',
    'deploy-archive.zip',
    'src',
    '.gitignore',
    'Coverage',
    '.ENV',
    'log',
    'svc.config.json',
    'svc.config.live.json',
    'svc.config.json.txt',
    'my.svc.config.json',
    'svc.configs.json'
  ]
  const paths = names.flatMap(name => [name, `${name}/x`, `src/${name}`, `src/${name}/x`, `src/a/${name}/x/y`])
  for (const path of paths) {
    t.equal(isLeftOut(path), isIgnored(path), path)
    t.equal(isNeverPacked(path), isIgnored(path, false), `${path}, without the built-in rules`)
  }
})

type Chosen = Parameters<typeof foundInFiles>[0] extends Iterable<infer F> ? F : never

function chosen(path: string, text = 'x'): Chosen {
  const isInFolder = path.includes('/')
  return Object.assign(new Blob([text]), {
    name: path.slice(path.lastIndexOf('/') + 1),
    lastModified: 0,
    webkitRelativePath: isInFolder ? path : ''
  })
}

const pathsOf = async (found: Found[], options = {}): Promise<string[]> =>
  (await gather(found, options)).entries.map(({ path, file }) => (file === null ? `${path}/` : path))

t.test('packs the contents of a single folder, and keeps the names of several items', async t => {
  const site = foundInFiles(['dist/index.html', 'dist/css/b.css', 'dist/css/a.css'].map(path => chosen(path)))
  t.equal(nameOf(site), 'dist')
  t.same(await pathsOf(site), ['css/a.css', 'css/b.css', 'index.html'])
  const both = [...site, ...foundInFiles([chosen('notes.txt')])]
  t.equal(nameOf(both), '2 items')
  t.same(await pathsOf(both), ['dist/css/a.css', 'dist/css/b.css', 'dist/index.html', 'notes.txt'])
  t.same(await pathsOf(foundInFiles([chosen('.env'), chosen('a.log')])), ['.env', 'a.log'], 'what is named is meant')
})

t.test('applies the rules within a folder, unless they are switched off', async t => {
  const paths = [
    'app/node_modules/a/b.js',
    'app/.env',
    'app/src/.env.local',
    'app/src/a.js',
    'app/src/node_modules/c.js'
  ]
  const found = foundInFiles(paths.map(path => chosen(path)))
  const gathered = await gather(found)
  t.same(
    gathered.entries.map(({ path }) => path),
    ['src/a.js']
  )
  const leftOut = ['.env', 'node_modules', 'src/.env.local', 'src/node_modules']
  t.same(gathered.leftOut, leftOut, 'a directory counts once')
  t.match(gathered, { files: 1, bytes: 1 })
  const whole = await gather(found, { isWhole: true })
  t.same(
    whole.entries.map(({ path }) => path),
    ['node_modules/a/b.js', 'src/a.js', 'src/node_modules/c.js']
  )
  t.same(whole.leftOut, ['.env', 'src/.env.local'], 'secrets stay out')
  t.same([gathered.neverPacked, whole.neverPacked], [whole.leftOut, whole.leftOut])
  const beside = [...found, ...foundInFiles([chosen('notes.txt')])]
  t.same(
    (await gather(beside)).leftOut,
    leftOut.map(path => `app/${path}`),
    'each folder has its own root'
  )
})

t.test('does not read an ignored folder, and packs an empty one', async t => {
  const never: Found = { kind: 'folder', name: 'node_modules', list: async () => t.fail('this is not walked') as never }
  const empty: Found = { kind: 'folder', name: 'empty', list: async () => [] }
  const site: Found = { kind: 'folder', name: 'site', list: async () => [never, empty] }
  t.same(await pathsOf([site]), ['empty/'])
})

t.test('composes names, and refuses invalid ones', async t => {
  const file = (name: string): Found => ({ kind: 'file', name, file: async () => chosen('x') })
  t.same(await pathsOf([file('e\u0301.txt')]), ['\u00e9.txt'])
  for (const name of ['..', '', 'a/b', 'a\\b', 'a\0b']) {
    await t.rejects(gather([file(name)]), { name: 'CannotPack' }, JSON.stringify(name))
  }
})

t.test('refuses the same characters in names as the server', async t => {
  const file = (name: string): Found => ({ kind: 'file', name, file: async () => chosen('x') })
  const differing: string[] = []
  for (let code = 0; code <= 0xffff; code++) {
    const name = `ab${String.fromCharCode(code)}c`
    const isTaken = await gather([file(name)]).then(
      () => true,
      () => false
    )
    const isExtracted = code !== 0x2f && isReadable(name)
    if (isTaken !== isExtracted) differing.push(code.toString(16))
  }
  t.same(differing, [])
  await t.rejects(
    gather([file('a\u202egpj.exe')]),
    { name: 'CannotPack', message: /“a\ufffdgpj\.exe” cannot be packed/ },
    'and is not shown as it is'
  )
})

function isReadable(name: string): boolean {
  try {
    return readName(name, { windows: false }) === name
  } catch {
    return false
  }
}

t.test('stops when cancelled, and at a folder with too many files', async t => {
  const stop = new AbortController()
  stop.abort(new Error('enough'))
  const folder: Found = { kind: 'folder', name: 'a', list: async () => [] }
  await t.rejects(gather([folder], { signal: stop.signal }), { message: 'enough' })
  const shared = chosen('x')
  const endless: Found = {
    kind: 'folder',
    name: 'a',
    list: async () =>
      Array.from({ length: 70_000 }, (_, at) => ({ kind: 'file' as const, name: `${at}`, file: async () => shared }))
  }
  let seen = 0
  await t.rejects(gather([endless], { onProgress: files => (seen = files) }), { message: /65,535 files/ })
  t.equal(seen, 65_535)
})
