import t from 'tap'
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { defaultSmall } from '../../lib/core/install/unpack/executors.js'
import type { Deployment } from '../../lib/model/deployment.js'
import type { RolloutDetail } from '../../lib/model/rollout.js'
import { startAgentProcess } from '../support/agent-process.js'
import { exactTree } from '../support/exact-tree.js'
import { startFakeHub } from '../support/fake-hub.js'
import { emptyDisk, fillDisk } from '../support/full-disk.js'
import { startServe } from '../support/serve-process.js'
import { smallDisk } from '../support/small-disk.js'
import { svc } from '../support/svc.js'
import { until } from '../support/until.js'

/* Real agents whose disks are full. */

/** A text of this length that does not compress. */
const noise = (length: number): string =>
  Array.from({ length: length / 8 }, () => Math.random().toString(36).slice(2, 10).padEnd(8, '-')).join('')

t.test('a node without room for the archive refuses it, and the others go on', async t => {
  const disk = smallDisk(t, 32 * 1024 * 1024)
  if (disk === null) return
  const cwd = t.testdir({ full: {}, other: {} })
  const hub = await startServe(t, cwd)
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

/** Releases that do not fit, by the way in which they are extracted. */
const ways: Array<[way: string, isSmall: boolean, files: () => Record<string, string>]> = [
  ['without a thread', true, () => ({ large: noise(1_000_000) })],
  ['in a thread', false, () => ({ large: noise(4_000_000) })],
  [
    'in two threads',
    false,
    () => Object.fromEntries(Array.from({ length: 1200 }, (_, at) => [`many/${at}`, noise(2_000)]))
  ]
]

t.test('a disk that fills while a node extracts halts the rollout, which is resumed when there is room', async t => {
  const disk = smallDisk(t, 24 * 1024 * 1024)
  if (disk === null) return
  const cwd = t.testdir()
  const hub = await startServe(t, cwd)
  const { token } = await hub.api<{ token: string }>('POST', '/api/enrollments', {})
  const agent = await startAgentProcess(t, cwd, ['--hub', hub.url, '--name', 'node'], {
    env: { SVC_ENROLL_TOKEN: token }
  })
  await agent.says(/Connected to the hub/)
  const site = join(disk, 'site')
  const [filler, isFilling] = [join(disk, 'filler'), join(cwd, 'filling')]
  const project = await hub.createProject({ name: 'shop', deployPath: join(cwd, 'hub-site') })
  await hub.api('PATCH', `/api/projects/${project.id}/placements`, { add: [{ node: 'node', deployPath: site }] })
  // It runs after the space was checked, and leaves room for a part of the release.
  const preDeployScript = `[ ! -e '${isFilling}' ] || { cat /dev/zero > '${filler}'; truncate -s -600K '${filler}'; }`
  await hub.changeProject(project.id, { preDeployScript })
  const rolloutOf = async (deployId: string): Promise<RolloutDetail> => {
    const { rollouts } = await hub.api<{ rollouts: RolloutDetail[] }>('GET', `/api/rollouts?deployId=${deployId}`)
    return (await hub.api<{ rollout: RolloutDetail }>('GET', `/api/rollouts/${rollouts[0]?.id}`)).rollout
  }
  await (await hub.upload(project, { a: 'first', 'b/c': 'first', 'd/e': 'first' })).finished

  for (const [way, isSmall, files] of ways) {
    const before = exactTree(site)
    writeFileSync(isFilling, '')
    const { deployId, finished } = await hub.upload(project, { a: way, 'b/c': 'first', ...files() })
    t.match((await finished).at(-1), { status: 'failed' }, way)
    const halted = await rolloutOf(deployId)
    const { archiveBytes } = (await hub.deployments(project.id)).find(({ id }) => id === deployId) as Deployment
    t.equal((archiveBytes as number) <= defaultSmall.archiveBytes, isSmall)
    t.match(halted, { state: 'halted', haltedReason: '1 failed (allowed: 0)', counts: { failed: 1 } })
    t.strictSame(exactTree(site), before, `the target is as it was: ${way}`)
    const [node] = halted.nodes
    const said = `Extracting the archive failed: The target was left as it was: no space left on device in "${site}", `
    t.match(node, { phase: 'failed', failedStep: 'extract' })
    t.ok(node?.error?.startsWith(said), node?.error ?? 'no error')
    t.match(node?.error, /where 6\d\d KB are free/)
    const [record] = await agent.api<Deployment[]>('GET', `/api/logs?projectId=${project.id}`)
    t.match(record, { status: 'failed', errorMessage: node?.error, placed: null })
    t.strictSame(
      readdirSync(join(agent.home, 'deployments')).filter(name => name.endsWith('.undo')),
      []
    )

    rmSync(isFilling)
    rmSync(filler)
    const env = { SVC_SERVER_URL: hub.url, SVC_TOKEN: hub.adminToken }
    t.match(await svc(['rollout', 'resume', halted.id], { cwd, env }), { code: 0, stdout: /done/ })
    t.match(await rolloutOf(deployId), { state: 'done', counts: { good: 1 } })
    t.equal(readFileSync(join(site, 'a'), 'utf8'), way)
  }
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
