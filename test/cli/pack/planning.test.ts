import t, { type Test } from 'tap'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { SourceTree } from '../../../lib/archive/tree.js'
import type { Api } from '../../../lib/cli/client/api.js'
import type { Call } from '../../../lib/cli/client/client.js'
import type { Context } from '../../../lib/cli/command.js'
import { planProject, readTreeOfProject } from '../../../lib/cli/pack/planning.js'
import type { EffectiveConfig } from '../../../lib/config/precedence.js'
import { aPlan } from '../../support/a-plan.js'

function stage(t: Test, preDeploy: { value: string } | null = null) {
  const cwd = t.testdir({ dist: { 'index.html': 'page', 'notes.md': 'notes', '.env': 'secret' } })
  const said: string[] = []
  const bar = {
    update: () => {},
    end: (line: string) => void said.push(`end: ${line}`),
    clear: () => void said.push('clear')
  }
  const output = {
    progress: (what: string) => (said.push(what), bar),
    warn: (line: string) => void said.push(`warn: ${line}`)
  }
  const of = <T>(value: T) => ({ value })
  const config = {
    outputDir: of('dist'),
    files: of([]),
    ignoreBuiltin: of(false),
    projectIgnore: of([]),
    cliIgnore: of(['*.md']),
    preDeploy,
    postDeploy: null
  } as unknown as EffectiveConfig
  return { context: { cwd, output } as unknown as Context, config, cwd, said }
}

const { signal } = new AbortController()
const pathsOf = ({ entries }: SourceTree): string[] => entries.map(({ path }) => path)

t.test('reads the files that a push would pack', async t => {
  const { context, config, said } = stage(t)
  const tree = await readTreeOfProject(context, config, signal)
  t.strictSame(pathsOf(tree), ['index.html'])
  t.match(said, ['Reading dist', /^end: Read 1 file, 4 B, in /])
})

t.test('clears the progress if it fails', async t => {
  const { context, config, cwd, said } = stage(t)
  writeFileSync(join(cwd, 'dist/a\\b'), 'x')
  await t.rejects(readTreeOfProject(context, config, signal), { code: 'backslash_in_name' })
  t.equal(said.at(-1), 'clear')
})

t.test('asks the server with the scripts of the configuration', async t => {
  const { context, config } = stage(t, { value: 'echo hi' })
  const calls: Call[] = []
  const client = {
    json: async (call: Call) => {
      calls.push(call)
      return aPlan()
    }
  }
  const api = { client } as unknown as Api
  t.match(
    await planProject(
      { api, projectId: 'proj_1', config, wishes: { prune: undefined, force: false }, all: false, signal },
      context
    ),
    { planId: 'plan_1' }
  )
  t.match(calls, [{ query: { projectId: 'proj_1' }, headers: { 'x-svc-scripts': /^pre=[0-9a-f]{64}$/ } }])
})
