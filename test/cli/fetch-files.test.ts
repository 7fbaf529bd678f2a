import t from 'tap'
import { existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Refusal } from '../../lib/base/errors.js'
import { fetchFiles, type Fetching } from '../../lib/cli/fetch-files.js'

const signal = new AbortController().signal

async function* bytes(text: string): AsyncGenerator<Buffer> {
  yield Buffer.from(text)
}

const open: Fetching['open'] = async path => bytes(`contents of ${path}`)

t.test('keeps the paths, and replaces nothing', async t => {
  const directory = join(t.testdir({ fetched: { 'old.js': 'mine' } }), 'fetched')
  const left = await fetchFiles({ directory, paths: ['a.js', 'old.js', 'sub/deep/b.js', 'sub/c.js'], open, signal })
  t.strictSame(left, [{ path: 'old.js', reason: 'It exists already' }])
  t.equal(readFileSync(join(directory, 'old.js'), 'utf8'), 'mine')
  for (const path of ['a.js', 'sub/deep/b.js', 'sub/c.js'])
    t.equal(readFileSync(join(directory, path), 'utf8'), `contents of ${path}`)
})

t.test('never leaves the directory', async t => {
  const top = t.testdir({ fetched: {}, outside: {} })
  const directory = join(top, 'fetched')
  symlinkSync('../outside', join(directory, 'link'))
  symlinkSync('../outside/new', join(directory, 'dangling'))
  writeFileSync(join(directory, 'file'), '')
  const paths = ['../x', '/etc/x', 'a/../../x', 'a//b', './a', '', 'link/x', 'dangling', 'file/x', 'a\0b']
  const left = await fetchFiles({ directory, paths, open, signal })
  t.strictSame(
    left.map(({ path }) => path),
    paths
  )
  t.notOk(existsSync(join(top, 'x')))
  t.notOk(existsSync(join(top, 'outside/x')))
  t.notOk(existsSync(join(top, 'outside/new')))
})

t.test('a file that does not arrive is not left in part', async t => {
  const directory = t.testdir({ sub: {} })
  mkdirSync(join(directory, 'full'))
  async function* broken(): AsyncGenerator<Buffer> {
    yield Buffer.from('half')
    throw Object.assign(new Error('reset'), { code: 'ECONNRESET' })
  }
  const answers: Record<string, () => Promise<AsyncIterable<Buffer>>> = {
    refused: () => Promise.reject(new Refusal('forbidden', 'denied_path', 'It may contain passwords')),
    half: async () => broken(),
    whole: async () => bytes('x')
  }
  const remote: Fetching['open'] = path => (answers[path] as () => Promise<AsyncIterable<Buffer>>)()
  const paths = ['refused', 'half', 'full', 'whole']
  const left = await fetchFiles({ directory, paths, open: remote, signal })
  t.match(left, [
    { path: 'refused', reason: 'It may contain passwords' },
    { path: 'half' },
    { path: 'full', reason: 'It exists already' }
  ])
  t.notOk(existsSync(join(directory, 'half')))
  t.notOk(existsSync(join(directory, 'refused')))
  t.equal(readFileSync(join(directory, 'whole'), 'utf8'), 'x')
  const bug: Fetching['open'] = () => Promise.reject(new TypeError('a bug'))
  await t.rejects(fetchFiles({ directory, paths: ['other'], open: bug, signal }), { message: 'a bug' })
  const stopped = AbortSignal.abort(new Error('stop'))
  await t.rejects(fetchFiles({ directory, paths: ['refused'], open: remote, signal: stopped }), { message: 'stop' })
})
