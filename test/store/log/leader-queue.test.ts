import t from 'tap'
import { createLeaderQueue } from '../../../lib/store/log/leader-queue.js'
import type { LocalCopy } from '../../../lib/store/log/local-copy.js'
import { LostLeadership } from '../../../lib/store/log/redo-log.js'
import { EtcdError } from '../../../lib/store/log/etcd/errors.js'

/** A queue on a log that fails with `error`, and what happened. */
function aQueue({ error = null, fault = null }: { error?: Error | null; fault?: Error | null } = {}) {
  const happened: string[] = []
  const say = (what: string) => () => void happened.push(what)
  const memory = {
    succeed: say('memory succeeds'),
    fail(refusal: Error) {
      happened.push('memory fails')
      return refusal
    }
  }
  const copy = { applied: 7, fault, memory, consider: say('checkpoint'), record: async () => say('recorded')() }
  const queue = createLeaderQueue({
    copy: copy as unknown as LocalCopy,
    log: {
      async append(first) {
        if (error !== null) throw error
        happened.push(`appended ${first}`)
      }
    },
    won: { abandon: say('abandoned') },
    observe: () => {},
    onDurable: say('durable'),
    onFailure: say('failure')
  })
  return { queue, happened }
}

t.test('a write is in etcd first, then on the disk of this hub', async t => {
  const { queue, happened } = aQueue()
  await queue.push('a')
  await queue.settled()
  t.same(happened, ['appended 8', 'recorded', 'memory succeeds', 'checkpoint', 'durable'])
})

t.test('a hub gives its term up when it cannot keep what it appends, or no longer leads', async t => {
  const full = aQueue({ fault: new Error('the disk is full') })
  await full.queue.push('a')
  t.ok(full.happened.includes('abandoned'), 'the write is durable in etcd')

  const lost = aQueue({ error: new LostLeadership() })
  await t.rejects(lost.queue.push('a'), { code: 'no_leader' })
  t.same(lost.happened, ['failure', 'memory fails', 'abandoned'])
})

t.test('a hub leads on while etcd is full', async t => {
  const { queue, happened } = aQueue({ error: new EtcdError(8, 'mvcc: database space exceeded') })
  await t.rejects(queue.push('a'), { code: 'disk_full' })
  t.same(happened, ['failure', 'memory fails'])
})
