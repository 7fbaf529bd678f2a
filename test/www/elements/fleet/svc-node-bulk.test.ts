import '../../../support/without-dom.js'
import t from 'tap'
import { askEach } from '../../../../www/elements/fleet/svc-node-bulk.js'
import { Refused, Unreachable } from '../../../../www/server/client.js'

const items = Array.from({ length: 20 }, (_, index) => index)
const refused = (status: number): Refused => new Refused(status, { error: 'no', code: 'no' }, null)
const never = { isStopped: () => false, onProgress: () => undefined }

t.test('asks for every item, a few at a time, and keeps the refusals of single items', async t => {
  let [running, most] = [0, 0]
  const counts: number[] = []
  const ask = async (item: number): Promise<void> => {
    most = Math.max(most, ++running)
    await new Promise(resolve => setImmediate(resolve))
    running--
    if (item % 7 === 0) throw refused(item === 7 ? 404 : 409)
  }
  const { done, failed, left } = await askEach(items, ask, { ...never, onProgress: count => void counts.push(count) })
  t.equal(done.length, 17)
  t.same(
    failed.map(({ item }) => item),
    [0, 7, 14]
  )
  t.same(left, [])
  t.equal(most, 4)
  t.same(
    counts,
    items.map(item => item + 1)
  )
})

t.test('ends when it is stopped, and after an error that every item would meet', async t => {
  let asked = 0
  const stopped = await askEach(items, async () => void asked++, { ...never, isStopped: () => asked === 6 })
  t.same(stopped, { done: items.slice(0, 6), failed: [], left: items.slice(6) })
  for (const error of [new Unreachable(null), refused(401), refused(403), refused(429), refused(503)]) {
    const { done, failed, left } = await askEach(
      items,
      async item => {
        if (item >= 8) throw error
      },
      never
    )
    t.same(done, items.slice(0, 8), error.message)
    t.ok(failed.length >= 1 && failed.length <= 4)
    t.same(left, items.slice(8 + failed.length))
  }
})
