import t from 'tap'
import { chmodSync, realpathSync } from 'node:fs'
import { join } from 'node:path'
import { findRoot, select, type Selection } from '../../../lib/cli/pack/select.js'

const selection = (cwd: string, more: Partial<Selection> = {}): Selection => ({
  cwd,
  outputDir: '.',
  files: [],
  ignore: { builtin: true, project: [], cli: [] },
  ...more
})

t.test('selects the files of outputDir in order, without ignored ones and exceptions', async t => {
  const cwd = t.testdir({ dist: { b: { c: 'x' }, a: 'x', '.env': 'x', 'my.zip': 'x', skipped: 'x' } })
  const options = selection(cwd, { outputDir: 'dist', ignore: { builtin: true, project: ['skipped'], cli: [] } })
  const root = await findRoot(options)
  t.equal(root, realpathSync(join(cwd, 'dist')))
  const warnings: string[] = []
  const except = (path: string): boolean => path === join(root, 'my.zip')
  const sources = await select(root, options, { except, warn: sentence => void warnings.push(sentence) })
  t.strictSame(
    sources.map(({ path }) => path),
    ['a', 'b/c']
  )
  t.strictSame(warnings, [])
})

t.test('refuses a missing directory, and one without files', async t => {
  const cwd = t.testdir({ empty: {}, file: 'x' })
  for (const outputDir of ['nowhere', 'file']) {
    await t.rejects(findRoot(selection(cwd, { outputDir })), { code: 'no_output_dir', field: 'outputDir' })
  }
  const options = selection(cwd, { outputDir: 'empty' })
  const nothing = select(await findRoot(options), options, { except: () => false, warn: () => {} })
  await t.rejects(nothing, { code: 'nothing_to_pack', field: 'files' })
})

const isWindows = process.platform === 'win32' && 'Windows has no permission bits'
t.test('warns of files that the web server may not be able to read', { skip: isWindows }, async t => {
  const cwd = t.testdir({
    open: 'x',
    link: t.fixture('symlink', 'closed'),
    closed: 'x',
    shared: 'x',
    private: {},
    d: { in: 'x' }
  })
  const modes = { open: 0o644, closed: 0o600, shared: 0o640, private: 0o700, d: 0o700, 'd/in': 0o604 }
  for (const [name, mode] of Object.entries(modes)) chmodSync(join(cwd, name), mode)
  async function warningsOf(...files: string[]): Promise<string[]> {
    const warnings: string[] = []
    const options = selection(cwd, { files })
    await select(await findRoot(options), options, {
      except: () => false,
      warn: sentence => void warnings.push(sentence)
    })
    return warnings
  }
  const [warning, ...others] = await warningsOf()
  t.strictSame(others, [])
  t.match(warning, /^the web server may not be able to read files that only their owner and group can read/)
  t.match(warning, /: "closed", "private", "shared"\. To let everybody read them: chmod -R o\+rX$/)
  t.match(await warningsOf('closed'), [/only their owner can read.*: "closed"\. /])
  t.strictSame(await warningsOf('open', 'link', 'd'), [])
})
