import t from 'tap'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { startAgentStage } from '../../support/agent-stage.js'
import { startFakeHub } from '../../support/fake-hub.js'
import { until } from '../../support/until.js'
import { adoptedFields, adoptProject } from '../../../lib/fleet/agent/agent.js'
import { hubActor } from '../../../lib/fleet/agent/swap.js'
import { releaseDocument as release } from '../../support/release-document.js'
import { startServer } from '../../support/server.js'

t.test('addresses that the hub names are remembered, and used if the first one is gone', async t => {
  const first = await startFakeHub(t)
  const stage = await startAgentStage(t, { hub: first })
  const named = ['http://127.0.0.1:1/hub']
  first.send({ type: 'welcome', version: '2', heartbeatMs: 15_000, hubs: named })
  const identity = (): { named?: string[] } => JSON.parse(readFileSync(join(stage.home, 'agent.json'), 'utf8'))
  await until(() => identity().named !== undefined)
  t.strictSame(identity(), { ...stage.agent.agent.identity, named })
  first.cut()
  await until(() => stage.said.some(line => line.includes(named[0] as string)))
  await first.connected()
})

t.test('two projects of one node do not wait for each other', async t => {
  const { hub, sites } = await startAgentStage(t)
  const slow = await hub.release(
    'proj_slow',
    { a: '1' },
    {
      deployPath: join(sites, 'slow'),
      project: { postDeployScript: 'while [ ! -e ../go ]; do sleep 0.05; done' }
    }
  )
  const fast = await hub.release(
    'proj_fast',
    { a: '1' },
    {
      deployPath: join(sites, 'fast'),
      project: { postDeployScript: 'touch ../go' }
    }
  )
  const waiting = hub.order(slow, 'swap')
  await hub.answer(waiting, 'begun')
  await hub.answer(hub.order(fast, 'swap'), 'good')
  t.match(await hub.answer(waiting, 'good'), { tookMs: Number })
})

t.test('a project of the hub becomes one of the node, and follows it', async t => {
  const { server, sites, client } = await startServer(t)
  const needs = server.services.agent
  const base = {
    deployPath: `${sites}/shop`,
    project: { postDeployScript: 'true' }
  }
  const variables = [
    { name: 'B', value: 'secret', secret: true },
    { name: 'A', value: '1', secret: false }
  ]
  await adoptProject(needs, release({ ...base, variables, policy: { drift: 'refuse' } }))
  const first = needs.projects.get('proj_hub')
  t.match(first, {
    name: 'Shop',
    env: 'staging',
    postDeployScript: 'true',
    categoryId: null,
    policy: { drift: 'refuse' }
  })
  t.strictSame(await needs.variables.open('proj_hub'), [
    { name: 'A', value: '1', secret: false },
    { name: 'B', value: 'secret', secret: true }
  ])
  const entries = async (): Promise<number> => ((await client.get('/api/audit?limit=100')).body as []).length
  const before = await entries()
  await adoptProject(needs, release({ ...base, variables, policy: { drift: 'refuse' } }))
  t.equal(await entries(), before, 'nothing has changed')
  t.equal(needs.projects.get('proj_hub').updatedAt, first.updatedAt)

  await adoptProject(needs, release({ ...base, projectName: 'Shop 2', policy: { prune: 'managed' } }))
  t.match(needs.projects.get('proj_hub'), { name: 'Shop 2', policy: { prune: 'managed', drift: undefined } })
  t.strictSame(await needs.variables.open('proj_hub'), [])
  await t.rejects(needs.projects.adopt('proj_other', { ...adoptedFields(release(base)) }, hubActor), {
    code: 'path_taken'
  })
})

t.test('a node may forbid client scripts that its hub allows, and never allows more', t => {
  const adopted = (allowClientScripts: unknown): unknown =>
    adoptedFields(release({ project: { allowClientScripts } }))['allowClientScripts']
  t.equal(adopted(true), null, 'the setting of the node decides')
  t.equal(adopted(false), false)
  t.equal(adopted(null), null)
  t.end()
})
