import t from 'tap'
import { realpathSync } from 'node:fs'
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
  const except = [join(root, 'my.zip')]
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
  const nothing = select(await findRoot(options), options, { except: [], warn: () => {} })
  await t.rejects(nothing, { code: 'nothing_to_pack', field: 'files' })
})
