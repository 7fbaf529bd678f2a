import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import type { Context } from '../../../lib/cli/command.js'
import { packProject } from '../../../lib/cli/pack/packing.js'
import { Interrupted } from '../../../lib/cli/terminal/prompt.js'
import type { EffectiveConfig } from '../../../lib/config/precedence.js'

function stage(t: Test, ignore: string[] = []) {
  const cwd = t.testdir({ dist: { 'index.html': 'page', 'notes.md': 'notes', 'app.js': 'said' } })
  const said: string[] = []
  const bar = {
    update: () => {},
    end: (line: string) => void said.push(`end: ${line}`),
    clear: () => void said.push('clear')
  }
  const output = {
    progress: (what: string) => (said.push(what), bar),
    warn: (line: string) => void said.push(`warn: ${line}`),
    note: (line: string) => void said.push(`note: ${line}`)
  }
  const of = <T>(value: T) => ({ value })
  const config = {
    outputDir: of('dist'),
    files: of([]),
    ignoreBuiltin: of(false),
    projectIgnore: of([]),
    cliIgnore: of(ignore)
  } as unknown as EffectiveConfig
  return { context: { cwd, output } as unknown as Context, config, cwd, said }
}

const signal = new AbortController().signal

t.test('packs the configured files and counts them in the last line', async t => {
  const { context, config, cwd, said } = stage(t, ['*.md'])
  const path = join(cwd, 'out.zip')
  const archive = await packProject(context, config, { path, signal })
  t.equal(archive.files, 2, 'one is left out')
  t.equal(readFileSync(path).readUInt32LE(0), 0x04034b50)
  t.match(said[0], /dist/)
  t.match(said.at(-1), /^end: .*\b2 files\b/)
})

t.test('the caller removes a temporary archive', async t => {
  const { context, config } = stage(t)
  const archive = await packProject(context, config, { signal })
  t.ok(existsSync(archive.path))
  await archive.discard()
  t.notOk(existsSync(archive.path))
})

t.test('an error or an interrupt clears the progress bar, and an interrupt prints a note', async t => {
  const failing = stage(t)
  const limits = { maxUploadBytes: 1, maxExtractedBytes: 1 }
  await t.rejects(packProject(failing.context, failing.config, { limits, signal }), { name: 'Refusal' })
  t.same(failing.said.slice(1), ['clear'])
  const stopped = stage(t)
  const aborted = AbortSignal.abort(new Interrupted())
  await t.rejects(packProject(stopped.context, stopped.config, { signal: aborted }), Interrupted)
  t.match(stopped.said.slice(1), ['clear', /^note: /])
})
