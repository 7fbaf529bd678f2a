import t from 'tap'
import { execFileSync } from 'node:child_process'
import { linkSync, mkdirSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import {
  languageOf,
  listDirectory,
  maxPreviewBytes,
  measureTree,
  openFile,
  readPreview
} from '../../../lib/core/install/browse.js'
import { refusalOf } from '../../support/extraction.js'

function furnished(t: { testdir(): string }): string {
  const directory = t.testdir()
  const target = join(directory, 'site')
  mkdirSync(join(target, 'b dir/inner'), { recursive: true })
  mkdirSync(join(target, 'a'))
  mkdirSync(join(target, '.svc-staging-dep_x'))
  writeFileSync(join(target, 'index.html'), '<p>hällo</p>')
  writeFileSync(join(target, 'A.txt'), 'x')
  writeFileSync(join(target, 'nul'), 'a\0b')
  writeFileSync(join(target, 'latin1.txt'), Buffer.from([0x68, 0xe4, 0x6c]))
  writeFileSync(join(target, 'full'), Buffer.alloc(maxPreviewBytes, 'x'))
  writeFileSync(join(target, 'over'), Buffer.alloc(maxPreviewBytes + 1, 'x'))
  utimesSync(join(target, 'index.html'), 1_700_000_000, 1_700_000_000)
  mkdirSync(join(directory, 'site-old'))
  writeFileSync(join(directory, 'site-old/secret'), 'secret')
  symlinkSync('../site-old', join(target, 'out'))
  symlinkSync('../site-old/secret', join(target, 'secret'))
  symlinkSync('b dir', join(target, 'in'))
  symlinkSync('nowhere', join(target, 'broken'))
  symlinkSync('.svc-staging-dep_x', join(target, 'sly'))
  return target
}

const preview = async (target: string, path: string) => readPreview(await openFile(target, path))

t.test('lists directories first, then names, and shows links as what they are', async t => {
  const target = furnished(t)
  const entries = await listDirectory(target, '')
  t.strictSame(
    entries.map(({ name, isDir }) => (isDir ? `${name}/` : name)),
    [
      'a/',
      'b dir/',
      'in/',
      'sly/',
      'A.txt',
      'broken',
      'full',
      'index.html',
      'latin1.txt',
      'nul',
      'out',
      'over',
      'secret'
    ]
  )
  t.strictSame(
    entries.find(({ name }) => name === 'index.html'),
    {
      name: 'index.html',
      path: 'index.html',
      isDir: false,
      isHidden: false,
      size: 13,
      mtime: '2023-11-14T22:13:20.000Z'
    }
  )
  for (const name of ['out', 'secret', 'broken', 'a'])
    t.equal(entries.find(entry => entry.name === name)?.size, 0, name)
  t.strictSame(
    (await listDirectory(target, 'b dir/')).map(({ path }) => path),
    ['b dir/inner']
  )
  t.strictSame(
    (await listDirectory(target, './in')).map(({ path }) => path),
    ['in/inner']
  )
})

t.test('refuses any path that leaves the target', async t => {
  const target = furnished(t)
  const cases: Array<[path: string, kind: string, code: string]> = [
    ['..', 'forbidden', 'outside_target'],
    ['a/../../site-old', 'forbidden', 'outside_target'],
    ['../site-old/secret', 'forbidden', 'outside_target'],
    ['..\\site-old', 'forbidden', 'outside_target'],
    ['out', 'forbidden', 'outside_target'],
    ['out/secret', 'forbidden', 'outside_target'],
    ['secret', 'forbidden', 'outside_target'],
    ['/etc/passwd', 'invalid', 'invalid_field'],
    ['a\0', 'invalid', 'invalid_field'],
    ['missing', 'not_found', 'not_found'],
    ['broken', 'not_found', 'not_found'],
    ['.svc-staging-dep_x', 'not_found', 'not_found'],
    ['sly', 'not_found', 'not_found'],
    ['x'.repeat(300), 'invalid', 'invalid_field']
  ]
  for (const [path, kind, code] of cases) {
    for (const work of [listDirectory, preview, openFile]) {
      const refusal = await refusalOf(work(target, path))
      t.strictSame([refusal.kind, refusal.code], [kind, code], `${work.name} ${JSON.stringify(path.slice(0, 30))}`)
    }
  }
  t.equal((await refusalOf(listDirectory(target, 'A.txt'))).code, 'not_a_directory')
  t.equal((await refusalOf(preview(target, 'a'))).code, 'not_a_file')
  t.equal((await refusalOf(listDirectory(join(target, 'gone'), ''))).kind, 'not_found')
})

t.test('previews text, binary and too large files', async t => {
  const target = furnished(t)
  t.strictSame(await preview(target, 'index.html'), { type: 'text', content: '<p>hällo</p>', language: 'html' })
  t.match(await preview(target, 'full'), { type: 'text', language: 'plaintext' })
  t.strictSame(await preview(target, 'nul'), { type: 'binary', size: 3, message: 'The file is not text' })
  t.match(await preview(target, 'latin1.txt'), { type: 'binary', size: 3 })
  t.strictSame(await preview(target, 'over'), {
    type: 'binary',
    size: maxPreviewBytes + 1,
    message: 'The file is larger than 1 MB'
  })
})

t.test(
  'refuses a pipe without waiting for a writer',
  { skip: process.platform === 'win32' && 'no pipes in directories' },
  async t => {
    const target = furnished(t)
    execFileSync('mkfifo', [join(target, 'pipe')])
    t.equal((await refusalOf(preview(target, 'pipe'))).code, 'not_a_file')
  }
)

t.test('opens a file for download, with its size', async t => {
  const target = furnished(t)
  const file = await openFile(target, 'index.html')
  t.match(file, { name: 'index.html', size: 13, mtimeMs: 1_700_000_000_000 })
  await file.handle.close()
})

t.test('recognizes the language by the file name', async t => {
  const cases: Record<string, string> = {
    'index.html': 'html',
    'a.b.TS': 'typescript',
    Dockerfile: 'dockerfile',
    'Dockerfile.dev': 'dockerfile',
    '.env': 'ini',
    '.env.local': 'ini',
    'nginx.conf': 'nginx',
    'x.conf': 'ini',
    Makefile: 'makefile',
    README: 'plaintext',
    c: 'plaintext',
    'x.c': 'c',
    constructor: 'plaintext',
    'x.__proto__': 'plaintext',
    'data.json': 'json',
    'style.css': 'css',
    'x.': 'plaintext'
  }
  for (const [name, language] of Object.entries(cases)) t.equal(languageOf(name), language, name)
})

const limits = { maxEntries: 100, deadlineMs: Infinity }

t.test('measures the size of the files below a directory', async t => {
  const directory = t.testdir({
    a: 'x'.repeat(100),
    below: { b: 'x'.repeat(20), deeper: { c: 'xxx' }, empty: {} },
    link: t.fixture('symlink', '/etc')
  })
  t.equal(await measureTree(directory, limits), 123)
  linkSync(join(directory, 'a'), join(directory, 'below/again'))
  t.equal(await measureTree(directory, limits), 123, 'a file with two names counts once')
  t.equal(await measureTree(join(directory, 'below'), { ...limits, maxEntries: 5 }), 123)
  t.equal(await measureTree(join(directory, 'below'), { ...limits, maxEntries: 4 }), null, 'too many entries')
  t.equal(await measureTree(directory, { ...limits, deadlineMs: 0 }), null, 'too late')
  t.equal(await measureTree(join(directory, 'missing'), limits), null)
  t.equal(await measureTree(join(directory, 'a'), limits), null, 'a file is not a directory')
})

t.test('does not block on a pipe, and does not measure a very deep tree', async t => {
  const directory = t.testdir({ a: 'xyz' })
  if (process.platform !== 'win32') execFileSync('mkfifo', [join(directory, 'pipe')])
  t.equal(await measureTree(directory, limits), 3)
  if (process.platform !== 'win32') t.equal(await measureTree(join(directory, 'pipe'), limits), null)
  mkdirSync(join(directory, 'd/'.repeat(120)), { recursive: true })
  t.equal(await measureTree(directory, { ...limits, maxEntries: 1000 }), null)
})
