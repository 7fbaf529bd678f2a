import t from 'tap'
import { existsSync, mkdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { RolloutDetail } from '../../lib/model/rollout.js'
import { startAgentProcess } from '../support/agent-process.js'
import { startFakeHub } from '../support/fake-hub.js'
import { emptyDisk, fillDisk } from '../support/full-disk.js'
import { startServeProcess } from '../support/serve-process.js'
import { smallDisk } from '../support/small-disk.js'
import { until } from '../support/until.js'

/* Real agents whose disks are full. */

t.setTimeout(180_000)

/** A text of this length that does not compress. */
const noise = (length: number): string =>
  Array.from({ length: length / 8 }, () => Math.random().toString(36).slice(2, 10).padEnd(8, '-')).join('')

t.test('a node without room for the archive refuses it, and the others go on', async t => {
  const disk = smallDisk(t, 32 * 1024 * 1024)
  if (disk === null) return
  const cwd = t.testdir({ full: {}, other: {} })
  const hub = await startServeProcess(t, cwd)
  for (const name of ['full', 'other']) {
    const { token } = await hub.api<{ token: string }>('POST', '/api/enrollments', {})
    const home = name === 'full' ? join(disk, 'home') : join(cwd, name, 'home')
    const env = { SVC_ENROLL_TOKEN: token, SVC_HOME: home }
    const agent = await startAgentProcess(t, join(cwd, name), ['--hub', hub.url, '--name', name], { env })
    await agent.says(/Connected to the hub/)
  }
  const project = await hub.createProject({ name: 'shop', deployPath: join(cwd, 'hub-site') })
  const siteOf = (name: string): string => join(cwd, name, 'site')
  const add = ['full', 'other'].map(node => ({ node, deployPath: siteOf(node) }))
  await hub.api('PATCH', `/api/projects/${project.id}/placements`, { add })
  const textOf = (name: string): string => readFileSync(join(siteOf(name), 'a'), 'utf8')
  const rollOut = async (files: Record<string, string>): Promise<RolloutDetail> => {
    const rollout = JSON.stringify({ canary: 2, maxFailures: 1 })
    const { deployId, finished } = await hub.upload(project, files, { rollout })
    await finished
    const { rollouts } = await hub.api<{ rollouts: RolloutDetail[] }>('GET', `/api/rollouts?deployId=${deployId}`)
    return hub.api<{ rollout: RolloutDetail }>('GET', `/api/rollouts/${rollouts[0]?.id}`).then(({ rollout }) => rollout)
  }
  t.match(await rollOut({ a: 'first' }), { state: 'done', counts: { good: 2 } })

  fillDisk(disk, 1024 * 1024)
  const second = await rollOut({ a: 'second', large: noise(4_000_000) })
  t.match(second, { state: 'done', counts: { good: 1, failed: 1 } })
  const refused = second.nodes.find(({ nodeName }) => nodeName === 'full')
  t.match(refused, { phase: 'failed', error: /^The archive needs .+ in ".+", and .+ are free$/ })
  t.strictSame(['full', 'other'].map(textOf), ['first', 'second'])

  emptyDisk(disk)
  t.match(await rollOut({ a: 'third' }), { state: 'done', counts: { good: 2 } })
  t.strictSame(['full', 'other'].map(textOf), ['third', 'third'])
})

t.test('a swap without room in the target leaves the earlier files, and succeeds later', async t => {
  const disk = smallDisk(t, 8 * 1024 * 1024)
  if (disk === null) return
  const cwd = t.testdir()
  const hub = await startFakeHub(t)
  await startAgentProcess(t, cwd, ['--hub', hub.url, '--enroll', hub.token()])
  await hub.connected()
  const site = join(disk, 'site')
  const first = await hub.release('proj_a', { a: 'first' }, { deployPath: site })
  await hub.answer(hub.order(first, 'swap'), 'good')
  const second = await hub.release('proj_a', { a: 'second', large: noise(2_000_000) }, { deployPath: site })
  await hub.answer(hub.order(second, 'prepare', { number: 2 }), 'prepared')
  fillDisk(disk, 500_000)
  const failed = await hub.answer(hub.order(second, 'swap', { number: 2 }), 'failed')
  t.match(failed, { error: /^The release needs .+ in the target, and .+ are free$/ })
  t.equal(readFileSync(join(site, 'a'), 'utf8'), 'first')
  t.notOk(existsSync(join(site, 'large')))
  emptyDisk(disk)
  await hub.answer(hub.order(second, 'swap', { number: 2 }), 'good')
  t.equal(readFileSync(join(site, 'a'), 'utf8'), 'second')
})

t.test('an agent whose own disk is full says what it has done, and goes on when there is room', async t => {
  const disk = smallDisk(t, 32 * 1024 * 1024)
  if (disk === null) return
  const cwd = t.testdir({ sites: {} })
  const home = join(disk, 'home')
  mkdirSync(home)
  const hub = await startFakeHub(t)
  const agent = await startAgentProcess(t, cwd, ['--hub', hub.url, '--enroll', hub.token()], {
    env: { SVC_HOME: home }
  })
  await hub.connected()
  const site = join(cwd, 'sites', 'a')
  const textOf = (): string => readFileSync(join(site, 'a'), 'utf8')
  const first = await hub.release('proj_a', { a: 'first' }, { deployPath: site })
  await hub.answer(hub.order(first, 'swap'), 'good')
  const second = await hub.release('proj_a', { a: 'second' }, { deployPath: site })
  await hub.answer(hub.order(second, 'prepare', { number: 2 }), 'prepared')

  fillDisk(disk, 0)
  const { attempt } = hub.order(second, 'swap', { number: 2 })
  const { answer, error } = await until(() =>
    hub.reports.flatMap(({ answers }) => answers).find(each => each.attempt === attempt && each.answer !== 'begun')
  )
  t.ok(['failed', 'stuck'].includes(answer), `${answer}: ${error}`)
  t.match(error, /no space|disk is full|are free/i)
  t.equal(textOf(), answer === 'failed' ? 'first' : 'second')
  emptyDisk(disk)
  await hub.answer(hub.order(second, 'swap', { number: 2 }), 'good')
  t.equal(textOf(), 'second')

  // The agent starts again with what it has stored.
  await agent.stop('SIGKILL')
  const before = hub.reports.length
  await startAgentProcess(t, cwd, [], { env: { SVC_HOME: home } })
  await until(() => hub.reports.slice(before).some(({ answers }) => answers[0]?.answer === 'good'))
})
