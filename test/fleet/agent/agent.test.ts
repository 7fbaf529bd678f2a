import t from 'tap'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { startAgentStage } from '../../support/agent-stage.js'
import { startFakeHub } from '../../support/fake-hub.js'
import { until } from '../../support/until.js'

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
