import t from 'tap'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

/* A promise that names its test must name one that exists; so must a program that runs tests by their name. */

const top = fileURLToPath(new URL('../../../', import.meta.url))
const documents = readdirSync(join(top, 'docs')).filter(name => name.endsWith('.md'))

/** Returns the tests that a text names: whole paths, and further files of the directory before them. */
function namedIn(text: string): string[] {
  let directory = 'test'
  return [...text.matchAll(/`((?:test\/)?[\w./-]*\.test\.ts)`/g)].map(([, name = '']) => {
    if (!name.startsWith('test/')) return `${directory}/${basename(name)}`
    directory = dirname(name)
    return name
  })
}

t.test('each test that a document names exists', async t => {
  for (const name of documents) {
    const missing = namedIn(readFileSync(join(top, 'docs', name), 'utf8')).filter(path => !existsSync(join(top, path)))
    t.strictSame(missing, [], name)
  }
  t.ok(documents.includes('security.md'))
})

t.test('each test that a source names exists', async t => {
  const sources = ['lib', 'www', 'test', 'bin'].flatMap(room =>
    readdirSync(join(top, room), { recursive: true, encoding: 'utf8' }).map(path => join(room, path))
  )
  const all = [...sources.filter(path => /\.[jt]s$/.test(path)), 'Makefile', '.ci/run', 'CONTRIBUTING.md']
  const missing = all.flatMap(path =>
    [...readFileSync(join(top, path), 'utf8').matchAll(/[\w-]+(?:\/[\w-]+)*\/[\w-]+\.test\.[jt]s/g)]
      .map(([name]) => name.replace(/^(dist\/)?(test\/)?/, 'test/').replace(/\.js$/, '.ts'))
      .filter(name => !existsSync(join(top, name)))
      .map(name => `${path}: ${name}`)
  )
  t.strictSame(missing, [])
  t.ok(all.length > 1000)
})

t.test('each file that a comment names exists: in its own directory, or by its path', async t => {
  const tracked = ['lib', 'www', 'test'].flatMap(room =>
    readdirSync(join(top, room), { recursive: true, encoding: 'utf8' }).map(
      path => `${room}/${path.replaceAll('\\', '/')}`
    )
  )
  const sources = tracked.filter(path => path.endsWith('.ts'))
  const wrong = sources.flatMap(path =>
    readFileSync(join(top, path), 'utf8')
      .split('\n')
      .filter(line => /^\s*(\/\/|\*|\/\*)|\/\/ /.test(line))
      .flatMap(line => [...line.matchAll(/(?<![\w./'"-])[\w-]+(?:\/[\w-]+)*\.(?:test\.)?ts\b/g)].map(([name]) => name))
      .filter(name => !existsSync(join(top, dirname(path), name)) && !existsSync(join(top, name)))
      .filter(name => !name.includes('/') || !sources.some(each => each.endsWith(`/${name}`)))
      .map(name => `${path}: ${name}`)
  )
  t.strictSame(wrong, [])
  t.ok(sources.length > 1000)
})

t.test('every section of the boundaries names its hostile peer', async t => {
  const text = readFileSync(join(top, 'docs/boundaries.md'), 'utf8')
  for (const section of text.split(/^## /m).slice(1)) {
    t.ok(namedIn(section).length > 0, section.split('\n', 1).join())
  }
})

t.test('documents with promises say for each which test tries to break it', async t => {
  for (const name of ['security', 'access', 'audit', 'fleet', 'exact']) {
    const text = readFileSync(join(top, 'docs', `${name}.md`), 'utf8')
    const [, section = ''] = /^## Which test tries to break it\n(.*?)(?=^## |$(?![^]))/ms.exec(text) ?? []
    const rows = section.split('\n').filter(line => /^\| (?!promise|---)/.test(line))
    t.ok(rows.length > 5, name)
    for (const row of rows) t.ok(namedIn(row).length > 0, row)
  }
})
