import { EventEmitter } from 'node:events'
import t from 'tap'
import type { Host } from '../../lib/cli/host.js'
import { withInterrupts } from '../../lib/cli/interrupts.js'
import { Interrupted } from '../../lib/cli/terminal/prompt.js'

const hostWith = (isTTY: boolean): Host & EventEmitter =>
  Object.assign(new EventEmitter(), { stderr: { isTTY } }) as unknown as Host & EventEmitter

for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) {
  t.test(`${signal} on a terminal aborts the work, and the listeners are removed`, async t => {
    const host = hostWith(true)
    const work = withInterrupts(host, async aborted => {
      host.emit(signal)
      aborted.throwIfAborted()
    })
    await t.rejects(work, Interrupted)
    t.same(host.eventNames(), [])
  })
}

t.test('without a terminal, SIGHUP is not handled, so that nohup works', async t => {
  const host = hostWith(false)
  await withInterrupts(host, async () => t.same(host.eventNames(), ['SIGINT', 'SIGTERM']))
  t.same(host.eventNames(), [])
})
