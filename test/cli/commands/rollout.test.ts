import t from 'tap'
import { shownFlag } from '../../../lib/cli/command.js'
import {
  waitOption,
  afterEvent,
  createRolloutView,
  eventsOf,
  followRollout
} from '../../../lib/cli/commands/rollout.js'
import { startFleet } from '../../support/fleet-on-server.js'
import { beginRollout } from '../../support/fleet-rollout.js'
import { failsToSwap, obeys } from '../../support/obedient-agent.js'
import { until } from '../../support/until.js'
import { PassThrough } from 'node:stream'
import { Refusal } from '../../../lib/base/errors.js'
import { createClient } from '../../../lib/cli/client/client.js'
import { isBroken, streamBroken } from '../../../lib/cli/client/answer.js'
import type { RolloutDetail, RolloutEvent } from '../../../lib/model/rollout.js'
import { rolloutDetail, rolloutNode } from '../../support/a-rollout.js'

t.test('a rollout that is halted again is a failure, in JSON as well', async t => {
  t.equal(shownFlag('wait', waitOption), '--no-wait')
  const { hub, shop, run } = await startFleet(t, ['web-1'], { 'web-1': failsToSwap })
  const id = await beginRollout({ hub }, {}, shop.id)
  t.match(await run(`rollout status ${id} --follow`), { code: 1 })
  const again = await run(`rollout resume ${id} --json`)
  t.match(again, { code: 1, stderr: new RegExp(`next: svc rollout revert ${id}`) })
  t.match(JSON.parse(again.stdout), { id, state: 'halted', nodes: [{ phase: 'failed', failedStep: 'check' }] })
  t.match(await run(`rollout revert ${id}`), { code: 0, stdout: /reverted/ })
})

t.test('shows the waves of the newest rollout, and what to do about a halted one', async t => {
  const { stage, hub, shop, agents, run } = await startFleet(t, ['web-1', 'web-2', 'web-3'], { 'web-2': failsToSwap })
  t.match(await run('rollout status --project shop'), { code: 1, stderr: /no rollout/ })
  const id = await beginRollout({ hub }, { then: '100%' }, shop.id)
  await until(async () => {
    const { nodes } = (await stage.client.get(`/api/rollouts/${id}`)).body.rollout
    return nodes.filter(({ phase }: { phase: string }) => phase === 'good').length === 2
  })
  const watched = await run('rollout status --project shop --follow')
  t.match(watched.code, 1)
  t.match(watched.stderr, new RegExp(`${id}: halted: 1 failed`))
  t.match(watched.stderr, /✗ web-2: check: Check http:\S+ answered 502/)
  t.match(watched.stdout, /wave 1\/2 {2}web-1 {2}✓ {2}1 good\nwave 2\/2 {2}web-2, web-3 {2}✗✓ {2}1 failed, 1 good/)
  t.match(
    watched.stderr,
    `next: svc rollout revert ${id} --project shop   or   svc rollout resume ${id} --project shop`
  )

  t.match(await run('rollout list'), { code: 0, stdout: new RegExp(`\\n${id} +shop +halted: 1 failed`) })
  agents.get('web-2')?.behave(obeys)
  const resumed = await run('rollout resume --project shop')
  t.match(resumed, { code: 0, stdout: /done\n/ })
  t.match(await run(`rollout status ${id}`), { code: 0, stdout: /3 nodes, 2 waves\ndone/ })
  t.match(await run('rollout list shop --state halted'), { code: 0, stdout: '', stderr: /no rollout/ })
  const [listed] = JSON.parse((await run('rollout list shop --json')).stdout)
  t.match(listed, { id, state: 'done', counts: { good: 3 } })
})

t.test('Ctrl-C stops watching: the rollout continues, and the note says how to halt it', async t => {
  const { stage, hub, shop, run } = await startFleet(t, ['web-1', 'web-2'])
  const id = await beginRollout({ hub }, { pause: 'approve' }, shop.id)
  const detached = await run(`rollout status ${id} --follow`, { interruptAt: /waits for an approval/ })
  t.match(detached, { code: 130, stderr: new RegExp(`continues. Halt it with: svc rollout halt ${id}\n`) })
  t.equal((await stage.client.get(`/api/rollouts/${id}`)).body.rollout.state, 'approval')

  t.match(await run(`rollout status ${id}`), { code: 0, stderr: new RegExp(`next: svc rollout approve ${id}`) })
  t.match(await run('rollout approve --project shop', { env: { SVC_TOKEN: '', SVC_DEPLOY_TOKEN: shop.token } }), {
    code: 1
  })
  t.match(await run('rollout approve --project shop'), { code: 0, stdout: /Began wave 2 of 2/ })
  t.match(await run(`rollout status ${id} --follow`), { code: 0, stdout: /done/ })
})

t.test('a rollout is halted with a reason', async t => {
  const { hub, shop, run } = await startFleet(t, ['web-1', 'web-2'])
  const id = await beginRollout({ hub }, { pause: 'approve' }, shop.id)
  await run(`rollout status ${id} --follow`, { interruptAt: /waits for an approval/ })
  const halted = await run(`rollout halt ${id} --reason errors --json`)
  t.match(JSON.parse(halted.stdout), { id, state: 'halted', haltedReason: /errors/ })
  t.match(await run(`rollout halt ${id}`), { code: 1, stderr: /halted/ })
  t.match(await run('rollout resume --project shop --no-wait'), { code: 0, stdout: `Continued ${id}\n` })
})

t.test('waits until the nodes are back, from a wave on or all of them', async t => {
  const { hub, shop, run } = await startFleet(t, ['web-1', 'web-2'])
  const id = await beginRollout({ hub }, {}, shop.id)
  t.match(await run(`rollout status ${id} --follow`), { code: 0 })
  const second = await run(`rollout revert --project ${shop.id} --wave 2`, {
    env: { SVC_TOKEN: '', SVC_DEPLOY_TOKEN: shop.token }
  })
  t.match(second, { code: 0, stdout: /wave 1\/2 {2}web-1 {2}✓ {2}1 good\nwave 2\/2 {2}web-2 {2}↶ {2}1 reverted/ })
  t.match(JSON.parse((await run(`rollout revert ${id} --json`)).stdout), { state: 'reverted', counts: { reverted: 2 } })
})

t.test('a node that cannot go back is a failure', async t => {
  const stays = {
    'web-1': (order: Parameters<typeof obeys>[0]) => (order.action === 'revert' ? ['stuck', 'No copy'] : obeys(order))
  }
  const { hub, shop, run } = await startFleet(t, ['web-1'], stays as never)
  const id = await beginRollout({ hub }, {}, shop.id)
  await run(`rollout status ${id} --follow`)
  t.match(await run(`rollout revert ${id}`), { code: 1, stdout: /! {2}1 stuck\n\n! web-1: check: No copy/ })
})

/* test/cli/commands/rollout.test.ts watches real rollouts. */
const begun = rolloutDetail([rolloutNode('web-1'), rolloutNode('web-2', { wave: 2 })])
const { nodes: _, ...listed } = begun

/** Follows streams, one after the other; the last event of each is followed by its error. */
function following(streams: Array<[RolloutEvent[], Error | null]>) {
  const shown: RolloutDetail[] = []
  const given = {
    async *open() {
      const [events, error] = streams.shift() ?? [[], null]
      yield* events
      if (error !== null) throw error
    },
    view: { show: (rollout: RolloutDetail) => void shown.push(rollout), end: () => {} },
    signal: new AbortController().signal
  }
  return { given, shown }
}

t.test('a node that changes is replaced, and the numbers follow', async t => {
  t.equal(afterEvent(null, { type: 'state', rollout: listed }), null)
  const after = afterEvent(begun, { type: 'node', node: rolloutNode('web-1', { phase: 'good' }) })
  t.match(after, { counts: { good: 1, prepared: 1 }, nodeCount: 2, nodes: [{ phase: 'good' }, { phase: 'prepared' }] })
  const added = afterEvent(begun, { type: 'node', node: rolloutNode('web-3', { wave: 2 }) })
  t.match(added, { nodeCount: 3, counts: { prepared: 3 } })
  t.match(afterEvent(begun, { type: 'state', rollout: { ...listed, state: 'halted' } }), {
    state: 'halted',
    nodes: { length: 2 }
  })
})

t.test('follows to the end, over a lost connection', async t => {
  const { given, shown } = following([
    [[{ type: 'rollout', rollout: begun }], streamBroken()],
    [
      [
        { type: 'rollout', rollout: begun },
        { type: 'state', rollout: { ...listed, wave: 2 } },
        { type: 'end', rollout: { ...listed, state: 'done' } }
      ],
      null
    ]
  ])
  t.match(await followRollout(given), { state: 'done', nodes: { length: 2 } })
  t.equal(shown.length, 4)
})

t.test('throws what reconnecting cannot cure', async t => {
  const gone = following([[[], new Refusal('not_found', 'not_found', 'Rollout not found: "ro_a"')]])
  await t.rejects(followRollout(gone.given), { code: 'not_found' })
})

t.test('throws the reason of the signal', async t => {
  const controller = new AbortController()
  const { given } = following([[[{ type: 'rollout', rollout: begun }], streamBroken()]])
  const reason = new Error('interrupted')
  const running = followRollout({ ...given, signal: controller.signal })
  setImmediate(() => controller.abort(reason))
  await t.rejects(running, reason)
})

/** Returns a view on a stream, and what it has written so far. */
function viewOn(terminal: { columns: number; rows: number } | null) {
  const stream = new PassThrough()
  Object.assign(stream, terminal === null ? {} : { isTTY: true, ...terminal })
  const view = createRolloutView({ stderr: stream as never, env: { NO_COLOR: '1' } })
  return { view, written: () => String(stream.read() ?? '') }
}

t.test('elsewhere than on a terminal, a line says what changed', async t => {
  const { view, written } = viewOn(null)
  const node = rolloutNode('web-1')
  view.show(rolloutDetail([node], { state: 'preparing', wave: 0 }))
  view.show(rolloutDetail([node], { state: 'preparing', wave: 0 }))
  view.show(rolloutDetail([node]))
  const failed = rolloutNode('web-1', { phase: 'failed', error: 'No space' })
  view.show(rolloutDetail([failed], { state: 'halted', haltedReason: '1 failed (allowed: 0)' }))
  view.show(rolloutDetail([failed], { state: 'halted', haltedReason: '1 failed (allowed: 0)' }))
  view.end()
  t.strictSame(written().split('\n'), [
    'ro_a: preparing',
    'ro_a: in progress, wave 1 of 1',
    '✗ web-1: No space',
    'ro_a: halted: 1 failed (allowed: 0)',
    ''
  ])
})

t.test('on a terminal, a block is drawn over the one before, and removed at the end', async t => {
  const { view, written } = viewOn({ columns: 30, rows: 24 })
  view.show(rolloutDetail([rolloutNode('web-1')]))
  await new Promise(resolve => setTimeout(resolve, 20))
  const first = written()
  t.match(first, /wave 1\/1 {2}web-1 {2}●/)
  t.notMatch(first, /\x1b\[\d+A/)
  view.show(rolloutDetail([rolloutNode('web-1', { phase: 'good' })]))
  await new Promise(resolve => setTimeout(resolve, 150))
  // The head is wider than the terminal and takes two rows.
  t.match(written(), /^\x1b\[5A\r\x1b\[J[^]*✓/)
  view.end()
  t.equal(written(), '\x1b[5A\r\x1b[J')
})

t.test('a block is not higher than the terminal', async t => {
  const { view, written } = viewOn({ columns: 100, rows: 10 })
  view.show(rolloutDetail(Array.from({ length: 30 }, (_, at) => rolloutNode(`web-${at}`, { wave: at + 1 }))))
  await new Promise(resolve => setTimeout(resolve, 20))
  t.equal(written().split('\n').length, 9)
  view.end()
})

t.test('the newest rollout of the project is meant, unless an id is given', async t => {
  const { hub, shop, run } = await startFleet(t, ['web-1'])
  const first = await beginRollout({ hub }, {}, shop.id)
  await run(`rollout status ${first} --follow`)
  const second = await beginRollout({ hub }, {}, shop.id)
  await run(`rollout status ${second} --follow`)
  for (const word of [shop.id, 'shop'])
    t.match(JSON.parse((await run(`rollout status --project ${word} --json`)).stdout), { id: second })
  t.match(JSON.parse((await run(`rollout status ${first} --json`)).stdout), { id: first })
  t.match(await run('rollout status'), { code: 1, stderr: /--project/ })
  t.match(await run('rollout status ro_unknown'), { code: 1, stderr: /not found/ })
})

t.test('follows the events to their end, and throws for a connection that breaks', async t => {
  const { stage, hub, shop, env } = await startFleet(t, ['web-1', 'web-2'])
  const token = { value: env.SVC_TOKEN, from: 'the test', origin: null }
  const connect = () => createClient({ serverUrl: stage.url, token, env: {} })
  const id = await beginRollout({ hub }, { pause: 'approve' }, shop.id)
  const isWaiting = async (): Promise<boolean> => {
    const { rollout } = await connect().call('GET /api/rollouts/:rolloutId', { rolloutId: id })
    return rollout.state === 'approval'
  }
  const { signal } = new AbortController()
  const follow = async (): Promise<string[]> => {
    const types: string[] = []
    for await (const { type } of eventsOf(connect(), id, signal)) {
      types.push(type)
      if (types.length === 1 && (await isWaiting())) await stage.restart()
    }
    return types
  }
  await until(isWaiting)
  t.ok(isBroken(await follow().catch((error: unknown) => error)))
  await connect().call('POST /api/rollouts/:rolloutId/halt', { rolloutId: id, body: { reason: 'enough' } })
  t.same(await follow(), ['rollout', 'end'])
  const drained = connect().call('GET /api/nodes/:node', { node: 'web-1/drain' })
  await t.rejects(drained, { code: 'not_found', message: /"web-1\/drain"/ }, 'names are escaped in paths')
  t.match(await connect().call('GET /api/nodes/:node', { node: 'web-1' }), { node: { name: 'web-1' } })
})
