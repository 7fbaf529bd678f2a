import t from 'tap'
import { createConnection, pauseMs } from '../../../www/server/client.js'

t.test('a change is told once, and only when it is one', async t => {
  const connection = createConnection()
  const told: string[] = []
  connection.addEventListener('change', () => told.push(connection.state))
  for (const state of ['open', 'lost', 'lost', 'open'] as const) connection.set(state)
  t.same(told, ['lost', 'open'])
})

t.test('pauses double up to the longest, and spread', async t => {
  t.same([0, 1, 2, 3].map(attempt => pauseMs(attempt, () => 0.5)), [500, 1000, 2000, 4000])
  t.equal(pauseMs(20, () => 0.5), 15_000)
  t.equal(pauseMs(20, () => 0), 11_250)
})
