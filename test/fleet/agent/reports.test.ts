import t from 'tap'
import { appendFileSync } from 'node:fs'
import { join } from 'node:path'
import { createLive, createReports, type ReportsNeeds } from '../../../lib/fleet/agent/reports.js'
import type { AgentReport } from '../../../lib/model/fleet-wire.js'
import { until } from '../../support/until.js'
import { insertHubDeployment } from '../../../lib/core/store/tables/fleet.js'
import { deployStage } from '../../support/deploy-stage.js'

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

t.test('a report that fails is repeated with what is so then', async t => {
  let failures = 2
  const failed: unknown[] = []
  const taken: AgentReport[] = []
  const { reports, signal } = stage(t, {
    async send(report) {
      if (failures-- > 0) throw new Error('no network')
      taken.push(report)
    },
    failed: error => void failed.push(error)
  })
  void reports.run(['a'], signal)
  await until(() => taken.length === 1)
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
  let failures = 1
  const failed: unknown[] = []
  const taken: AgentReport[] = []
  const { reports, signal } = stage(t, {
    async send(report) {
      if (failures-- > 0) throw new Error('no network')
      taken.push(report)
    },
    failed: error => void failed.push(error)
  })
  void reports.run(['a'], signal)
  await until(() => taken.length === 1)
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
