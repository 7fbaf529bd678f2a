import t, { type Test } from 'tap'
import { once } from 'node:events'
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import type { Deployment } from '../../lib/model/deployment.js'
import type { ListedNode } from '../../lib/model/node.js'
import type { RolloutDetail } from '../../lib/model/rollout.js'
import { startAgentProcess, type AgentProcess } from '../support/agent-process.js'
import { exactTree } from '../support/exact-tree.js'
import { startFakeHub, type FakeHub } from '../support/fake-hub.js'
import { startServeProcess } from '../support/serve-process.js'
import { repetitions } from '../support/thorough.js'
import { until } from '../support/until.js'

/** Starts an agent, and again with the same words after each kill. */
function lives(t: Test, hub: FakeHub, cwd: string) {
  let agent: AgentProcess | undefined
  return {
    async start(words: string[] = []): Promise<AgentProcess> {
      agent = await startAgentProcess(t, cwd, words)
      await agent.says(/Connected to the hub/)
      return agent
    },
    async kill(): Promise<void> {
      await agent?.stop('SIGKILL')
    },
    enroll: ['--hub', hub.url, '--enroll', hub.token()]
  }
}

t.test('an agent that is killed at any point of a rollout ends where the hub wants it', async t => {
  const cwd = t.testdir({ sites: {} })
  const hub = await startFakeHub(t)
  const { start, kill, enroll } = lives(t, hub, cwd)
  await start(enroll)
  const site = join(cwd, 'sites', 'a')
  const textOf = (): string => readFileSync(join(site, 'a'), 'utf8')
  const first = await hub.release('proj_a', { a: 'first' }, { deployPath: site })
  await hub.answer(hub.order(first, 'swap'), 'good')

  for (let round = 1; round <= 4; round++) {
    const files: Record<string, string> = { a: `round ${round}` }
    for (let at = 0; at < 200; at++) files[`d/${at}`] = `${round} ${at}`.repeat(100)
    const release = await hub.release('proj_a', files, { deployPath: site })
    const number = round + 1
    hub.order(release, 'prepare', { number })
    await sleep(round * 15)
    await kill()
    await start()
    await hub.answer(hub.order(release, 'prepare', { number }), 'prepared')
    const before = textOf()
    const swap = hub.order(release, 'swap', { number })
    await sleep(round * 25)
    await kill()
    await start()
    const { answer } = await until(() =>
      hub.reports
        .flatMap(({ answers }) => answers)
        .find(each => each.attempt === swap.attempt && each.answer !== 'begun')
    )
    t.ok(['good', 'failed', 'stuck'].includes(answer), `round ${round}: ${answer}`)
    t.equal(textOf(), answer === 'failed' ? before : `round ${round}`)
    if (answer !== 'good') await hub.answer(hub.order(release, 'swap', { number }), 'good')
    t.equal(textOf(), `round ${round}`)
    if (round % 2 === 0) continue
    const revert = hub.order(release, 'revert', { number })
    await sleep(round * 25)
    await kill()
    await start()
    await hub.answer(revert, 'reverted').catch(() => hub.answer(hub.order(release, 'revert', { number }), 'reverted'))
    t.equal(textOf(), before)
  }
})

const killable = fileURLToPath(new URL('../support/killed-agent.js', import.meta.url))

t.test('after a kill just before or after a commit, the answer, the record and the files of a node agree', async t => {
  const cwd = t.testdir()
  const hub = await startServeProcess(t, cwd)
  const { token } = await hub.api<{ token: string }>('POST', '/api/enrollments', {})
  const order = join(cwd, 'order')
  let agent: AgentProcess
  const start = async (words: string[] = []): Promise<void> => {
    agent = await startAgentProcess(t, cwd, words, { env: { SVC_ENROLL_TOKEN: token }, nodeWords: [killable, order] })
    await agent.says(/Connected to the hub/)
  }
  await start(['--hub', hub.url, '--name', 'node'])
  const site = join(cwd, 'site')
  const project = await hub.createProject({ name: 'shop', deployPath: join(cwd, 'hub-site') })
  await hub.api('PATCH', `/api/projects/${project.id}/placements`, { add: [{ node: 'node', deployPath: site }] })
  const newest = async (): Promise<RolloutDetail> => {
    const { rollouts } = await hub.api<{ rollouts: RolloutDetail[] }>('GET', '/api/rollouts?limit=1')
    return (await hub.api<{ rollout: RolloutDetail }>('GET', `/api/rollouts/${rollouts[0]?.id}`)).rollout
  }
  const liveOnHub = async () =>
    (await hub.api<{ node: ListedNode }>('GET', '/api/nodes/node')).node.placements[0]?.liveDeployId ?? null
  await (await hub.upload(project, { a: 'first', 'b/c': 'first', gone: 'first' })).finished
  const first = exactTree(site)
  const firstId = (await newest()).deployId

  /** Orders a kill, begins something, and starts the agent again. Returns whether it was killed. */
  async function killed(when: string, begin: () => Promise<unknown>): Promise<boolean> {
    writeFileSync(order, when)
    const ended = once(agent.child, 'close').then(() => true)
    const isKilled = await Promise.race([ended, begin().then(() => false)])
    rmSync(order)
    if (isKilled) await start()
    return isKilled
  }

  /** Checks that hub, node and record say the same about the files. */
  async function agree(text: string, { nodes, deployId }: RolloutDetail): Promise<void> {
    const phase = nodes[0]?.phase as string
    const isPlaced = phase === 'good' || phase === 'stuck'
    t.ok(isPlaced || phase === 'failed', `${text}: ${phase}`)
    if (isPlaced)
      t.match(exactTree(site), { a: new RegExp(text), 'b/c': new RegExp(text), 'new/one': new RegExp(text) })
    else t.strictSame(exactTree(site), first)
    const [record] = await agent.api<Deployment[]>('GET', `/api/logs?projectId=${project.id}`)
    t.equal(record?.placed !== null, isPlaced, `${text}: its record says what is in place`)
    t.equal(record?.status === 'success', phase === 'good')
    await until(async () => (await liveOnHub()) === (isPlaced ? deployId : firstId))
  }

  // Before the first rename, and before each record of the node from the end of the commit to the end of its duty.
  const step = repetitions(5, 1)
  for (let nth = 0, isKilled = true; isKilled; nth += nth === 0 ? 1 : step) {
    const when = nth === 0 ? 'ready 0' : `done ${nth}`
    let going: Promise<unknown> = Promise.resolve()
    isKilled = await killed(when, async () => {
      going = hub.upload(project, { a: when, 'b/c': when, 'new/one': when }).then(({ finished }) => finished)
      await going
    })
    await going
    const rollout = await newest()
    if (nth === 0) t.match(rollout.nodes, [{ phase: 'failed' }])
    if (nth <= 1) t.ok(isKilled, `${when}: the agent was killed`)
    await agree(when, rollout)
    await killed(when, async () => {
      going = hub.api('POST', `/api/rollouts/${rollout.id}/revert`, {})
      await going
      await until(async () => (await newest()).state === 'reverted')
    })
    await until(async () => (await newest()).state === 'reverted')
    t.strictSame(exactTree(site), first, `${when}: the earlier files are back`)
  }
})

t.test('an agent that is stopped during a swap waits for it', async t => {
  const cwd = t.testdir({ sites: {} })
  const hub = await startFakeHub(t)
  const { start, enroll } = lives(t, hub, cwd)
  const agent = await start(enroll)
  const site = join(cwd, 'sites', 'a')
  const script = 'touch ../began; while [ ! -e ../go ]; do sleep 0.05; done'
  const release = await hub.release('proj_a', { a: '1' }, { deployPath: site, project: { postDeployScript: script } })
  const swap = hub.order(release, 'swap')
  await until(() => existsSync(join(cwd, 'sites', 'began')))
  const stopped = agent.stop()
  await agent.says(/Stopping: waiting/)
  writeFileSync(join(cwd, 'sites', 'go'), '')
  t.equal(await stopped, 0)
  await start()
  await hub.answer(swap, 'good')
})
