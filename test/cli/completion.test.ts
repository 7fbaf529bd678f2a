import { spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { createServer, type AddressInfo } from 'node:net'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import { renderCompletion, shells, type CompletionRow } from '../../lib/cli/completion.js'
import { startServeProcess } from '../support/serve-process.js'
import { svc, svcPath } from '../support/svc.js'

const has = (shell: string) => spawnSync(shell, ['-c', 'exit']).status === 0
const without = (shell: string) => !has(shell) && `${shell} is not installed`

t.test('the scripts of all shells contain every command and option', async t => {
  const row = { type: 'text', choices: ['red', 'blue'], alias: 'c', help: 'it\'s [a] "colour"' } as const
  const rows: CompletionRow[] = [
    {
      name: 'paint',
      summary: 'paint: it',
      command: { operands: {}, options: { colour: row, dry: { type: 'switch', default: true, help: 'wet' } } }
    },
    { name: 'admin lock', summary: 'lock', command: null }
  ]
  for (const shell of shells) {
    const script = renderCompletion(shell, rows)
    for (const word of ['paint', 'admin', 'lock', 'colour', 'no-dry', 'red blue', 'help'])
      t.match(script, word, `${shell}: ${word}`)
  }
})

/** What is typed before the tab key, and what is offered. */
const cases: Array<[line: string, expected: string[]]> = [
  ['svc pus', ['push']],
  ['svc rollb', ['rollback']],
  ['svc rollout re', ['resume', 'revert']],
  ['svc push --on-failure rev', ['revert_wave', 'revert_all']],
  ['svc depl', ['deploy']],
  ['svc projects cr', ['create']],
  ['svc adm', ['admin']],
  ['svc config:s', ['config:set']],
  ['svc push --tok', ['--token']],
  ['svc push --no-ig', ['--no-ignore-builtin']],
  ['svc serve --runtime ', ['auto', 'node', 'bun']],
  ['svc serve --runtime b', ['bun']],
  ['svc admin ', ['reset-password', 'reset-second-factor']],
  ['svc admin reset-password --ra', ['--random']],
  ['svc help doc', ['doctor']],
  ['svc push --out a', ['a.zip']],
  ['svc import a', ['a.zip']],
  ['svc nothing --x', []]
]

/** Asks the shell itself, in a directory with its script and a file `a.zip`: what it offers after each line. */
type Ask = (lines: string[], cwd: string) => string[][]

const linesOf = (text: string): string[] =>
  text
    .split('\n')
    .map(line => line.replace(/\r$/, ''))
    .filter(Boolean)

function run(
  t: Test,
  program: string,
  words: string[],
  { cwd, env = {} }: { cwd: string; env?: Record<string, string> }
): string {
  const { stdout, stderr, status } = spawnSync(program, words, {
    cwd,
    encoding: 'utf8',
    timeout: 30_000,
    env: { PATH: process.env['PATH'], HOME: cwd, TERM: 'xterm', ...env }
  })
  t.equal(stderr, '')
  t.equal(status, 0)
  return stdout
}

const support = fileURLToPath(new URL('../../../test/support/', import.meta.url))

function askZsh(t: Test, env: Record<string, string> = {}): Ask {
  return (lines, cwd) => {
    const offers = run(t, 'zsh', ['-f', join(support, 'complete.zsh'), ...lines], { cwd, env })
      .split('\n')
      .slice(0, -1)
    return offers.map(offer => offer.split('|').filter(Boolean))
  }
}

const ask: Record<(typeof shells)[number], (t: Test, env?: Record<string, string>) => Ask> = {
  bash:
    (t, env = {}) =>
    (lines, cwd) =>
      lines.map(line => {
        const script = `source ./_svc; COMP_LINE=$1 COMP_POINT=\${#1}; _svc; printf '%s\\n' "\${COMPREPLY[@]}"`
        const offer = linesOf(run(t, 'bash', ['--norc', '-c', script, '-', line], { cwd, env }))
        // What is offered takes the place of what follows the last colon: bash cuts words there.
        const before = /\S*:(?=\S*$)/.exec(line)?.[0] ?? ''
        return offer.map(word => before + word)
      }),
  zsh: (t, env) => askZsh(t, env),
  fish:
    (t, env = {}) =>
    (lines, cwd) =>
      lines.map(line =>
        linesOf(run(t, 'fish', ['--no-config', '-c', 'source ./_svc; complete -C "$argv[1]"', line], { cwd, env })).map(
          offer => offer.split('\t')[0] as string
        )
      )
}

const site = t.testdir({
  bin: {},
  'home-bash': {},
  'home-zsh': {},
  'home-fish': {},
  'svc.config.live.json': '{"projectId":"proj_1"}',
  'svc.config.json': '{"projectId":"proj_1"}'
})
writeFileSync(join(site, 'bin/svc'), `#!/bin/sh\nexec "${process.execPath}" "${svcPath}" "$@"\n`, { mode: 0o755 })

for (const shell of shells) {
  t.test(
    `${shell} offers environments, deployments and projects, and waits for no server`,
    { skip: without(shell) },
    async t => {
      const server = await startServeProcess(t, join(site, `home-${shell}`))
      const project = await server.createProject({ name: 'shop: "$(x)"', deployPath: join(site, `www-${shell}`) })
      const { deployId, finished } = await server.upload(project, { a: 'a' }, { message: 'It is `new`: $(y)' })
      await finished
      writeFileSync(join(site, 'svc.config.json'), JSON.stringify({ projectId: project.id }))
      writeFileSync(join(site, '_svc'), (await svc(['completion', shell], { cwd: site })).stdout)
      const env = {
        PATH: `${join(site, 'bin')}:${process.env['PATH']}`,
        SVC_TOKEN: server.adminToken,
        SVC_SERVER_URL: server.url
      }
      const offered: Array<[line: string, expected: string[]]> = [
        ['svc push --env ', ['default', 'live']],
        ['svc push -e l', ['live']],
        ['svc status proj_', [project.id]],
        ['svc projects show ', [project.id]],
        ['svc logs dep_', [deployId]],
        ['svc rollback --to dep', [deployId]],
        ['svc deploy --project ', [project.id]]
      ]
      const offers = ask[shell](t, env)(
        offered.map(([line]) => line),
        site
      )
      for (const [index, [line, expected]] of offered.entries()) t.same(offers[index]?.sort(), expected, line)

      const silent = createServer().listen(0, '127.0.0.1')
      await once(silent, 'listening')
      t.teardown(() => silent.close())
      const { port } = silent.address() as AddressInfo
      for (const address of [`http://127.0.0.1:${port}`, 'http://127.0.0.1:1']) {
        t.same(ask[shell](t, { ...env, SVC_SERVER_URL: address })(['svc logs dep_'], site), [[]], address)
      }
    }
  )

  t.test(`${shell} completes commands, options and values`, { skip: without(shell) }, async t => {
    const cwd = t.testdir({ 'a.zip': '' })
    writeFileSync(join(cwd, '_svc'), (await svc(['completion', shell], { cwd })).stdout)
    const complete = ask[shell](t)
    const offers = complete(
      cases.map(([line]) => line),
      cwd
    )
    for (const [index, [line, expected]] of cases.entries()) t.same(offers[index]?.sort(), [...expected].sort(), line)
    const [commands] = complete(['svc '], cwd)
    for (const word of ['doctor', 'admin', 'telemetry:off']) t.ok(commands?.includes(word), word)
    if (shell !== 'zsh') return
    t.same(
      askZsh(t, { FROM_FPATH: '1' })(['svc pus', 'svc push --tok'], cwd),
      [['push'], ['--token']],
      'as a file in $fpath'
    )
  })
}
