import t from 'tap'
import { startAgentStage } from '../../support/agent-stage.js'
import { until } from '../../support/until.js'

t.test('a stream that breaks, or is silent, is opened again', async t => {
  const stage = await startAgentStage(t, {
    times: { waits: { jitterMs: 10, firstMs: 10, longestMs: 50, silentMs: 300 } }
  })
  const { hub } = stage
  hub.cut()
  await until(() => hub.streams() === 0)
  await hub.connected()
  hub.heartbeatMs = null
  await until(() => stage.said.some(line => /silent for 0.3 s/.test(line)))
  hub.heartbeatMs = 100
  await hub.connected()
  const release = await hub.release('proj_a', { a: '1' }, { deployPath: `${stage.sites}/a` })
  await hub.answer(hub.order(release, 'prepare'), 'prepared')
})

t.test('while there is no hub, attempts continue, and are reported once', async t => {
  const stage = await startAgentStage(t)
  const { hub } = stage
  hub.intercept = (_, response) => Boolean(response.writeHead(503).end())
  hub.cut()
  const count = (): number => hub.seen.filter(line => /session|desired/.test(line)).length
  const before = count()
  await until(() => count() > before + 3)
  t.equal(stage.said.filter(line => /Cannot connect to the hub/.test(line)).length, 1, stage.said.join('|'))
  hub.intercept = null
  await hub.connected()
})

t.test('lines without a valid signature are ignored', async t => {
  const stage = await startAgentStage(t)
  const { hub } = stage
  const release = await hub.release('proj_a', { a: '1' }, { deployPath: `${stage.sites}/a` })
  const order = hub.order(release, 'prepare')
  await hub.answer(order, 'prepared')
  hub.send({ ...order, attempt: 99, action: 'swap' })
  await until(() => stage.said.some(line => /Ignored a line of the hub \(order\)/.test(line)))
  await hub.answer(hub.order(release, 'hold'), 'held')
})

t.test('a hub with a new key is believed if the earlier key says so', async t => {
  const stage = await startAgentStage(t)
  const { hub } = stage
  const release = await hub.release('proj_a', { a: '1' }, { deployPath: `${stage.sites}/a` })
  hub.send(hub.rotate())
  await hub.answer(hub.order(release, 'prepare'), 'prepared')
  const stranger = hub.rotate()
  hub.rotate()
  hub.send({ ...stranger, type: 'heartbeat' })
  hub.order(release, 'swap')
  await until(() => stage.said.some(line => /Ignored a line/.test(line)))
})
