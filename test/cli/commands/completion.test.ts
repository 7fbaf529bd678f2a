import t from 'tap'
import { spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { commands } from '../../../lib/cli/command-table.js'
import { startFleet } from '../../support/fleet-on-server.js'
import { beginRollout } from '../../support/fleet-rollout.js'
import { findProgram } from '../../support/programs.js'
import { svc } from '../../support/svc.js'

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
    }).listen(0, '127.0.0.1')
    await once(server, 'listening')
    t.teardown(() => server.close())
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
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
