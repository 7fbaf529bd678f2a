import { existsSync } from 'node:fs'
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

t.test('a line that is not one of the hub ends the stream, and is named', async t => {
  const stage = await startAgentStage(t)
  const { hub } = stage
  const release = await hub.release('proj_a', { a: '1' }, { deployPath: `${stage.sites}/a` })
  const order = hub.order(release, 'prepare')
  await hub.answer(order, 'prepared')
  const swap = { ...order, attempt: 99, action: 'swap' as const }
  const forgeries: Array<[what: string, text: () => string, why: RegExp]> = [
    ['an order', () => `${JSON.stringify(swap)}\n`, /it is not signed/],
    ['a removal', () => '{"type":"unplaced","projectId":"proj_a"}\n', /it is not signed/],
    ['a welcome', () => '{"type":"welcome","version":"1","heartbeatMs":1,"hubs":["http://b"]}\n', /it is not signed/],
    ['a heartbeat', () => '{"type":"heartbeat"}\n', /it is not signed/],
    ['a doubled line', () => hub.sealed({ type: 'heartbeat' }).repeat(2), /it has the number \d+ instead of/],
    ['a gap', () => (hub.sealed({ type: 'heartbeat' }), hub.sealed({ type: 'heartbeat' })), /instead of/],
    ['a changed line', () => hub.sealed(swap).replace('"attempt":99', '"attempt":98'), /has not signed it/]
  ]
  for (const [what, text, why] of forgeries) {
    const before = stage.said.length
    hub.write(text())
    await until(() => stage.said.slice(before).some(line => why.test(line)))
    await until(() => stage.said.slice(before).some(line => /^Connected/.test(line)))
    t.match(stage.said.slice(before).join(), /The connection to the hub was lost: Refused a line of the hub/, what)
  }
  await hub.answer(hub.order(release, 'hold'), 'held')
  t.notOk(existsSync(`${stage.sites}/a/a`), 'nothing was put in place')
})

t.test('a hub with a new key is believed if the earlier key says so', async t => {
  const stage = await startAgentStage(t)
  const { hub } = stage
  const release = await hub.release('proj_a', { a: '1' }, { deployPath: `${stage.sites}/a` })
  hub.rotate()
  hub.tellKey()
  await hub.answer(hub.order(release, 'prepare'), 'prepared')
  hub.rotate()
  await hub.answer(hub.order(release, 'hold'), 'held')
  t.ok(
    stage.said.some(line => /Refused a line of the hub/.test(line)),
    'it was not told, and learned it with a new session'
  )
})

t.test('a recording of a session is of no use, nor is a server without the key', async t => {
  const stage = await startAgentStage(t)
  const { hub } = stage
  const bodies: string[] = []
  const record = hub.recorded
  hub.cut()
  await until(() => record.sessions.length > 1)
  bodies.push(...record.sessions)
  hub.intercept = ({ url = '' }, response) =>
    url.endsWith('/session') ? Boolean(response.writeHead(200).end(bodies[0])) : false
  hub.cut()
  await until(() => stage.said.some(line => /does not have the key of the hub/.test(line)))
  hub.intercept = ({ url = '' }, response) =>
    url.endsWith('/session') ? Boolean(response.writeHead(200).end('{"success":true,"session":"s"}')) : false
  await until(() => stage.said.some(line => /Upgrade svc on the hub/.test(line)))
  t.equal(hub.streams(), 0)
  hub.intercept = null
  await hub.connected()
})
