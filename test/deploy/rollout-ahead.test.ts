import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { StopRequest } from '../../lib/deploy/failure.js'
import { createQueue } from '../../lib/deploy/queue.js'
import { addSaying } from '../../lib/deploy/rollout-ahead.js'
import { beginRollout } from '../support/fleet-rollout.js'
import { ana, openFleet } from '../support/fleet-stage.js'
import { until } from '../support/until.js'

t.test('a deployment that waits names the rollout ahead, and another one that follows it', async t => {
  const stage = await openFleet(t, ['a'])
  const queue = createQueue()
  const said: string[] = []
  const add = (id: string, run: () => Promise<unknown>): number =>
    addSaying({ store: stage.store, queue }, { key: 'proj_a', id, run, async drop() {} }, line =>
      said.push(`${id} ${line}`)
    )
  const first = await beginRollout(stage)
  let end = (): void => {}
  t.equal(
    add('dep_1', () => new Promise<void>(resolve => (end = resolve))),
    0
  )
  t.equal(
    add('dep_2', async () => {}),
    1
  )
  t.equal(
    add('dep_3', async () => {}),
    2
  )
  await until(() => said.length === 2)
  t.match(
    said[0],
    `dep_2 → waits: rollout ${first} has been in progress since 2030-01-01T00:00:00.000Z. "svc rollout status`
  )
  const second = await beginRollout(stage)
  await until(() => said.length === 4)
  t.match(said[2], `dep_2 → waits: rollout ${second} has been in progress`)
  await queue.takeBack('dep_3')?.drop(new StopRequest('cancel', 'test'))
  await stage.hub.rollouts.halt(second, null, ana)
  end()
  await until(() => queue.count('proj_a') === 0)
  t.equal(said.length, 4, 'one that does not wait says nothing')
})

t.test('what a stop leaves to the next start reads no closed database', async t => {
  const stage = await openFleet(t, ['a'])
  const queue = createQueue()
  const entry = { key: 'proj_a', async drop() {} }
  const said: string[] = []
  queue.add({ ...entry, id: 'dep_1', run: () => new Promise(() => {}) })
  await beginRollout(stage)
  addSaying({ store: stage.store, queue }, { ...entry, id: 'dep_2', async run() {} }, line => said.push(line))
  await until(() => said.length === 1)
  t.equal(queue.isWaiting('dep_2'), true)
  const readable = stage.store.all
  stage.store.all = () => {
    throw new Error('The database cannot be read')
  }
  await sleep(2500)
  stage.store.all = readable
  queue.takeBackAll()
  await stage.store.close()
  await sleep(2500)
  t.equal(said.length, 1)
})
