import t, { type Test } from 'tap'
import { spawnSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { createServer as listenOnPort } from 'node:net'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { commands } from '../../../lib/cli/command-table.js'
import { type CompletionRow, renderCompletion, shells } from '../../../lib/cli/commands/completion.js'
import { startFleet } from '../../support/fleet-on-server.js'
import { beginRollout } from '../../support/fleet-rollout.js'
import { findProgram } from '../../support/programs.js'
import { startServeProcess } from '../../support/serve-process.js'
import { svc, svcPath } from '../../support/svc.js'
import { defaultWithinMs } from '../../support/until.js'
import { listen, urlOf } from '../../support/on-loopback.js'

for (const shell of ['bash', 'zsh', 'fish']) {
  t.test(`the script for ${shell} contains every command, and ${shell} accepts it`, async t => {
    const { code, stdout } = await svc(['completion', shell], { cwd: t.testdir({}) })
    t.equal(code, 0)
    for (const { name, hidden } of commands) if (hidden !== true) t.match(stdout, name.split(' ')[0])
    const script = join(t.testdir({ script: stdout }), 'script')
    const program = findProgram(shell)
    if (program === null) return t.comment(`${shell} is not on this machine`)
    t.match(spawnSync(program, ['-n', script], { encoding: 'utf8' }), { status: 0, stderr: '' })
  })
}

t.test('refuses another shell and lists the supported ones', async t => {
  t.match(await svc(['completion', 'tcsh'], { cwd: t.testdir({}) }), { code: 2, stdout: '', stderr: /bash.*zsh.*fish/ })
})

t.test(
  'values never sends a token of the environment to a server that a checkout names, nor offers what a shell would run',
  async t => {
    const heard: Array<string | undefined> = []
    const server = createServer((request, response) => {
      heard.push(request.headers.authorization)
      const rows = [
        { id: '$(touch owned)', projectId: 'proj_1', projectName: 'x', status: 'success', message: null },
        { id: 'dep_1', projectId: 'proj_1', projectName: 'a\u001b[2Jb', status: 'failed', message: 'm' }
      ]
      response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(rows))
    })
    const url = await urlOf(t, server)
    const cwd = t.testdir({ 'svc.config.json': JSON.stringify({ projectId: 'proj_1', serverUrl: url }) })
    const ask = (env: Record<string, string>) => svc(['values', 'deployments', 'svc logs '], { cwd, env })

    t.match(await ask({ SVC_TOKEN: 'from-the-environment' }), { code: 0, stdout: '', stderr: '' })
    t.same(heard, [])
    const { stdout } = await ask({ SVC_TOKEN: 'from-the-environment', SVC_SERVER_URL: url })
    t.match(stdout, /^dep_1\ta.*b, failed: m\n$/)
    t.notMatch(stdout, '\u001b')
    t.same(heard, ['Bearer from-the-environment'])
    t.match(await svc(['values', 'colours'], { cwd }), { code: 2, stderr: /Unknown kind "colours"/ })
  }
)

t.test('nodes and rollouts are completed from the server', async t => {
  const { hub, shop, run } = await startFleet(t, ['web-1', 'web-2'])
  await run('fleet set web-2 --label zone=eu')
  t.equal((await run('values nodes')).stdout, 'web-1\t\nweb-2\tzone=eu\n')
  t.equal((await run('values rollouts')).stdout, '')
  const id = await beginRollout({ hub }, { pause: 'approve' }, shop.id)
  t.match((await run('values rollouts')).stdout, new RegExp(`^${id}\\tshop, \\w+\\n$`))
})

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
    { name: 'admin lock', summary: 'lock', command: null },
    { name: 'smear', summary: 'paint it', now: 'paint', command: { operands: {}, options: { thickly: row } } }
  ]
  for (const shell of shells) {
    const script = renderCompletion(shell, rows)
    for (const word of ['paint', 'admin', 'lock', 'colour', 'no-dry', 'red blue', 'help'])
      t.match(script, word, `${shell}: ${word}`)
    t.match(script, 'thickly', `${shell}: the options of an older name`)
    t.notMatch(
      script,
      /smear[ '][^)]*--version|smear:paint it|-a 'smear'|-a smear/,
      `${shell}: its name is not offered`
    )
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
  ['svc logs sources ', ['add', 'list', 'remove']],
  ['svc logs sources add --lab', ['--label']],
  ['svc notify add --kind sl', ['slack']],
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
    timeout: defaultWithinMs,
    env: { PATH: process.env['PATH'], HOME: cwd, TERM: 'xterm', ...env }
  })
  t.equal(stderr, '')
  t.equal(status, 0)
  return stdout
}

const support = fileURLToPath(new URL('../../../../test/support/', import.meta.url))

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
        ['svc logs so', ['sources']],
        ['svc logs --fol', ['--follow']],
        ['svc rollback --to dep', [deployId]],
        ['svc deploy --project ', [project.id]]
      ]
      const offers = ask[shell](t, env)(
        offered.map(([line]) => line),
        site
      )
      for (const [index, [line, expected]] of offered.entries()) t.same(offers[index]?.sort(), expected, line)

      const silent = listenOnPort()
      const port = await listen(t, silent)
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
