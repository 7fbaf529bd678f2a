import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { startFleet } from '../../support/fleet-on-server.js'
import { failsToSwap, obeys } from '../../support/obedient-agent.js'
import { svc, type Ended, type SvcOptions } from '../../support/svc.js'
import { until } from '../../support/until.js'

type Fleet = Awaited<ReturnType<typeof startFleet>>

/** Returns `svc push` in a directory with a page, with the deploy token. */
function pusher({ stage, shop }: Fleet): (words?: string[], options?: Partial<SvcOptions>) => Promise<Ended> {
  const cwd = join(stage.sites, 'work')
  mkdirSync(join(cwd, 'dist'), { recursive: true })
  writeFileSync(join(cwd, 'dist/index.html'), '<h1>one</h1>')
  const config = { projectId: shop.id, serverUrl: stage.url, outputDir: 'dist' }
  writeFileSync(join(cwd, 'svc.config.json'), JSON.stringify(config))
  const env = { SVC_DEPLOY_TOKEN: shop.token }
  return (words = [], options = {}) => svc(['push', ...words], { cwd, env, ...options })
}

t.test('a push of a placed project goes to its nodes in waves, and ends with 0', async t => {
  const fleet = await startFleet(t, ['web-1', 'web-2', 'web-3'])
  const pushed = await pusher(fleet)(['--canary', '2', '--then', '100%', '--json'])
  t.equal(pushed.code, 0, pushed.stderr)
  t.match(JSON.parse(pushed.stdout), {
    status: 'success',
    error: null,
    rollout: { state: 'done', waves: 2, policy: { canary: 2, then: '100%' }, counts: { good: 3 } }
  })
  t.match(pushed.stderr, /Rollout ro_\w+/)
  const status = await fleet.run(`status ${fleet.shop.id}`)
  t.match(status.stdout, /rollout ro_\w+: done \(3 good\)/)
  t.match(status.stdout, /production → 3 nodes\non web-1, web-2, web-3: dep_\w+ \(tree /)
})

t.test('a drained node is not counted, and each node shows what it has', async t => {
  const fleet = await startFleet(t, ['web-1', 'web-2', 'web-3'])
  const push = pusher(fleet)
  t.match(await push(), { code: 0 })
  t.match(await fleet.run('fleet drain web-3'), { code: 0 })
  const second = await push()
  t.match(second.stdout, /Rollout ro_\w+ of tree \w+…: 2 nodes, 2 waves, without web-3 \(drained\)/)
  t.match(second.stdout, /rolled out to 2 nodes/)
  const { id } = JSON.parse((await fleet.run(`status ${fleet.shop.id} --json`)).stdout).deployments[0]
  const { stdout } = await fleet.run(`status ${fleet.shop.id}`)
  t.match(
    stdout,
    new RegExp(`production → 3 nodes\\non web-1, web-2: ${id} \\(tree \\w+…\\)\\non web-3 \\(1 drained\\): dep_`)
  )
  const overview = (await fleet.stage.client.get(`/api/projects/${fleet.shop.id}/overview`)).body
  t.match(overview, {
    live: null,
    releases: [
      { deployId: id, nodes: 2, drained: 0 },
      { nodes: 0, drained: 1 }
    ]
  })
  const files = await fleet.stage.client.get(`/api/deployments/${id}/files`)
  t.match(files.body, { code: 'no_manifest', message: /rollout ro_\w+ brought its files to nodes/ })
  const data = (await fleet.stage.client.get('/api/migration/verify')).body
  t.match(data.findings, [{}, {}, { level: 'ok', message: /is deployed on 3 nodes, not here/ }])
})

t.test('a failed node halts it: exit code 1, and what to do next', async t => {
  const fleet = await startFleet(t, ['web-1', 'web-2'], { 'web-2': failsToSwap })
  const pushed = await pusher(fleet)()
  t.equal(pushed.code, 1)
  const [, id] = /(ro_\w{16})/.exec(pushed.stdout) ?? []
  t.match(pushed.stdout, /halted: 1 failed/)
  t.match(pushed.stdout + pushed.stderr, `svc rollout revert ${id}`)
  fleet.agents.get('web-2')?.behave(obeys)
  t.match(await fleet.run(`rollout resume ${id}`), { code: 0 })
  const deployments = (await fleet.stage.client.get(`/api/logs?projectId=${fleet.shop.id}`)).body
  await until(async () => {
    const [row] = (await fleet.stage.client.get(`/api/logs?projectId=${fleet.shop.id}`)).body
    return row.status === 'success'
  })
  t.equal(deployments.length, 1)
})

t.test('Ctrl-C only stops watching, and the note says how to halt the rollout', async t => {
  const fleet = await startFleet(t, ['web-1', 'web-2'])
  const detached = await pusher(fleet)(['--pause', 'approve'], { interruptAt: /approv/ })
  t.equal(detached.code, 130)
  const [, id] = /svc rollout halt (ro_\w+)/.exec(detached.stderr) ?? []
  t.ok(id, detached.stderr)
  t.match((await fleet.stage.client.get(`/api/rollouts/${id}`)).body, { rollout: { state: 'approval' } })
  t.match(await fleet.run(`rollout approve ${id}`), { code: 0 })
  t.match(await fleet.run(`rollout status ${id} --follow`), { code: 0 })
})

t.test(
  'options about waves are refused for a project without nodes, and wrong values before anything is sent',
  async t => {
    const fleet = await startFleet(t)
    const push = pusher(fleet)
    t.match(await push(['--canary', '1']), { code: 1, stderr: /--canary: the project is not placed on nodes/ })
    t.match(await push(['--then', '0%']), { code: 2, stderr: /--then is not valid: expected a number of nodes/ })
    t.match(await push(['--on-failure', 'pray']), { code: 2, stderr: /revert_wave/ })
    t.equal((await fleet.stage.client.get('/api/logs')).body.length, 0)
    t.match(await push(), { code: 0 }, 'without them the server deploys the project itself')
  }
)
