import t from 'tap'
import type { AuditEvent } from '../../../lib/model/audit.js'
import { createTargets } from '../../../lib/operate/notify/targets.js'
import { Webhook } from '../../../lib/operate/notify/webhook.js'
import { type Attempted, createLane, MessageQueue } from '../../../lib/operate/notify/message-queue.js'
import { notificationOf } from '../../../lib/operate/notify/events.js'
import type { Store } from '../../../lib/core/store/database.js'
import { insertNotificationTarget, queueOf, updateNotificationTarget } from '../../../lib/core/store/tables/server.js'
import { aTarget } from '../../support/notification-target.js'
import { occasion } from '../../support/occasion.js'
import { startReceiver } from '../../support/receiver.js'
import { openStage } from '../../support/store.js'
import { until } from '../../support/until.js'

type Stage = Awaited<ReturnType<typeof openStage>>

/** The notifications of one start of a server. */
function startWebhook({ store, clock, ids, audit }: Stage) {
  const audits: AuditEvent[] = []
  const webhook = new Webhook({
    store,
    targets: createTargets({
      store,
      clock,
      ids,
      audit,
      settings: { text: () => '', list: () => [] },
      isProject: () => true
    }),
    audit: async event => void audits.push(event),
    clock,
    ids,
    version: '1.2.3',
    publicUrl: null,
    log: () => {}
  })
  t.teardown(() => webhook.stop({ graceMs: 0 }))
  return { webhook, audits }
}

const notification = (id: string) => notificationOf(occasion({ deployment: { id } as never }), 0, null)

/** A queue whose attempts a test decides. */
async function aQueue(stage: Stage, attempt: (id: string) => Attempted, limits: object = {}) {
  const tried: string[] = []
  const ends: string[] = []
  const queue = new MessageQueue({
    ...stage,
    attempt: async (_, notification) => {
      const { id } = (notification as ReturnType<typeof notificationOf>).deployment
      tried.push(id)
      return attempt(id)
    },
    delivered: () => ends.push('delivered'),
    refused: async (_, __, { reason, attempts }) => void ends.push(`${reason} ${attempts}`),
    dropped: async ({ name }, count, why) => void ends.push(`${name} ${count} ${why}`),
    log: (_, error) => void ends.push(String(error)),
    limits: { waitsMs: [10, 20], ...limits }
  })
  t.teardown(() => queue.stop({ graceMs: 0 }))
  return { queue, tried, ends }
}

async function withTarget(t: Parameters<typeof openStage>[0], fields: object = {}): Promise<Stage> {
  const stage = await openStage(t)
  await stage.store.write(tx => insertNotificationTarget(tx, aTarget(fields)))
  return stage
}

const failed = (fields: object = {}): Attempted => ({
  outcome: 'failed',
  mayRetry: true,
  reason: 'answered 503',
  retryAfterMs: 0,
  ...fields
})
const waitingIn = (store: Store): number => queueOf(store, 'ntf_a').waiting

t.test('what a receiver refuses for now arrives later, in order, with the same id, also after a restart', async t => {
  const receiver = await startReceiver(t)
  receiver.behave({ status: 429, body: '', headers: { 'retry-after': '3600' } })
  const stage = await withTarget(t, { url: receiver.url, secret: 'whsec_c2VjcmV0' })
  const { store, clock } = stage
  const first = startWebhook(stage)
  first.webhook.start()
  for (const id of ['dep_1', 'dep_2']) first.webhook.notify(occasion({ deployment: { id } as never }))
  await until(() => queueOf(store, 'ntf_a').problem !== null)
  t.match(queueOf(store, 'ntf_a'), {
    waiting: 2,
    problem: 'answered 429',
    nextAt: new Date(clock.now() + 3_600_000).toISOString()
  })
  await first.webhook.stop({ graceMs: 1_000 })
  t.equal(receiver.requests.length, 1, 'it is not asked again before its time')
  t.same(first.audits, [])
  const rows = JSON.stringify(store.all('SELECT * FROM waitingMessages'))
  t.notMatch(rows, /secret|c2VjcmV0|127\.0\.0\.1/, 'neither addresses nor secrets are stored with messages')

  receiver.behave(200)
  clock.advance(3_600_000)
  const second = startWebhook(stage)
  second.webhook.start()
  await until(() => waitingIn(store) === 0)
  t.same(
    receiver.requests.map(({ text }) => JSON.parse(text).deployment.id),
    ['dep_1', 'dep_1', 'dep_2']
  )
  t.equal(receiver.requests[0]?.headers['webhook-id'], receiver.requests[1]?.headers['webhook-id'])
  t.match(second.webhook.deliveries(), { delivered: 2 })
})

t.test('waits longer each time, and tries at once after a change of the target', async t => {
  const stage = await withTarget(t)
  const { queue, tried } = await aQueue(stage, () => failed(), { waitsMs: [0, 60_000, 120_000] })
  queue.start()
  await queue.add('ntf_a', notification('dep_1'))
  await until(() => tried.length === 2)
  const nextAt = (): number => Date.parse(queueOf(stage.store, 'ntf_a').nextAt ?? '') - stage.clock.now()
  await until(() => nextAt() === 60_000)
  queue.retry('ntf_a')
  await until(() => nextAt() === 120_000)
  t.equal(tried.length, 3)
})

t.test('tries again for a change of the target that came during an attempt', async t => {
  const stage = await withTarget(t)
  const { queue, tried } = await aQueue(
    stage,
    () => {
      if (tried.length === 1) queue.retry('ntf_a')
      return failed()
    },
    { waitsMs: [60_000, 120_000] }
  )
  queue.start()
  await queue.add('ntf_a', notification('dep_1'))
  await until(() => tried.length === 2)
  await until(() => Date.parse(queueOf(stage.store, 'ntf_a').nextAt ?? '') - stage.clock.now() === 120_000)
  t.equal(tried.length, 2, 'once')
})

t.test('a message that is refused for good delays no other', async t => {
  const stage = await withTarget(t)
  const { queue, ends } = await aQueue(stage, id =>
    id === 'dep_1' ? failed({ mayRetry: false, reason: 'answered 404' }) : { outcome: 'delivered' }
  )
  for (const id of ['dep_1', 'dep_2']) await queue.add('ntf_a', notification(id))
  t.equal(waitingIn(stage.store), 2, 'nothing is sent before the start')
  queue.start()
  await until(() => ends.length === 2)
  t.same(ends, ['answered 404 1', 'delivered'])
})

t.test('drops what is too old or too much, and counts it', async t => {
  const stage = await withTarget(t)
  const { queue, tried, ends } = await aQueue(stage, () => failed(), { messages: 3, waitsMs: [60_000] })
  queue.start()
  await queue.add('ntf_a', notification('dep_0'))
  await until(() => queueOf(stage.store, 'ntf_a').problem !== null)
  for (let i = 1; i < 7; i++) await queue.add('ntf_a', notification(`dep_${i}`))
  t.match(queueOf(stage.store, 'ntf_a'), { waiting: 3, dropped: 4 })
  queue.retry('ntf_a')
  await until(() => ends.length === 1)
  t.match(ends, [/^team 4 more than 3 were waiting/])
  await until(() => tried.at(-1) === 'dep_4')
  await until(() => queueOf(stage.store, 'ntf_a').problem !== null)
  stage.clock.advance(25 * 3_600_000)
  queue.retry('ntf_a')
  await until(() => ends.length === 2)
  t.equal(ends[1], 'team 3 not delivered within 24 h. Latest attempt: answered 503')
  t.match(queueOf(stage.store, 'ntf_a'), { waiting: 0, dropped: 7 })
})

t.test('keeps the messages of a disabled target until it is enabled', async t => {
  const stage = await withTarget(t, { enabled: false })
  const { queue, tried } = await aQueue(stage, () => ({ outcome: 'delivered' }))
  queue.start()
  await queue.add('ntf_a', notification('dep_1'))
  await new Promise(resolve => setTimeout(resolve, 30))
  t.same(tried, [])
  await stage.store.write(tx => updateNotificationTarget(tx, 'ntf_a', { enabled: true }))
  queue.retry('ntf_a')
  await until(() => waitingIn(stage.store) === 0)
  t.same(tried, ['dep_1'])
})

t.test('does not send again what was delivered, if that cannot be stored', async t => {
  const stage = await withTarget(t)
  let isFull = false
  const store: Store = Object.create(stage.store, {
    write: { value: (work: never) => (isFull ? Promise.reject(new Error('full')) : stage.store.write(work)) }
  })
  const { queue, tried, ends } = await aQueue({ ...stage, store }, () => {
    isFull = true
    return { outcome: 'delivered' }
  })
  queue.start()
  await queue.add('ntf_a', notification('dep_1'))
  await until(() => ends.includes('Error: full'))
  isFull = false
  queue.retry('ntf_a')
  await until(() => waitingIn(stage.store) === 0)
  t.same(tried, ['dep_1'])
})

t.test('runs some in parallel, the others in order, and refuses too many', async t => {
  const lane = createLane({ keys: 2, shared: 1, perKey: 2, waitingPerKey: 2 })
  const started: number[] = []
  const ends: Array<() => void> = []
  const add = (n: number) =>
    lane.add(
      'one',
      () =>
        new Promise<void>(resolve => {
          started.push(n)
          ends.push(resolve)
        })
    )
  t.same([1, 2, 3, 4, 5].map(add), [true, true, true, true, false])
  t.same(started, [1, 2])
  let isIdle = false
  const idle = lane.idle().then(() => void (isIdle = true))
  ends[1]?.()
  await new Promise(setImmediate)
  t.same(started, [1, 2, 3])
  t.equal(isIdle, false)
  for (let at = 0; at < 4; at++) {
    ends[at]?.()
    await new Promise(setImmediate)
  }
  await idle
  t.same(started, [1, 2, 3, 4])
  await lane.idle()
})

t.test('keys whose work never ends delay only themselves, however many there are', async t => {
  const lane = createLane({ keys: 20, shared: 3, perKey: 3, waitingPerKey: 2 })
  const started: string[] = []
  let release = (): void => {}
  const slow = new Promise<void>(resolve => (release = resolve))
  const addSlow = (key: string) =>
    lane.add(key, async () => {
      started.push(key)
      await slow
    })
  const taken = Array.from({ length: 10 }, (_, n) => [1, 2, 3, 4, 5].map(() => addSlow(`slow ${n}`)))
  t.same(taken[0], [true, true, true, true, true], 'three run, two wait')
  t.same(taken[9], [true, true, true, false, false], 'one runs in its own place, two wait')
  t.equal(started.length, 10 + 3, 'each has its place, and one has more')
  started.length = 0
  for (let n = 0; n < 12; n++) t.ok(lane.add('quick', async () => void started.push(`quick ${n}`)) || n > 2)
  while (started.length < 3) await new Promise(setImmediate)
  t.same(started, ['quick 0', 'quick 1', 'quick 2'])
  release()
  await lane.idle()
})

t.test('keys take turns in what they share, and have a limit', async t => {
  const lane = createLane({ keys: 3, shared: 1, perKey: 2, waitingPerKey: 10 })
  const started: string[] = []
  for (const key of ['a', 'a', 'a', 'b', 'b', 'c']) t.ok(lane.add(key, async () => void started.push(key)))
  t.notOk(
    lane.add('d', async () => {}),
    'too many keys'
  )
  await lane.idle()
  t.same(started, ['a', 'a', 'b', 'c', 'a', 'b'])
})
