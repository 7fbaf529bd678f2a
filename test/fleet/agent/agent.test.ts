import t from 'tap'
import { readFileSync, appendFileSync } from 'node:fs'
import { join } from 'node:path'
import { startAgentStage } from '../../support/agent-stage.js'
import { startFakeHub } from '../../support/fake-hub.js'
import { until } from '../../support/until.js'
import {
  adoptedFields,
  adoptProject,
  createLive,
  createReports,
  type ReportsNeeds
} from '../../../lib/fleet/agent/agent.js'
import { hubActor } from '../../../lib/fleet/agent/swap.js'
import { releaseDocument as release } from '../../support/release-document.js'
import { startServer } from '../../support/server.js'
import type { AgentReport } from '../../../lib/model/fleet-wire.js'
import { insertHubDeployment } from '../../../lib/core/store/tables/fleet.js'
import { deployStage } from '../../support/deploy-stage.js'

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

function stage(t: { teardown(work: () => void): void }, more: Partial<ReportsNeeds> = {}) {
  const sent: AgentReport[] = []
  const stopping = new AbortController()
  t.teardown(() => stopping.abort())
  const reports = createReports({
    send: async report => void sent.push(report),
    facts: async () => ({ version: '1', freeBytes: 5 }),
    answersOf: projectId => [
      {
        projectId,
        rolloutId: 'ro',
        attempt: 1,
        answer: 'good',
        error: null,
        failedStep: null,
        output: null,
        tookMs: 1
      }
    ],
    liveOf: projectId => ({ projectId, liveDeployId: 'dep', liveTree: null, isDrifted: false }),
    everyMs: 60_000,
    retriesMs: [5],
    failed: () => {},
    ...more
  })
  return { sent, reports, signal: stopping.signal, stopping }
}

t.test('a new stream gets everything, and then what changes', async t => {
  const { sent, reports, signal } = stage(t)
  void reports.run(['a', 'b'], signal)
  await until(() => sent.length === 1)
  t.match(sent[0], { version: '1', freeBytes: 5, answers: [{ projectId: 'a' }, { projectId: 'b' }] })
  reports.changed('b')
  await until(() => sent.length === 2)
  t.match(sent[1]?.placements, [{ projectId: 'b' }])
  reports.changed('a', { soon: true })
  reports.changed('b', { soon: true })
  await until(() => sent.length === 3)
  t.equal(sent[2]?.answers.length, 2, 'what can wait is sent together')
})

/** Sends a report of a project that arrives after some failures. Returns what was sent, and the failures that were told. */
async function reportAfter(t: Parameters<typeof stage>[0], failures: number) {
  let left = failures
  const failed: unknown[] = []
  const taken: AgentReport[] = []
  const { reports, signal } = stage(t, {
    async send(report) {
      if (left-- > 0) throw new Error('no network')
      taken.push(report)
    },
    failed: error => void failed.push(error)
  })
  void reports.run(['a'], signal)
  await until(() => taken.length === 1)
  return { failed, taken }
}

t.test('a report that fails is repeated with what is so then', async t => {
  const { failed, taken } = await reportAfter(t, 2)
  t.equal(failed.length, 1, 'only the second failure in a row is news')
  t.match(taken[0]?.answers, [{ projectId: 'a' }])
})

t.test('reports stay within their size, and say now and then that the node is there', async t => {
  const output = '\u0001'.repeat(4096)
  const { sent, reports, signal, stopping } = stage(t, {
    everyMs: 20,
    answersOf: projectId => [
      {
        projectId,
        rolloutId: 'ro',
        attempt: 1,
        answer: 'failed',
        error: 'x'.repeat(4000),
        failedStep: null,
        output,
        tookMs: 1
      }
    ]
  })
  const running = reports.run(['a', 'b', 'c', 'd'], signal)
  await until(() => sent.flatMap(({ answers }) => answers).length === 4)
  for (const report of sent) t.ok(JSON.stringify(report).length <= 16 * 1024)
  const before = sent.length
  await until(() => sent.length > before + 1)
  t.strictSame(sent.at(-1), { version: '1', freeBytes: 5, answers: [], placements: [] })
  stopping.abort()
  await running
})

t.test('a report that fails once is repeated without a word', async t => {
  const { failed } = await reportAfter(t, 1)
  t.strictSame(failed, [])
})

t.test('what is in place is named after the deployment of the hub', async t => {
  const stage = await deployStage(t)
  const { store, deployer } = stage
  const live = createLive({ store, deployer })
  const { id, deployPath } = await stage.addProject()
  t.strictSame(live.of(id), { projectId: id, liveDeployId: null, liveTree: null, isDrifted: false })
  const project = { ...(await stage.addProject({ id: 'proj_other' })), id, deployPath }
  const row = await stage.deploy(project, { a: '1' })
  t.match(live.of(id), { liveDeployId: null, liveTree: row.treeSha256, isDrifted: true }, 'a push to the node itself')
  await store.write(tx => insertHubDeployment(tx, { id: row.id, projectId: id, deployId: 'dep_hub' }))
  t.match(live.of(id), { liveDeployId: 'dep_hub', isDrifted: false })

  const { signal } = new AbortController()
  t.equal(await live.search(id, signal), false)
  appendFileSync(join(deployPath, 'a'), 'edited')
  t.equal(await live.search(id, signal), true)
  t.match(live.of(id), { liveDeployId: 'dep_hub', isDrifted: true })
  t.equal(await live.search(id, signal), false, 'it was known')
})
