import t, { type Test } from 'tap'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { startAgentProcess, type AgentProcess } from '../support/agent-process.js'
import { startFakeHub, type FakeHub } from '../support/fake-hub.js'
import { until } from '../support/until.js'

t.setTimeout(120_000)

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
